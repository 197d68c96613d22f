"""How the reader of a text message can get out of it (specification: Transactional send, rule 8; decisions: 6)."""

from __future__ import annotations

from collections.abc import Iterable

from app.errors import ErrorCollector
from app.sends.content import Content
from app.sends.draft import SendDraft
from app.sends.senders import Sender
from app.sends.stop_words import ALWAYS, has_stop_word


def check_opt_out(
    draft: SendDraft, sender: Sender | None, content: Content, stop_words: Iterable[str], errors: ErrorCollector
) -> None:
    """Collects what is wrong with `unsubscribe_type` and with the stop words of the text. `sender` may be unknown."""
    if sender is not None:
        _check_type(draft, sender, errors)
    if content.body_text and draft.unsubscribe_type in (None, "word"):
        words = tuple(stop_words)
        if not has_stop_word(content.body_text, words):
            known = ", ".join(dict.fromkeys((ALWAYS, *words)))
            detail = f"body_text must contain one of these as a whole word: {known}."
            errors.add("missing_stop_words", field="body_text", detail=detail)


def _check_type(draft: SendDraft, sender: Sender, errors: ErrorCollector) -> None:
    """A reply or a link in its place needs a number that belongs to this service; `none` goes with any sender."""
    if draft.unsubscribe_type is None:
        if sender.virtual and draft.message_id is None:
            detail = "unsubscribe_type is required where the sender is a virtual number: none, word or link."
            errors.add("required", field="unsubscribe_type", detail=detail)
    elif draft.unsubscribe_type != "none" and not sender.virtual:
        errors.add("unsubscribe_type_sender_mismatch", field="unsubscribe_type")
