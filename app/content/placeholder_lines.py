"""Finds the lines of a body in which wildcards and references to attachments stand. Pure."""

from __future__ import annotations

from app.content.invalid_markup import line_breaks
from app.content.wildcards import AttachmentReference, Wildcard, tokenize

Placeholder = tuple[str, str]
"""The key of a wildcard and its fallback; of a reference `attachment:` with the name, and an empty text."""


def placeholder_of(token: Wildcard | AttachmentReference) -> Placeholder:
    """The placeholder that a token is."""
    return (token.key, token.fallback) if isinstance(token, Wildcard) else (f"attachment:{token.name}", "")


def placeholder_lines(source: str) -> dict[Placeholder, list[int]]:
    """Placeholder -> the lines from 1 in which it stands, each once."""
    found: dict[Placeholder, list[int]] = {}
    line = 1
    for token in tokenize(source):
        if isinstance(token, Wildcard | AttachmentReference):
            lines = found.setdefault(placeholder_of(token), [])
            if lines[-1:] != [line]:
                lines.append(line)
        line += line_breaks(token)
    return found
