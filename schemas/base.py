"""Schemas whose errors are codes of the catalogue, located and in document order.

A marshmallow error message here is a `Problem`: a code and, where it helps, the exact text for the integrator.
`load` turns what marshmallow gathered into one `ServiceError` (docs/requests.md#errors).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any

from marshmallow import RAISE, Schema, ValidationError
from marshmallow.exceptions import SCHEMA
from marshmallow.types import UnknownOption

from app.errors import MAX_LISTED_ERRORS, FieldError, ServiceError
from schemas.fast_load import Quick, quick_object

LAST = 1 << 60
"""The place of what is missing from the document: after everything that is in it."""


class Problem(str):
    """What is wrong with one value: a code, and where it helps the exact text for the integrator."""

    detail: str | None
    accepted: tuple[str, ...]
    """The attributes that an object takes, where one that it does not take is the problem."""
    follows: bool
    """Whether it follows from another problem, and is told after it."""

    def __new__(
        cls, code: str, detail: str | None = None, accepted: tuple[str, ...] = (), *, follows: bool = False
    ) -> Problem:
        """A string, because that is what marshmallow carries about."""
        made = super().__new__(cls, code)
        made.detail = detail
        made.accepted = accepted
        made.follows = follows
        return made


def problem(code: str, detail: str | None = None) -> ValidationError:
    """The exception that a field raises."""
    return ValidationError([Problem(code, detail)])


class CodeSchema(Schema):
    """An object of the API. Unknown attributes are errors, and the errors are codes."""

    class Meta:
        """Unknown attributes are `unexpected_field`."""

        unknown = RAISE

    error_messages = {  # noqa: RUF012 - marshmallow declares it as a plain class attribute
        "type": Problem("invalid_object"),
        "unknown": Problem("unexpected_field"),
    }

    def __init__(self, **options: Any) -> None:
        """As a schema of marshmallow; it tells what it takes to who gives something else."""
        super().__init__(**options)
        accepted = tuple(field.data_key or name for name, field in self.load_fields.items())
        self.error_messages["unknown"] = Problem("unexpected_field", accepted=accepted)

    def _deserialize(self, data: Any, *, unknown: UnknownOption = RAISE, **options: Any) -> Any:
        """Of the attributes that an object does not take only as many are looked at as an answer lists."""
        if unknown == RAISE and isinstance(data, Mapping) and len(data) > len(self.load_fields) + MAX_LISTED_ERRORS:
            known = {field.data_key or name for name, field in self.load_fields.items()}
            wrong = set(islice((name for name in data if name not in known), MAX_LISTED_ERRORS))
            data = {name: value for name, value in data.items() if name in known or name in wrong}
        return super()._deserialize(data, unknown=unknown, **options)

    @cached_property
    def quick(self) -> Quick | None:
        """The schema as a function for what is plainly right; None where there is none."""
        return quick_object(self)


def load(schema: CodeSchema, body: Mapping[str, Any]) -> dict[str, Any]:
    """The validated body. Raises `ServiceError` with the errors of it that are reported (docs/requests.md#errors)."""
    loaded: dict[str, Any]
    if schema.quick is not None:
        with suppress(ValidationError):
            loaded = schema.quick(body, "", body)
            return loaded
    try:
        loaded = schema.load(body)
    except ValidationError as error:
        raise ServiceError.of(located(error.messages, body)) from None
    return loaded


def located(messages: Any, body: Any) -> list[FieldError]:
    """marshmallow's nested messages as located errors, in the order in which the document has them, what follows from
    another error last: the first of them, as many as an answer lists."""
    found = list(_walk(messages, body, (), ()))
    found.sort(key=lambda item: (item[2].follows, item[0]))
    return [_field_error(path, one) for _, path, one in found[:MAX_LISTED_ERRORS]]


def _walk(
    messages: Any, value: Any, order: tuple[int, ...], path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[str | int, ...], Problem]]:
    """Yields (place in the document, path, problem). `value` is the part of the document that `messages` speaks of."""
    if not isinstance(messages, Mapping):
        for one in messages if isinstance(messages, list) else [messages]:
            yield order, path, one if isinstance(one, Problem) else Problem(one)
        return
    places = {key: place for place, key in enumerate(value)} if isinstance(value, Mapping) else {}
    for declared, (key, inner) in enumerate(messages.items()):
        if key == SCHEMA and key not in places:
            yield from _walk(inner, value, order, path)
        elif isinstance(key, int):
            yield from _walk(inner, _at(value, key), (*order, key), (*path, key))
        else:
            place = places.get(key, LAST + declared)
            yield from _walk(inner, _at(value, key), (*order, place), (*path, key))


def _at(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, Sequence) and isinstance(key, int) and key < len(value):
        return value[key]
    return None


def _field_error(path: Sequence[str | int], one: Problem) -> FieldError:
    """`contacts, 3, subscribed, email` is the field `subscribed.email` of element 3 of `contacts`."""
    if len(path) >= 2 and isinstance(path[1], int):
        collection, index, rest = str(path[0]), path[1], path[2:]
    else:
        collection, index, rest = None, None, path
    field = ".".join(map(str, rest)) if rest else None  # an attribute may be called ""
    detail = f"{field} is not accepted here; what is: {', '.join(one.accepted)}." if one.accepted else one.detail
    return FieldError(str(one), field, collection, index, detail)
