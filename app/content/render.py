"""Fills a body or a header in for one recipient. A template is compiled once per send and rendered per recipient."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo

from app.content.conditionals import Branch, Exit, Step, steps
from app.content.conditions import Condition, holds
from app.content.encoding import decode, encode
from app.content.values import Value, Values
from app.content.wildcards import Inline, Wildcard, tokens

MAX_CONDITIONS = 75
MOST_BYTES = 2 * 1024 * 1024
"""Of one rendering, where nobody says otherwise: a body of 1 MiB that repeats one wildcard with a value of 10,000
characters would grow to gigabytes."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class TooLong(ValueError):
    """A rendering that has grown beyond its bound; it was given up there."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text, and the names of the attachments that it refers to with `%%attachment:<name>%%`."""

    text: str
    inline: frozenset[str]

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return size_of(self.text)


def size_of(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Template:
    """A compiled source. No source makes compiling or rendering fail, and both take time linear in its length; only a
    rendering of more than `most` bytes raises `TooLong`, as soon as it has grown so far.

    `attachments` maps the names of the recipient's attachments, in order, to content ids without `cid:`. Compiled
    templates are never changed by rendering, so threads may share one. Times in conditions that name no zone are in
    `zone`.
    """

    __slots__ = ("_steps", "_zone")

    def __init__(self, source: str, zone: tzinfo = UTC) -> None:
        self._steps = steps(tokens(source))
        self._zone = zone

    def html(self, values: Values, attachments: Mapping[str, str], most: int = MOST_BYTES) -> Rendered:
        """For `body_html`: plain values and fallbacks are encoded, values that arrived encoded go in as they are."""
        return _Rendering(_HTML, values, attachments, most, self._zone).run(self._steps)

    def text(self, values: Values, attachments: Mapping[str, str], most: int = MOST_BYTES) -> Rendered:
        """For `body_text`: values that arrived HTML-encoded are decoded."""
        return _Rendering(_TEXT, values, attachments, most, self._zone).run(self._steps)

    def header(self, values: Values, attachments: Mapping[str, str], most: int = MOST_BYTES) -> Rendered:
        """For `subject` and other headers: as `text`, and each run of line breaks and control characters is a space."""
        rendered = self.text(values, attachments, most)
        return Rendered(_CONTROL.sub(" ", rendered.text), rendered.inline)


@dataclass(frozen=True, slots=True)
class _Form:
    """What a place needs: how a value and a fallback are shown, and how the plain text of an operand is read."""

    value: Callable[[Value], str]
    fallback: Callable[[str], str]
    operand: Callable[[str], str]


def _plain(value: Value) -> str:
    return decode(value.text) if value.encoded else value.text


def _markup(value: Value) -> str:
    return value.text if value.encoded else encode(value.text)


def _markup_of_source(source: str) -> str:
    """A fallback is plain text, but in a body of HTML its author, or the author's editor, writes `&` as `&amp;`."""
    return encode(decode(source))


_HTML = _Form(value=_markup, fallback=_markup_of_source, operand=decode)
_TEXT = _Form(value=_plain, fallback=str, operand=str)


class _Rendering:
    """One walk over the steps of a template."""

    def __init__(self, form: _Form, values: Values, attachments: Mapping[str, str], most: int, zone: tzinfo) -> None:
        self._form = form
        self._values = values
        self._attachments = attachments
        self._conditions_left = MAX_CONDITIONS
        self._most = most
        self._zone = zone
        self._shown: dict[str, str] = {}
        self._inline: set[str] = set()

    def run(self, steps: list[Step]) -> Rendered:
        output: list[str] = []
        position, room = 0, self._most
        while position < len(steps):
            step = steps[position]
            position += 1
            if isinstance(step, Branch):
                position = self._enter(step, position)
                continue
            if isinstance(step, Exit):
                position = step.position
                continue
            piece = step if isinstance(step, str) else self._filled(step)
            output.append(piece)
            room -= len(piece)
            if room < 0:
                raise TooLong
        rendered = Rendered("".join(output), frozenset(self._inline))
        if rendered.size > self._most:
            raise TooLong
        return rendered

    def _filled(self, step: Wildcard | Inline) -> str:
        return self._wildcard(step) if isinstance(step, Wildcard) else self._reference(step.name)

    def _wildcard(self, wildcard: Wildcard) -> str:
        shown = self._shown.get(wildcard.key)
        if shown is None:
            value = self._values.get(wildcard.key)
            shown = self._shown[wildcard.key] = self._form.value(value) if value else ""
        return shown or self._form.fallback(wildcard.fallback)

    def _reference(self, name: str) -> str:
        if name not in self._attachments:
            return ""
        self._inline.add(name)
        return f"cid:{self._attachments[name]}"

    def _enter(self, branch: Branch, inside: int) -> int:
        """Where to go on: inside the branch, at the next one, or after the conditional when no evaluation is left.

        Every condition of a marker that is reached counts, those after the first that holds too
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
        operand = self._form.operand(condition.operand)
        return holds(condition, self._compared(condition.key), operand, self._zone)

    def _compared(self, key: str) -> str:
        if key == "attachment":
            return ",".join(self._attachments)
        value = self._values.get(key)
        return _plain(value) if value else ""
