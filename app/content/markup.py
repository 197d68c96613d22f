"""Cuts HTML into tags and text, as browsers do. Pure, never fails, and linear in its length whatever it holds.

Each character is looked at a fixed number of times: nothing that a search did not find is searched for again, for where
a comment, a tag or a quoted value never ends, browsers show nothing of the rest, and here it is dropped, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.content.encoding import decode


class Tag(NamedTuple):
    """A tag; `name` is in lower case, `written` holds the attributes as they stand there."""

    name: str
    closing: bool
    written: str

    def attributes(self) -> dict[str, str]:
        """Its attributes by their names in lower case; of two with one name the first counts."""
        found: dict[str, str] = {}
        for name, double, single, bare in _ATTRIBUTE.findall(self.written):
            found.setdefault(name.lower(), decode(double or single or bare))
        return found


Piece = Tag | str

SILENT = frozenset({"script", "style", "title", "template", "iframe", "noembed", "noframes"})
"""Elements whose content nobody reads; but for the template, whatever stands in them is no tag."""

# What stands in quotes behind a "=" is part of the tag, a ">" in it too. The possessive quantifiers give nothing back,
# so a tag that never ends is read once.
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?+)*+)>")
_ATTRIBUTE = re.compile(r"([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+)))?+")
_COMMENT_END = re.compile(r"--!?>")
_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in SILENT}


def parse_html(html: str) -> Iterator[Piece]:
    """The tags and the texts between them, in order. Text is as written: references in it are not decoded."""
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
    """Where a comment, a declaration or a tag that is none ends."""
    if not html.startswith("<!--", start):
        if html[start + 1] == "/" and html[start + 2 : start + 3].isalpha():
            return len(html)
        end = html.find(">", start)
        return len(html) if end < 0 else end + 1
    # "<!-->" and "<!--->" are whole comments.
    found = _COMMENT_END.search(html, start + 2)
    return len(html) if found is None else found.end()


def _end_of(wanted: re.Pattern[str], html: str, position: int) -> int:
    """Where the end tag stands; it is a tag like any other."""
    found = wanted.search(html, position)
    return len(html) if found is None else found.start()
