"""The text alternative of a mail without `body_text`, made from its HTML: for readers without HTML and for spam
filters.

Blocks become lines, the cells of a table follow one another in a line, lists get bullets, and links are written as
`[text](address)`. The text is at most a few times as long as its HTML, and takes time in proportion to it: it is
generated in the worker, for each recipient whose HTML differs, while mail of other accounts waits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from app.content.values import decode

# Builds the lines of a plain text piece by piece: white space, empty lines, indents and links. Pure.

INDENT = "    "
"""The indent of the items of a list, with their bullets at its end."""
CELL_GAP = "  "
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
            self._space = CELL_GAP

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
        escaped = escape_address(address)
        if begun is None:
            self._add(escaped)
        elif begun[0] == len(self._lines) and "".join(self._line[begun[1] + 1 :]) in (address, escaped):
            self._line[begun[1] :] = [escaped]
        elif self._line:
            self._line.append(f"]({escaped})")
        else:
            self._lines[-1] += f"]({escaped})"

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


# Splits HTML into tags and text, as browsers do. Pure, never fails, and linear in the length of any input.
#
# Each character is read a fixed number of times: a search without a match is never repeated, because if a comment, a
# tag or a quoted value does not end, the rest is dropped, as in browsers.


class Tag(NamedTuple):
    """A tag; `name` is in lower case, `written` is the source of the attributes."""

    name: str
    closing: bool
    written: str

    def attributes(self) -> dict[str, str]:
        """The attributes of a tag by name in lower case; the first of two with the same name counts."""
        values: dict[str, str] = {}
        for name, double, single, bare in _ATTRIBUTE.findall(self.written):
            values.setdefault(name.lower(), decode(double or single or bare))
        return values


Piece = Tag | str

SILENT_ELEMENTS = frozenset({"script", "style", "title", "template", "iframe", "noembed", "noframes"})
"""Elements whose content is not shown; in all but the template there are no tags."""

# A quoted value behind a "=" is part of the tag, even with a ">" in it. Possessive quantifiers do not backtrack, so a
# tag that never ends is read once.
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?+)*+)>")
_ATTRIBUTE = re.compile(r"([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+)))?+")
_COMMENT_END = re.compile(r"--!?>")
_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in SILENT_ELEMENTS}


def parse_html(html: str) -> Iterator[Piece]:
    """The tags and the texts between them, in order. Character references in texts are not decoded."""
    position = 0
    while position < len(html):
        start = html.find("<", position)
        if start < 0:
            yield html[position:]
            return
        if start > position:
            yield html[position:start]
        tag = _TAG.match(html, start)
        if tag is not None:
            name = tag[2].lower()
            yield Tag(name, bool(tag[1]), tag[3])
            position = tag.end()
            if name in SILENT_ELEMENTS and not tag[1]:
                position = _end_of(_ENDS[name], html, position)
        elif html.startswith(("<!", "<?", "</"), start):
            position = _after_comment(html, start)
        elif html[start + 1 : start + 2].isascii() and html[start + 1 : start + 2].isalpha():
            return  # a tag that never ends
        else:
            yield "<"
            position = start + 1


def _after_comment(html: str, start: int) -> int:
    """The position behind a comment, a declaration or an invalid tag."""
    if not html.startswith("<!--", start):
        if html[start + 1] == "/" and html[start + 2 : start + 3].isalpha():
            return len(html)
        end = html.find(">", start)
        return len(html) if end < 0 else end + 1
    # "<!-->" and "<!--->" are whole comments.
    match = _COMMENT_END.search(html, start + 2)
    return len(html) if match is None else match.end()


def _end_of(end_tag: re.Pattern[str], html: str, position: int) -> int:
    """The position of the end tag."""
    match = end_tag.search(html, position)
    return len(html) if match is None else match.start()


MAX_TAGS = 10_000
"""Tags of a body; in a body with more, tags are just removed."""
MAX_DEPTH = 100
"""Depth of nested elements; a deeper one counts as part of the one around it."""
MAX_LIST_DEPTH = 8
"""Depth of indented lists; a deeper one is indented like the one around it."""

NO_TAGS = frozenset[str]()
PARAGRAPHS = frozenset({"p", "figure", "h1", "h2", "h3", "h4", "h5", "h6"})
"""Elements with an empty line before and after."""
LISTS = frozenset({"ul", "ol"})
PREFORMATTED = frozenset({"pre", "listing", "xmp", "plaintext"})
BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "caption", "dd", "details", "div", "dl", "dt", "fieldset"),
        *("figcaption", "footer", "form", "header", "hgroup", "hr", "li", "main", "nav", "section", "summary"),
        *("table", "tr", *PARAGRAPHS, *LISTS, *PREFORMATTED),
    )
)
CELLS = frozenset({"td", "th"})
EMPTY_ELEMENTS = frozenset(
    (*("wbr", "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track"),)
)
"""Elements without content and end tag."""
TABLE_BOUNDARIES = frozenset({"table", "caption", *CELLS})
"""An end tag inside one of these closes nothing outside of it, except the tags of tables."""
TABLE_TAGS = TABLE_BOUNDARIES | {"tr", "tbody", "thead", "tfoot"}
IMPLIED_END_TAGS = {
    **dict.fromkeys(BLOCKS, (frozenset({"p"}), TABLE_BOUNDARIES)),
    **dict.fromkeys(("dt", "dd"), (frozenset({"dt", "dd"}), TABLE_BOUNDARIES | {"dl"})),
    **dict.fromkeys(CELLS, (CELLS, frozenset({"table"}))),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    "li": (frozenset({"li"}), TABLE_BOUNDARIES | LISTS),
    "a": (frozenset({"a"}), TABLE_BOUNDARIES),
}
"""Start tag -> the elements that it ends if their end tags are omitted, and the elements that limit the search."""

_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_LINE_ENDS = re.compile(r"[\t\r\n]+")  # browsers drop them
# What a link in a text ends at. Round brackets in pairs stay, except behind "]", where an address seems to begin.
_ENDS_OF_ADDRESS = re.compile(r'((?<!\])\([^\s<>"()]*\))|[\s<>"()]')
_MARKUP = re.compile(
    r"<!--(?:[^-]++|-(?!->))*+(?:-->)?+"
    r"|<(script|style|title|template)(?=[\s/>])(?:[^<]++|<(?!/\1[\s/>]))*+"
    r"|<[^<>]*+>?+",
    re.IGNORECASE,
)


def plain_text(html: str) -> str:
    """The visible text of `html`, which may be empty."""
    return _text_without_tags(html) if html.count("<") > MAX_TAGS else _text(html)


def _text_without_tags(html: str) -> str:
    return " ".join(decode(_MARKUP.sub(" ", html)).split())


def _text(html: str) -> str:
    writer = _TextWriter()
    for piece in parse_html(html):
        writer.add(piece)
    return writer.text()


@dataclass(slots=True)
class _Element:
    """An open element. `hidden` and `preformatted` are inherited."""

    name: str
    hidden: bool = False
    preformatted: bool = False
    items: int = 0
    """Items of a numbered list so far."""
    address: str = ""
    """The address of a link."""


@dataclass(slots=True)
class _TextWriter:
    """Builds the text from the tags and texts of a body."""

    lines: Lines = field(default_factory=Lines)
    open: list[_Element] = field(default_factory=lambda: [_Element("body")])
    untracked: Counter[str] = field(default_factory=Counter)
    """Elements that began beyond `MAX_DEPTH`, so that their end tags close no others."""
    lists: int = 0

    def add(self, piece: Tag | str) -> None:
        around = self.open[-1]
        if isinstance(piece, str):
            if not around.hidden:
                self.lines.write(decode(piece), preformatted=around.preformatted)
        elif piece.closing and piece.name not in EMPTY_ELEMENTS:
            self._end(piece.name)
        else:
            self._start(piece)

    def text(self) -> str:
        """Closes all elements and returns the text."""
        while len(self.open) > 1:
            self._close()
        return self.lines.text()

    def _start(self, tag: Tag) -> None:
        self._close_implied(tag.name)
        element = _Element(tag.name, self._is_hidden(tag), self.open[-1].preformatted or tag.name in PREFORMATTED)
        if not element.hidden:
            self._show_start(tag)
        if tag.name in EMPTY_ELEMENTS or tag.name in SILENT_ELEMENTS:
            return
        if len(self.open) > MAX_DEPTH:
            self.untracked[tag.name] += 1
            return
        if tag.name == "a" and not element.hidden:
            element.address = _address(tag)
            self.lines.begin_link(element.address)
        self.open.append(element)
        self.lists += tag.name in LISTS
        self.lines.indent(min(self.lists, MAX_LIST_DEPTH))

    def _show_start(self, tag: Tag) -> None:
        name = tag.name
        if name in BLOCKS:
            self.lines.end(blank=name in PARAGRAPHS)
        if name == "br":
            self.lines.end_or_skip()
        elif name == "li":
            self.lines.bullet = self._bullet()
        elif name in CELLS:
            self.lines.gap()
        elif name == "img":
            self.lines.write(tag.attributes().get("alt", ""))
        elif name == "q":
            self.lines.write('"')

    def _bullet(self) -> str:
        for element in reversed(self.open):
            if element.name == "ol":
                element.items += 1
                return f"{element.items}. "
            if element.name == "ul":
                break
        return "* "

    def _is_hidden(self, tag: Tag) -> bool:
        if self.open[-1].hidden:
            return True
        written = tag.written.lower()
        if "hidden" not in written and "display" not in written:
            return False
        attributes = tag.attributes()
        return "hidden" in attributes or bool(_HIDDEN.search(attributes.get("style", "")))

    def _close_implied(self, name: str) -> None:
        ended, within = IMPLIED_END_TAGS.get(name, (NO_TAGS, NO_TAGS))
        if not ended:
            return
        for depth in range(len(self.open) - 1, 0, -1):
            name_at_depth = self.open[depth].name
            if name_at_depth in ended:
                self._close_down_to(depth)
                return
            if name_at_depth in within:
                return

    def _end(self, name: str) -> None:
        if self.untracked[name]:
            self.untracked[name] -= 1
            return
        for depth in range(len(self.open) - 1, 0, -1):
            name_at_depth = self.open[depth].name
            if name_at_depth == name:
                self._close_down_to(depth)
                return
            if name_at_depth in TABLE_BOUNDARIES and name not in TABLE_TAGS:
                return

    def _close_down_to(self, depth: int) -> None:
        while len(self.open) > depth:
            self._close()

    def _close(self) -> None:
        element = self.open.pop()
        self.untracked.clear()
        self.lists -= element.name in LISTS
        if not element.hidden:
            self._show_end(element)
        self.lines.indent(min(self.lists, MAX_LIST_DEPTH))

    def _show_end(self, element: _Element) -> None:
        name = element.name
        if name in BLOCKS:
            self.lines.end(blank=name in PARAGRAPHS)
        if name == "a":
            self.lines.end_link(element.address)
        elif name == "li":
            self.lines.bullet = ""
        elif name == "q":
            self.lines.write('"')


def _address(tag: Tag) -> str:
    """The address of a link."""
    return _LINE_ENDS.sub("", tag.attributes().get("href", "").strip())


def escape_address(address: str) -> str:
    """An address with everything escaped at which programs that detect links in text would end it."""
    return _ENDS_OF_ADDRESS.sub(lambda match: match[1] or quote(match[0]), address)
