"""Stop words: what a text message must offer, and what a reply is read for (docs/sending.md#opting-out-of-sms)."""

from __future__ import annotations

import re
from collections.abc import Iterable

DEFAULT_STOP_WORD = "STOP"
"""Counts in every list and without one (docs/sending.md#opting-out-of-sms)."""


def has_stop_word(text: str, words: Iterable[str] = ()) -> bool:
    """Whether the text holds STOP or one of the words, as a whole word and in any case
    (docs/sending.md#opting-out-of-sms)."""
    known = "|".join(re.escape(word.strip()) for word in (DEFAULT_STOP_WORD, *words))
    return re.search(rf"(?<!\w)(?:{known})(?!\w)", text, re.IGNORECASE) is not None
