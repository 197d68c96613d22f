"""How recipients of a text message can opt out (docs/sending.md#opting-out-of-sms)."""

from __future__ import annotations

from collections.abc import Sequence

from app.content.conditionals import unconditional_text
from app.sends.accept.check import SendCheck
from app.sends.accept.senders import Sender
from app.sends.accept.stop_words import DEFAULT_STOP_WORD, has_stop_word


def check_opt_out(check: SendCheck, sender: Sender | None, stop_words: Sequence[str]) -> None:
    """Collects the errors of `unsubscribe_type` and a missing stop word. `sender` is None if it was not found."""
    if sender is not None:
        _check_type(check, sender)
    text, by_word = check.content.body_text, check.draft.unsubscribe_type in (None, "word")
    # Recipients who do not see the conditional need the stop word too (docs/sending.md#opting-out-of-sms).
    if text and text.strip() and by_word and not has_stop_word(unconditional_text(text), stop_words):
        accepted = ", ".join(dict.fromkeys((DEFAULT_STOP_WORD, *stop_words)))
        detail = (
            f"body_text must contain one of these as a whole word, outside of conditionals: {accepted}. A text that "
            "offers a link, or no way out, says so with unsubscribe_type: link or none."
        )
        check.errors.add("missing_stop_words", field="body_text", detail=detail)


def _check_type(check: SendCheck, sender: Sender) -> None:
    """`word` and `link` need a virtual number, whose replies this service receives; `none` goes with any sender."""
    unsubscribe_type = check.draft.unsubscribe_type
    if unsubscribe_type is None and sender.virtual and check.draft.message_id is None:
        detail = "unsubscribe_type is required if the sender is a virtual number: none, word or link."
        check.errors.add("required", field="unsubscribe_type", detail=detail)
    if unsubscribe_type in ("word", "link") and not sender.virtual:
        check.errors.add("unsubscribe_type_sender_mismatch", field="unsubscribe_type")
