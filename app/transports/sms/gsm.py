"""The two alphabets of text messages as bytes: GSM 03.38, one septet in each byte, and UCS-2 (3GPP TS 23.038)."""

from __future__ import annotations

from app.transports.sms.segments import BASIC, is_gsm

ESCAPE = 0x1B
GSM, ASCII, LATIN_1, UCS_2 = 0x00, 0x01, 0x03, 0x08
"""The data codings of SMPP that are supported."""

_BASIC_CODES = {character: code + (code >= ESCAPE) for code, character in enumerate(BASIC)}
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
