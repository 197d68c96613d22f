"""How many parts a text message is billed and sent as (3GPP TS 23.038 and 23.040).

A text whose characters are all in the GSM 7-bit default alphabet or its extension table holds 160 septets, or 153 in
each part when it needs several. Any other text is UCS-2: 70 code units, or 67 in each part. A character that takes two
units, an extension character or one outside the Basic Multilingual Plane, is never cut in two by the end of a part.
"""

from __future__ import annotations

from collections.abc import Iterable

_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("\f^{}\\[~]|€")
_GSM = _BASIC | _EXTENDED


def count_segments(text: str) -> int:
    """The number of parts; an empty text is still one message."""
    if _GSM.issuperset(text):
        return _count([2 if character in _EXTENDED else 1 for character in text], alone=160, joined=153)
    return _count([2 if character > "\uffff" else 1 for character in text], alone=70, joined=67)


def _count(widths: list[int], alone: int, joined: int) -> int:
    return 1 if sum(widths) <= alone else _fill(widths, joined)


def _fill(widths: Iterable[int], size: int) -> int:
    parts, used = 1, 0
    for width in widths:
        if used + width > size:
            parts, used = parts + 1, 0
        used += width
    return parts
