"""Splits HTML into tags and text, as browsers do. Pure, never fails, and linear in the length of any input.

Each character is read a fixed number of times: a search without a match is never repeated, because if a comment, a tag
or a quoted value does not end, the rest is dropped, as in browsers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.content.encoding import decode


class Tag(NamedTuple):
    """A tag; `name` is in lower case, `written` is the source of the attributes."""

    name: str
    closing: bool
    written: str

    def attributes(self) -> dict[str, str]:
        """Its attributes by name in lower case; the first of two with the same name counts."""
        values: dict[str, str] = {}
        for name, double, single, bare in _ATTRIBUTE.findall(self.written):
            values.setdefault(name.lower(), decode(double or single or bare))
        return values


Piece = Tag | str

SILENT = frozenset({"script", "style", "title", "template", "iframe", "noembed", "noframes"})
"""Elements whose content is not shown; in all but the template there are no tags."""

# A quoted value behind a "=" is part of the tag, even with a ">" in it. Possessive quantifiers do not backtrack, so a
# tag that never ends is read once.
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?+)*+)>")
_ATTRIBUTE = re.compile(r"([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+)))?+")
_COMMENT_END = re.compile(r"--!?>")
_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in SILENT}


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
            if name in SILENT and not tag[1]:
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
    found = _COMMENT_END.search(html, start + 2)
    return len(html) if found is None else found.end()


def _end_of(end_tag: re.Pattern[str], html: str, position: int) -> int:
    """The position of the end tag."""
    match = end_tag.search(html, position)
    return len(html) if match is None else match.start()
