"""The text alternative of a mail without `body_text`, made from its HTML: for readers without HTML and for spam
filters.

Blocks become lines, the cells of a table follow one another in a line, lists get bullets, and links are written as
`[text](address)`. The text is at most a few times as long as its HTML, and takes time in proportion to it: it is
generated in the worker, for each recipient whose HTML differs, while mail of other accounts waits.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from app.content.encoding import decode
from app.content.lines import Lines
from app.content.markup import SILENT, Tag, parse_html

MAX_TAGS = 10_000
"""In a body with more, tags are just removed."""
MAX_DEPTH = 100
"""Of nested elements; a deeper one counts as part of the one around it."""
MAX_LIST_DEPTH = 8
"""Of indented lists; a deeper one is indented like the one around it."""

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
EMPTY = frozenset(
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
_SPACES = re.compile(r"\s")
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
    """Of a numbered list: its items so far."""
    address: str = ""
    """Of a link: its address."""


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
        elif piece.closing and piece.name not in EMPTY:
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
        if tag.name in EMPTY or tag.name in SILENT:
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
    """The address of a link without white space: programs that detect links in text end them at a space."""
    return _SPACES.sub("%20", _LINE_ENDS.sub("", tag.attributes().get("href", "").strip()))
