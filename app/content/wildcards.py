"""Cuts the source of a body into text and markers (docs/personalisation.md).

Two percent signs open a marker and the next two close it. Where no marker can be read between them, the first two
are text and the next two may open one: "100%% for %%name%%" has one wildcard. Each piece is read once, so the time
is linear in the source, and any source can be read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from app.content.conditions import KEY, Condition, parse_conditions
from app.content.operators import OPERATORS

DELIMITER = "%%"


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A place for the value of `key` (lower case), or for the fallback where that value is empty or absent."""

    key: str
    fallback: str


@dataclass(frozen=True, slots=True)
class AttachmentReference:
    """A place for the reference to the attachment of this name."""

    name: str


class MarkerType(Enum):
    """What a marker of a conditional does."""

    IF = "if"
    UNKNOWN = "unknown"  # opens a conditional that is not understood, so that its END closes no other
    ELSEIF = "elseif"
    ELSE = "else"
    END = "end"


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker of a conditional; `source` is what was written, for when it has to stay."""

    type: MarkerType
    key: str
    source: str
    conditions: tuple[Condition, ...] = ()


Token: TypeAlias = str | Wildcard | AttachmentReference | Marker

_MARKER_FORM = re.compile(rf"({KEY.pattern}+)(?:\*\*(?P<fallback>.*)|:(?P<rest>.*))?", re.DOTALL)
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
    """The marker between two pairs of signs; text where it has the shape of one but makes no sense; else None."""
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
    """ELSEIF, ELSE or END; one that is miswritten is text, and the conditional around it goes on."""
    if rest == "END":
        return Marker(MarkerType.END, key, source)
    if rest == "ELSE":
        return Marker(MarkerType.ELSE, key, source)
    conditions = parse_conditions(tail, key) if word == "ELSEIF" else ()
    return Marker(MarkerType.ELSEIF, key, source, conditions) if conditions else source
