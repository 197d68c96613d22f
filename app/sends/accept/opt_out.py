"""How the reader of a text message can get out of it (docs/sending.md#opting-out-of-sms)."""

from __future__ import annotations

from collections.abc import Sequence

from app.content.conditionals import unconditional_text
from app.sends.accept.check import SendCheck
from app.sends.accept.senders import Sender
from app.sends.accept.stop_words import DEFAULT_STOP_WORD, has_stop_word


def check_opt_out(check: SendCheck, sender: Sender | None, stop_words: Sequence[str]) -> None:
    """Collects what is wrong with `unsubscribe_type` and with the stop words of the text. `sender` may be unknown."""
    if sender is not None:
        _check_type(check, sender)
    text, asked = check.content.body_text, check.draft.unsubscribe_type in (None, "word")
    # Who does not get the conditional must learn how to get out, too (docs/sending.md#opting-out-of-sms).
    if text and text.strip() and asked and not has_stop_word(unconditional_text(text), stop_words):
        known = ", ".join(dict.fromkeys((DEFAULT_STOP_WORD, *stop_words)))
        detail = f"body_text must contain one of these as a whole word, outside of conditionals: {known}."
        check.errors.add("missing_stop_words", field="body_text", detail=detail)


def _check_type(check: SendCheck, sender: Sender) -> None:
    """A reply, or a link in its place, goes with a number that this service reads; `none` goes with any sender."""
    given = check.draft.unsubscribe_type
    if given is None and sender.virtual and check.draft.message_id is None:
        detail = "unsubscribe_type is required where the sender is a virtual number: none, word or link."
        check.errors.add("required", field="unsubscribe_type", detail=detail)
    if given in ("word", "link") and not sender.virtual:
        check.errors.add("unsubscribe_type_sender_mismatch", field="unsubscribe_type")
