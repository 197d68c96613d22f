"""Splits the source of a body into text, wildcards and markers (docs/personalisation.md).

Two percent signs open a marker and the next two close it. If the text between them is no marker, the first two are text
and the next two may open one: "100%% for %%name%%" has one wildcard. Each piece is read once, so the time is linear in
the source, and no source is an error.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from app.content.conditions import KEY_FORM, OPERATORS, Condition, parse_conditions

DELIMITER = "%%"


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A placeholder for the value of `key` (lower case), or for the fallback if that value is empty or absent."""

    key: str
    fallback: str


@dataclass(frozen=True, slots=True)
class AttachmentReference:
    """A placeholder for the content id of the attachment with this name; outside of HTML, for the name itself."""

    name: str


class MarkerType(Enum):
    """The role of a marker in its conditional."""

    IF = "if"
    UNKNOWN = "unknown"  # opens a conditional that cannot be parsed, so that its END closes no other
    ELSEIF = "elseif"
    ELSE = "else"
    END = "end"


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker of a conditional; `source` is its text, for markers that stay as written."""

    type: MarkerType
    key: str
    source: str
    conditions: tuple[Condition, ...] = ()


Token: TypeAlias = str | Wildcard | AttachmentReference | Marker

_MARKER_FORM = re.compile(rf"({KEY_FORM.pattern}+)(?:\*\*(?P<fallback>.*)|:(?P<rest>.*))?", re.DOTALL)
_OPERATOR_SHAPE = re.compile(r"[A-Za-z]+(?::.*)?", re.DOTALL)
_ATTACHMENT_SHAPE = re.compile(r"[^:\r\n]{1,255}")
_KEYWORDS = frozenset({"ELSEIF", "ELSE", "END"})


def tokenize(source: str) -> Iterator[Token]:
    """The tokens of a source, in order; text tokens may be empty."""
    pieces = source.split(DELIMITER)
    yield pieces[0]
    position = 1
    while position < len(pieces) - 1:
        piece = pieces[position]
        marker = piece.removeprefix("%")  # of three signs the last two open: "100%%%of_what%%"
        token = _parse_marker(marker)
        if token is None:
            yield DELIMITER + piece
            position += 1
        else:
            yield piece[: len(piece) - len(marker)]
            yield token
            yield pieces[position + 1]
            position += 2
    if position < len(pieces):
        yield DELIMITER + pieces[position]


def _parse_marker(written: str) -> Token | None:
    """The marker between two pairs of percent signs; its text if it has the form of one but is invalid; else None."""
    match = _MARKER_FORM.fullmatch(written)
    if match is None:
        return None
    key, rest = match[1].lower(), match["rest"]
    if rest is None:
        return Wildcard(key, match["fallback"] or "")
    return _parse_keyed(key, rest, DELIMITER + written + DELIMITER)


def _parse_keyed(key: str, rest: str, source: str) -> Token | None:
    word, _, tail = rest.partition(":")
    if word in _KEYWORDS:
        return _parse_continuation(key, word, rest, tail, source)
    if word in OPERATORS:
        conditions = parse_conditions(rest, key)
        return Marker(MarkerType.IF if conditions else MarkerType.UNKNOWN, key, source, conditions)
    if key == "attachment" and _ATTACHMENT_SHAPE.fullmatch(rest):
        return AttachmentReference(rest)
    return Marker(MarkerType.UNKNOWN, key, source) if _OPERATOR_SHAPE.fullmatch(rest) else None


def _parse_continuation(key: str, word: str, rest: str, tail: str, source: str) -> Token:
    """ELSEIF, ELSE or END; an invalid one is text, and the conditional continues."""
    if rest == "END":
        return Marker(MarkerType.END, key, source)
    if rest == "ELSE":
        return Marker(MarkerType.ELSE, key, source)
    conditions = parse_conditions(tail, key) if word == "ELSEIF" else ()
    return Marker(MarkerType.ELSEIF, key, source, conditions) if conditions else source
