"""Number of parts in which a text message is sent and billed (3GPP TS 23.038 and 23.040).

A text whose characters are all in the GSM 7-bit default alphabet or its extension table has up to 160 septets, or 153
in each of several parts. Any other text is UCS-2: 70 code units, or 67 in each part. A character that takes two units,
an extension character or one outside the Basic Multilingual Plane, is never split between two parts.
"""

from __future__ import annotations

MAX_PARTS = 255
"""Of one text: its number has one byte."""
BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("\f^{}\\[~]|€")
_GSM = frozenset(BASIC) | _EXTENDED


def is_gsm(text: str) -> bool:
    """Whether the GSM alphabet has every character; otherwise the text is sent as UCS-2."""
    return _GSM.issuperset(text)


def count_segments(text: str) -> int:
    """The number of parts; an empty text is still one message."""
    return len(split(text))


def split(text: str) -> list[str]:
    """The parts of a text; an empty text is one empty part."""
    if is_gsm(text):
        return _split(text, [2 if character in _EXTENDED else 1 for character in text], alone=160, joined=153)
    return _split(text, [2 if character > "\uffff" else 1 for character in text], alone=70, joined=67)


def _split(text: str, widths: list[int], alone: int, joined: int) -> list[str]:
    if sum(widths) <= alone:
        return [text]
    parts, begin, used = [], 0, 0
    for position, width in enumerate(widths):
        if used + width > joined:
            parts.append(text[begin:position])
            begin, used = position, 0
        used += width
    return [*parts, text[begin:]]
