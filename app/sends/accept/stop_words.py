"""Stop words: a text message must contain one, and a reply that contains one unsubscribes its sender
(docs/sending.md#opting-out-of-sms)."""

from __future__ import annotations

import re
from collections.abc import Iterable

DEFAULT_STOP_WORD = "STOP"
"""Valid in every list and without a list (docs/sending.md#opting-out-of-sms)."""


def has_stop_word(text: str, words: Iterable[str] = ()) -> bool:
    """Whether the text contains STOP or one of the words, as a whole word and in any case
    (docs/sending.md#opting-out-of-sms)."""
    alternatives = "|".join(re.escape(word.strip()) for word in (DEFAULT_STOP_WORD, *words))
    return re.search(rf"(?<!\w)(?:{alternatives})(?!\w)", text, re.IGNORECASE) is not None
