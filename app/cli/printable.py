"""Untrusted text in a form that is safe for a terminal: control sequences are escaped.

A name, an address or a reply may contain sequences that move the cursor, change the screen or its title, or reverse the
direction of a line. Pure.
"""

from __future__ import annotations

import unicodedata

ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that are invisible or change how others are shown: controls, direction and format marks,
surrogates, and line separators."""
JOINERS = "\u200c\u200d"
"""Zero-width joiners are needed to spell names in some scripts and emoji, and are harmless."""
NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, lines: bool = False) -> str:
    """The text with each such character escaped as in Python, `\\x1b`. With `lines` its line ends stay."""
    if lines:
        return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in ESCAPED or character in JOINERS:
        return character
    return NAMED.get(character) or character.encode("unicode_escape", "surrogatepass").decode("ascii")
