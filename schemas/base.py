"""Schemas whose errors are codes of the catalogue, located and in document order.

A marshmallow error message here is a `Problem`: a code and, where it helps, the exact text for the integrator.
`load` turns the messages of marshmallow into one `ServiceError` (docs/requests.md#errors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, missing
from marshmallow.decorators import POST_LOAD, PRE_LOAD, VALIDATES, VALIDATES_SCHEMA
from marshmallow.exceptions import SCHEMA
from marshmallow.types import UnknownOption

from app.errors import MAX_LISTED_ERRORS, FieldError, ServiceError

# Fast load: loading valid documents without the parts of marshmallow that collect errors.
#
# marshmallow loads some ten thousand small objects per second, because it creates a function, a validator and an error
# store for each attribute. A bulk request has a thousand objects that are nearly always valid. So a schema is also
# compiled into plain functions over the same fields, which call the field's own `_deserialize`: nothing is declared
# twice. The compiled function returns the loaded document or raises. After an error marshmallow loads the whole
# document again, and its result counts. A schema with hooks or options is not compiled.
#
# Measured with a thousand contacts of eight attributes: 38 ms by marshmallow, 6 ms this way.

FastLoad = Callable[[Any, str, Mapping[str, Any]], Any]
"""Called with a value other than null, the name of its attribute and the object that contains it; returns the loaded
value. Raises `ValidationError` if marshmallow must load the document."""

NOT_VALID = ValidationError("")
"""Never shown to clients, because marshmallow then determines the errors."""
HOOKS = (PRE_LOAD, POST_LOAD, VALIDATES, VALIDATES_SCHEMA)


def compile_schema(schema: Schema) -> FastLoad | None:
    """The schema as a function; None for a schema with hooks or options."""
    if schema.unknown != RAISE or schema.many or schema.partial or any(schema._hooks[hook] for hook in HOOKS):
        return None
    attributes = []
    for name, field in schema.load_fields.items():
        load_field = compile_field(field)
        if load_field is None or field.attribute or field.data_key or field.load_default is not missing or "." in name:
            return None
        attributes.append((name, field.required, field.allow_none, load_field))

    def load_object(value: Any, _name: str, _around: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise NOT_VALID
        loaded = {}
        for name, required, allow_none, load_field in attributes:
            if name in value:
                attribute = value[name]
                if attribute is not None:
                    loaded[name] = load_field(attribute, name, value)
                elif allow_none:
                    loaded[name] = None
                else:
                    raise NOT_VALID
            elif required:
                raise NOT_VALID
        if len(loaded) != len(value):  # there are unknown attributes
            raise NOT_VALID
        return loaded

    return load_object


def compile_field(field: fields.Field[Any]) -> FastLoad | None:
    """The field as a function; None for a field with validators or hooks."""
    if field.validators or field.pre_load or field.post_load:
        return None
    compiled: Callable[[], FastLoad | None] = getattr(field, "compiled", lambda: field._deserialize)
    return compiled()


AFTER_DOCUMENT = 1 << 60
"""The position of a missing attribute, after all others."""


class Problem(str):
    """The error of one value: a code and, where it helps, the exact text for the integrator."""

    detail: str | None
    accepted: tuple[str, ...]
    """For an unknown attribute: the attributes that the object accepts."""
    follows: bool
    """Whether it follows from another error, and is listed after all others."""

    def __new__(
        cls, code: str, detail: str | None = None, accepted: tuple[str, ...] = (), *, follows: bool = False
    ) -> Problem:
        """Creates a string, because marshmallow passes error messages on as strings."""
        new = super().__new__(cls, code)
        new.detail = detail
        new.accepted = accepted
        new.follows = follows
        return new


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
        """The error of an unknown attribute lists the accepted ones."""
        super().__init__(**options)
        accepted = tuple(field.data_key or name for name, field in self.load_fields.items())
        self.error_messages["unknown"] = Problem("unexpected_field", accepted=accepted)

    def _deserialize(self, data: Any, *, unknown: UnknownOption = RAISE, **options: Any) -> Any:
        """Keeps only as many unknown attributes as a response lists."""
        if unknown == RAISE and isinstance(data, Mapping) and len(data) > len(self.load_fields) + MAX_LISTED_ERRORS:
            known_names = {field.data_key or name for name, field in self.load_fields.items()}
            listed = set(islice((name for name in data if name not in known_names), MAX_LISTED_ERRORS))
            data = {name: value for name, value in data.items() if name in known_names or name in listed}
        return super()._deserialize(data, unknown=unknown, **options)

    @cached_property
    def fast_load(self) -> FastLoad | None:
        """The schema compiled for valid documents; None if it cannot be compiled."""
        return compile_schema(self)


class NoAttributesSchema(CodeSchema):
    """The body of a request that has nothing to say: an empty object, or none."""


def load(schema: CodeSchema, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the validated body. Raises `ServiceError` with the errors to report (docs/requests.md#errors)."""
    loaded: dict[str, Any]
    if schema.fast_load is not None:
        with suppress(ValidationError):
            loaded = schema.fast_load(body, "", body)
            return loaded
    try:
        loaded = schema.load(body)
    except ValidationError as error:
        raise ServiceError.of(located(error.messages, body)) from None
    return loaded


def located(messages: Any, body: Any) -> list[FieldError]:
    """The nested messages of marshmallow as located errors, in the order of the document, those that follow from
    another error last; only as many as a response lists."""
    problems = sorted(_walk(messages, body, (), ()), key=lambda item: (item[2].follows, item[0]))
    return [_field_error(path, problem) for _, path, problem in problems[:MAX_LISTED_ERRORS]]


def _walk(
    messages: Any, value: Any, order: tuple[int, ...], path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[str | int, ...], Problem]]:
    """Yields (position in the document, path, problem). `value` is the part of the document that `messages`
    describes."""
    if not isinstance(messages, Mapping):
        for message in messages if isinstance(messages, list) else [messages]:
            yield order, path, message if isinstance(message, Problem) else Problem(message)
        return
    positions = {key: position for position, key in enumerate(value)} if isinstance(value, Mapping) else {}
    for declared, (key, inner) in enumerate(messages.items()):
        if key == SCHEMA and key not in positions:
            yield from _walk(inner, value, order, path)
        elif isinstance(key, int):
            yield from _walk(inner, _at(value, key), (*order, key), (*path, key))
        else:
            position = positions.get(key, AFTER_DOCUMENT + declared)
            yield from _walk(inner, _at(value, key), (*order, position), (*path, key))


def _at(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, Sequence) and isinstance(key, int) and key < len(value):
        return value[key]
    return None


def _field_error(path: Sequence[str | int], problem: Problem) -> FieldError:
    """`contacts, 3, subscribed, email` is the field `subscribed.email` of element 3 of `contacts`."""
    if len(path) >= 2 and isinstance(path[1], int):
        collection, index, rest = str(path[0]), path[1], path[2:]
    else:
        collection, index, rest = None, None, path
    field = ".".join(map(str, rest)) if rest else None  # the name of an attribute may be empty
    detail = (
        f"{field} is not accepted here; accepted: {', '.join(problem.accepted)}."
        if problem.accepted
        else problem.detail
    )
    return FieldError(str(problem), field, collection, index, detail)
