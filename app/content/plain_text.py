"""The text alternative of a mail that has only HTML: readers without HTML see it, and spam filters look for it."""

from __future__ import annotations

import re

from inscriptis import get_text
from inscriptis.model.config import ParserConfig

_CONFIG = ParserConfig(display_links=True)
_BLANK_LINES = re.compile(r"\n{3,}")
_OWN_NAME = re.compile(r"\[([^\[\]\s]+)\]\(\1\)")


def plain_text(html: str) -> str:
    """What a reader sees of `html`; links are written as `[text](address)`. Empty when there is nothing to read."""
    text = "\n".join(line.rstrip() for line in get_text(html, _CONFIG).split("\n"))
    return _BLANK_LINES.sub("\n\n", _OWN_NAME.sub(r"\1", text)).strip("\n")
