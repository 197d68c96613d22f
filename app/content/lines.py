"""Builds the lines of a plain text piece by piece: white space, empty lines, indents and links. Pure."""

from __future__ import annotations

import re

INDENT = "    "
"""Of the items of a list. Their bullets are at the end of the indent."""
GAP = "  "
"""Between two cells of a table."""

_WHITE = re.compile(r"[ \t\r\n\f\xa0]+")
_BLANK_LINES = re.compile(r"\n{3,}")


class Lines:
    """A text to append to. It has at most one empty line in a row, and none at its ends."""

    def __init__(self) -> None:
        self.bullet = ""
        """The bullet of the next line."""
        self._lines: list[str] = []
        self._line: list[str] = []
        self._space = ""
        """To insert before the next text in this line."""
        self._blank = False
        """Whether to insert an empty line before the next one."""
        self._indent = 0
        self._link: tuple[int, int] | None = None
        """Line and piece where the text of the current link begins; None before its first text."""
        self._in_link = False

    def indent(self, depth: int) -> None:
        """Sets the depth of the lines that begin after this."""
        self._indent = depth

    def write(self, text: str, *, preformatted: bool = False) -> None:
        """Appends to the line. White space is reduced to one space, and to none at line ends, unless it is
        preformatted."""
        if preformatted:
            self._write_preformatted(text)
            return
        words = _WHITE.sub(" ", text)
        if words.startswith(" ") and self._line and not self._space:
            self._space = " "
        stripped = words.strip(" ")
        if stripped:
            self._add(stripped)
            self._space = " " if words.endswith(" ") else ""

    def gap(self) -> None:
        """Separates the next text from the text in this line."""
        if self._line:
            self._space = GAP

    def end(self, *, blank: bool = False) -> None:
        """Ends the line if one has begun; with `blank` an empty one precedes the next text."""
        if self._line:
            self._lines.append("".join(self._line).rstrip())
            self._line = []
            self._blank = False
        self._space = ""
        self._blank |= blank

    def end_or_skip(self) -> None:
        """Ends the line; if none has begun, an empty one precedes the next text."""
        self.end(blank=not self._line)

    def begin_link(self, address: str) -> None:
        """Begins the text of a link; one without an address is ignored."""
        self._in_link, self._link = bool(address), None

    def end_link(self, address: str) -> None:
        """Writes the address of the link, unless that is its text."""
        self._in_link, begun, self._link = False, self._link, None
        if not address:
            return
        if begun is None:
            self._add(address)
        elif begun[0] == len(self._lines) and "".join(self._line[begun[1] + 1 :]) == address:
            self._line[begun[1]] = ""
        elif self._line:
            self._line.append(f"]({address})")
        else:
            self._lines[-1] += f"]({address})"

    def text(self) -> str:
        """Returns all lines."""
        self.end()
        return _BLANK_LINES.sub("\n\n", "\n".join(self._lines)).strip("\n")

    def _write_preformatted(self, text: str) -> None:
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if first:
            self._add(first)
        for line in others:
            self.end_or_skip()
            if line:
                self._add(line)

    def _add(self, text: str) -> None:
        if not self._line:
            self._begin()
        self._line.append(self._space)
        self._space = ""
        if self._in_link and self._link is None:
            self._link = (len(self._lines), len(self._line))
            self._line.append("[")
        self._line.append(text)

    def _begin(self) -> None:
        if self._blank and self._lines:
            self._lines.append("")
        self._blank = False
        self._line.append(self.bullet.rjust(len(INDENT) * self._indent))
        self.bullet = ""
