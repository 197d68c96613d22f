"""The segments of a text message, and the GSM alphabet that determines their number. Pure."""

from __future__ import annotations

MAX_PARTS = 255
"""Parts of one text: the number of a part has one byte."""
BASIC_TABLE = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("\f^{}\\[~]|€")
_GSM = frozenset(BASIC_TABLE) | _EXTENDED


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


ESCAPE = 0x1B
GSM, ASCII, LATIN_1, UCS_2 = 0x00, 0x01, 0x03, 0x08
"""The data codings of SMPP that are supported."""

_BASIC_CODES = {character: code + (code >= ESCAPE) for code, character in enumerate(BASIC_TABLE)}
_EXTENDED_CODES = {
    "\f": 0x0A,
    "^": 0x14,
    "{": 0x28,
    "}": 0x29,
    "\\": 0x2F,
    "[": 0x3C,
    "~": 0x3D,
    "]": 0x3E,
    "|": 0x40,
    "€": 0x65,
}
_BASIC_CHARACTERS = {code: character for character, code in _BASIC_CODES.items()}
_EXTENDED_CHARACTERS = {code: character for character, code in _EXTENDED_CODES.items()}


def coding_of(text: str) -> int:
    """The data coding of a text: GSM if it has all of its characters, else UCS-2."""
    return GSM if is_gsm(text) else UCS_2


def encode(text: str, coding: int) -> bytes:
    """The bytes of a text or of one of its parts. A lone surrogate becomes a question mark."""
    if coding == UCS_2:
        return text.encode("utf-16-be", "replace")
    codes: list[int] = []
    for character in text:
        codes += [_BASIC_CODES[character]] if character in _BASIC_CODES else [ESCAPE, _EXTENDED_CODES[character]]
    return bytes(codes)


def decode(data: bytes, coding: int) -> str:
    """The text of a received message; invalid codes become a replacement character."""
    if coding == UCS_2:
        return data.decode("utf-16-be", "replace")
    if coding in (ASCII, LATIN_1):
        return data.decode("latin-1")
    return _decode_gsm(data)


def _decode_gsm(data: bytes) -> str:
    characters: list[str] = []
    codes = iter(data)
    for code in codes:
        if code == ESCAPE:
            characters.append(_EXTENDED_CHARACTERS.get(next(codes, 0), " "))
        else:
            characters.append(_BASIC_CHARACTERS.get(code, "\ufffd"))
    return "".join(characters)
