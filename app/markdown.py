"""The Markdown of our pages, where its links lead nowhere."""

from __future__ import annotations

import re

LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def without_links(text: str) -> str:
    """The text with the words of its links alone."""
    return LINK.sub(r"\1", text)
