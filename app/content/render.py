"""Renders a body or a header for one recipient. A template is compiled once per send and rendered per recipient."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from app.content.conditionals import Branch, Exit, Step, compile_steps
from app.content.conditions import Condition, holds
from app.content.values import WildcardValue, WildcardValues, decode, encode
from app.content.wildcards import AttachmentReference, Wildcard, tokenize

MAX_CONDITIONS = 75
MAX_BYTES = 2 * 1024 * 1024
"""Default limit of one rendering: a body of 1 MiB that repeats a wildcard with a value of 10,000 characters would grow
to gigabytes."""

MAX_CHARACTER_BYTES = 4

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class RenderingTooLong(ValueError):
    """A rendering exceeded its size limit and was aborted."""


def size_of(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Template:
    """A compiled source. No source makes compiling or rendering fail, and both take time linear in its length; only a
    rendering of more than `max_bytes` raises `RenderingTooLong`, as soon as it exceeds them.

    `attachments` maps the names of the recipient's attachments, in order, to content ids without `cid:`. Rendering does
    not change a template, so threads may share one. Times in conditions without an offset are in `zone`.
    """

    __slots__ = ("_form", "_steps", "_zone")

    def __init__(self, source: str, zone: tzinfo = UTC) -> None:
        self._steps = compile_steps(tokenize(source))
        self._form = _Form.of(self._steps)
        self._zone = zone

    @classmethod
    def literal(cls, source: str) -> Template:
        """A template whose renderings are the source, whatever it contains."""
        template = cls("")
        template._steps = [source]
        template._form = _Form.of(template._steps)
        return template

    def html(self, values: WildcardValues, attachments: Mapping[str, str], max_bytes: int = MAX_BYTES) -> str:
        """Renders `body_html`: plain values and fallbacks are encoded, encoded values are inserted as they are."""
        return self._render(_HTML, values, attachments, max_bytes)

    def text(self, values: WildcardValues, attachments: Mapping[str, str], max_bytes: int = MAX_BYTES) -> str:
        """Renders `body_text`: HTML-encoded values are decoded."""
        return self._render(_TEXT, values, attachments, max_bytes)

    def header(self, values: WildcardValues, attachments: Mapping[str, str], max_bytes: int = MAX_BYTES) -> str:
        """Renders `subject` and other headers: as `text`, and each run of line breaks and control characters is a
        space."""
        return _CONTROL.sub(" ", self._render(_TEXT, values, attachments, max_bytes))

    def unfilled(
        self, values: WildcardValues, attachments: Mapping[str, str], *, html: bool, max_bytes: int = MAX_BYTES
    ) -> tuple[Wildcard | AttachmentReference, ...]:
        """What a rendering outputs that has no value: wildcards, and references to attachments that there are not."""
        rendering = _Rendering(_HTML if html else _TEXT, values, attachments, max_bytes, self._zone)
        rendering.run(self._steps)
        return tuple(rendering.unfilled)

    def _render(
        self, format_: _OutputFormat, values: WildcardValues, attachments: Mapping[str, str], max_bytes: int
    ) -> str:
        if self._form:
            return self._form.filled_in(format_, values, max_bytes)
        return _Rendering(format_, values, attachments, max_bytes, self._zone).run(self._steps)


@dataclass(frozen=True, slots=True)
class _OutputFormat:
    """How values and fallbacks are rendered, and how an operand is converted to plain text."""

    value: Callable[[WildcardValue], str]
    fallback: Callable[[str], str]
    operand: Callable[[str], str]


def _as_text(value: WildcardValue) -> str:
    return decode(value.text) if value.encoded else value.text


def _as_html(value: WildcardValue) -> str:
    return value.text if value.encoded else encode(value.text)


def _fallback_as_html(source: str) -> str:
    """A fallback is plain text, but authors and HTML editors write `&` as `&amp;` in an HTML body."""
    return encode(decode(source))


_HTML = _OutputFormat(value=_as_html, fallback=_fallback_as_html, operand=decode)
_TEXT = _OutputFormat(value=_as_text, fallback=str, operand=str)


class _Form(NamedTuple):
    """The steps of a template that has nothing but text and wildcards, as most have: it takes half the time to fill
    them in that it takes to run them one by one."""

    pieces: list[str]
    """The text, with an empty piece for each wildcard."""
    places: dict[str, list[tuple[int, str]]]
    """The key of a wildcard -> its places, each with its fallback."""

    @classmethod
    def of(cls, steps: list[Step]) -> _Form | None:
        if not all(isinstance(step, str | Wildcard) for step in steps):
            return None
        places: dict[str, list[tuple[int, str]]] = {}
        for place, step in enumerate(steps):
            if isinstance(step, Wildcard):
                places.setdefault(step.key, []).append((place, step.fallback))
        return cls([step if isinstance(step, str) else "" for step in steps], places)

    def filled_in(self, format_: _OutputFormat, values: WildcardValues, max_bytes: int) -> str:
        pieces = self.pieces.copy()
        for key, places in self.places.items():
            value = values.get(key)
            text = format_.value(value) if value else ""
            for place, fallback in places:
                pieces[place] = text or format_.fallback(fallback)
        # Before they are joined: a value is one string in memory, however often it is repeated.
        length = sum(map(len, pieces))
        if length > max_bytes:
            raise RenderingTooLong
        return _within(max_bytes, length, "".join(pieces))


def _within(max_bytes: int, length: int, text: str) -> str:
    """The text of so many characters, if it has no more bytes than that. They need not be counted of a short one."""
    if length * MAX_CHARACTER_BYTES > max_bytes and size_of(text) > max_bytes:
        raise RenderingTooLong
    return text


class _Rendering:
    """A run of the steps of a template for one recipient."""

    def __init__(
        self,
        format_: _OutputFormat,
        values: WildcardValues,
        attachments: Mapping[str, str],
        max_bytes: int,
        zone: tzinfo,
    ) -> None:
        self._format = format_
        self._values = values
        self._attachments = attachments
        self._conditions_left = MAX_CONDITIONS
        self._max_bytes = max_bytes
        self._zone = zone
        self._rendered_values: dict[str, str] = {}
        self.unfilled: dict[Wildcard | AttachmentReference, None] = {}
        """Wildcards and references to attachments without a value, each once."""

    def run(self, steps: list[Step]) -> str:
        output: list[str] = []
        position, remaining = 0, self._max_bytes
        while position < len(steps):
            step = steps[position]
            position += 1
            if isinstance(step, Branch):
                position = self._enter_branch(step, position)
                continue
            if isinstance(step, Exit):
                position = step.position
                continue
            piece = step if isinstance(step, str) else self._render_placeholder(step)
            output.append(piece)
            remaining -= len(piece)
            if remaining < 0:
                raise RenderingTooLong
        return _within(self._max_bytes, self._max_bytes - remaining, "".join(output))

    def _render_placeholder(self, step: Wildcard | AttachmentReference) -> str:
        return self._render_wildcard(step) if isinstance(step, Wildcard) else self._attachment_reference(step)

    def _render_wildcard(self, wildcard: Wildcard) -> str:
        rendered = self._rendered_values.get(wildcard.key)
        if rendered is None:
            value = self._values.get(wildcard.key)
            rendered = self._rendered_values[wildcard.key] = self._format.value(value) if value else ""
        if rendered:
            return rendered
        self.unfilled[wildcard] = None
        return self._format.fallback(wildcard.fallback)

    def _attachment_reference(self, reference: AttachmentReference) -> str:
        if reference.name not in self._attachments:
            self.unfilled[reference] = None
            return ""
        if self._format is _TEXT:
            return reference.name
        return f"cid:{self._attachments[reference.name]}"

    def _enter_branch(self, branch: Branch, inside: int) -> int:
        """The position to continue at: inside the branch, at the next one, or behind the conditional once the limit of
        evaluations is reached.

        Every condition of a marker that is reached counts, also those after the first that holds
        (docs/personalisation.md#conditionals).
        """
        if not branch.conditions:
            return inside
        counted = branch.conditions[: self._conditions_left]
        self._conditions_left -= len(counted)
        if any(self._holds(condition) for condition in counted):
            return inside
        return branch.otherwise if len(counted) == len(branch.conditions) else branch.exit.position

    def _holds(self, condition: Condition) -> bool:
        operand = self._format.operand(condition.operand)
        return holds(condition, self._compared_value(condition.key), operand, self._zone)

    def _compared_value(self, key: str) -> str:
        if key == "attachment":
            return ",".join(self._attachments)
        value = self._values.get(key)
        return _as_text(value) if value else ""


# A cache of compiled templates: the same few messages are sent over and over, each time by another send.

MAX_CACHED_LENGTH = 100_000
"""Characters of a source whose template is cached."""


def cached_template(source: str, zone: ZoneInfo | None) -> Template:
    """The template of a source; its times are in `zone`, by default UTC."""
    return _cached(source, zone) if len(source) <= MAX_CACHED_LENGTH else Template(source, zone or UTC)


@lru_cache(maxsize=64)
def _cached(source: str, zone: ZoneInfo | None) -> Template:
    return Template(source, zone or UTC)
