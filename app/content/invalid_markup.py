"""Finds the markup of a body that stays in the text as written (docs/personalisation.md#invalid-markup), for a dry run.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.content.conditionals import placed
from app.content.wildcards import DELIMITER, AttachmentReference, Marker, Token, Wildcard, tokenize

MAX_SHOWN_CHARACTERS = 100
"""Characters of a marker that are shown."""

_ATTEMPT = re.compile(r"%%#?\w(?:[^\r\n%]*[^\s%])?")
"""Text that was probably meant as a marker: `%%first name`, but not the ` for ` of `5%% for %%name%%`."""


class InvalidMarkup(NamedTuple):
    """A marker that stays as written, shortened, and its line from 1."""

    line: int
    marker: str


def find_invalid_markup(source: str) -> Iterator[InvalidMarkup]:
    """The markers of a source that have no effect, in their order."""
    tokens = list(tokenize(source))
    line = 1
    for position, (token, kept) in enumerate(zip(tokens, placed(tokens), strict=True)):
        marker = _invalid(tokens, position, kept)
        if marker is not None:
            yield InvalidMarkup(line, marker[:MAX_SHOWN_CHARACTERS])
        line += line_breaks(token)


def _invalid(tokens: Sequence[Token], position: int, kept: Token) -> str | None:
    """The marker at a position if it stays as written, else None."""
    token = tokens[position]
    if isinstance(token, Marker):
        return kept if isinstance(kept, str) else None
    if not isinstance(token, str) or not token.startswith(DELIMITER):
        return None
    if len(token) > len(DELIMITER) and token.endswith(DELIMITER):
        return token  # an ELSEIF whose condition cannot be parsed
    is_closed = position + 1 < len(tokens) and _opens(tokens, position + 1)
    return token + DELIMITER if is_closed and _ATTEMPT.fullmatch(token) else None


def _opens(tokens: Sequence[Token], position: int) -> bool:
    """Whether two percent signs stand at the begin of this token, behind an empty text at most."""
    token = tokens[position]
    if token == "":
        return position + 1 < len(tokens) and not isinstance(tokens[position + 1], str)
    return isinstance(token, str) and token.startswith(DELIMITER)


def line_breaks(token: Token) -> int:
    """How many lines the source of a token ends."""
    match token:
        case str():
            return token.count("\n")
        case Wildcard():
            return token.fallback.count("\n")
        case Marker():
            return token.source.count("\n")
        case AttachmentReference():
            return 0


# Finds the lines of a body in which wildcards and references to attachments stand. Pure.

Placeholder = tuple[str, str]
"""The key of a wildcard and its fallback; of a reference `attachment:` with the name, and an empty text."""


def placeholder_of(token: Wildcard | AttachmentReference) -> Placeholder:
    """The placeholder that a token is."""
    return (token.key, token.fallback) if isinstance(token, Wildcard) else (f"attachment:{token.name}", "")


def placeholder_lines(source: str) -> dict[Placeholder, list[int]]:
    """Placeholder -> the lines from 1 in which it stands, each once."""
    lines_by_placeholder: dict[Placeholder, list[int]] = {}
    line = 1
    for token in tokenize(source):
        if isinstance(token, Wildcard | AttachmentReference):
            lines = lines_by_placeholder.setdefault(placeholder_of(token), [])
            if lines[-1:] != [line]:
                lines.append(line)
        line += line_breaks(token)
    return lines_by_placeholder
