"""Texts of others in a form that a terminal only shows: what it would carry out is written out instead.

A name, an address or a reply may hold the sequences by which programs move the cursor, change what stands on the screen
or its title, or turn the direction of a line. Pure.
"""

from __future__ import annotations

import unicodedata

WRITTEN_OUT = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that are not seen, or that change what is: controls, marks of direction and of format,
halves of pairs, and the separators of lines."""
JOINERS = "\u200c\u200d"
"""Of scripts and emoji: names are spelt with them, and they change nothing else."""
NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, lines: bool = False) -> str:
    """The text with each such character as an escape of Python, `\\x1b`. With `lines` its line ends stay."""
    if lines:
        return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in WRITTEN_OUT or character in JOINERS:
        return character
    return NAMED.get(character) or character.encode("unicode_escape", "surrogatepass").decode("ascii")
