"""Stop words: a text message must contain one, and a reply that contains one unsubscribes its sender
(docs/sending.md#opting-out-of-sms)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import category

DEFAULT_STOP_WORD = "STOP"
"""Valid in every list and without a list (docs/sending.md#opting-out-of-sms)."""


def has_stop_word(text: str, words: Iterable[str] = ()) -> bool:
    """Whether the text contains STOP or one of the words, as a whole word and in any case
    (docs/sending.md#opting-out-of-sms)."""
    return any(_has_word(text, word.strip()) for word in (DEFAULT_STOP_WORD, *words))


def _has_word(text: str, word: str) -> bool:
    """Whether the word stands in the text, in any case, with nothing before and after it that belongs to a word:
    letters, digits, marks such as accents, and underscores."""
    found = re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    return any(
        not _is_mark(text[at.start() - 1 : at.start()]) and not _is_mark(text[at.end() : at.end() + 1]) for at in found
    )


def _is_mark(character: str) -> bool:
    return character != "" and category(character).startswith("M")
