"""Fields whose errors are codes of the catalogue (docs/body-errors.md#values-of-a-body).

The schemas of this service use `String`, `Name`, `Boolean`, `Integer`, `Email`, `Mobile`, `Object` and `Array`.
`Number`, `PositiveNumber`, `Bitfield` and `Collection`, and a least length of strings, complete the API's error table:
they are for the blueprints of plugins; the tests use them over HTTP by a plugin (docs/requests.md#errors).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.addresses import is_valid_email, is_valid_mobile
from app.errors import MAX_LISTED_ERRORS
from app.ids import OUT_OF_RANGE, is_storable
from app.markdown import without_links
from app.names import CONTROL
from schemas.base import NOT_VALID, FastLoad, Problem, compile_field, compile_schema, problem


def _messages(invalid: str) -> dict[str, Any]:
    return {
        "required": Problem("required"),
        "null": Problem(invalid),
        "invalid": Problem(invalid),
        "validator_failed": Problem(invalid),
    }


def _described(options: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """The options of a field with properties for the OpenAPI description; those that are None are omitted."""
    given = {name: value for name, value in properties.items() if value is not None}
    return {**options, "metadata": {**given, **options.get("metadata", {})}}


def about(text: str, **properties: Any) -> dict[str, Any]:
    """The metadata of an attribute: what it means, in Markdown for the table of its page (`make docs`), and in the
    OpenAPI description without links; further properties are for the latter."""
    return {"about": text, "description": without_links(text), **properties}


class String(fields.String):
    """A string of `least` to `most` characters; one of `choices` if those are given."""

    default_error_messages = _messages("invalid_string")

    def __init__(
        self, *, least: int = 0, most: int = 10_000, choices: Sequence[str] | None = None, **options: Any
    ) -> None:
        enum = None if choices is None else [*choices, None] if options.get("allow_none") else list(choices)
        super().__init__(**_described(options, minLength=least or None, maxLength=None if enum else most, enum=enum))
        self.least = least
        self.most = most
        self.choices = choices

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> str:
        if not isinstance(value, str):
            form = "a string" if self.choices is None else f"one of: {', '.join(self.choices)}"
            raise problem("invalid_string", f"{attr} must be {form}.")
        if "\x00" in value:
            raise problem("invalid_string", f"{attr} must not contain the character U+0000.")
        if len(value) > self.most:
            raise problem("too_long", f"{attr} has {len(value)} characters; at most {self.most} are accepted.")
        if len(value) < self.least:
            if self.least == 1:
                raise problem("not_empty", f"{attr} must not be blank; it has up to {self.most} characters.")
            raise problem("too_short", f"{attr} has {len(value)} characters; at least {self.least} are needed.")
        if self.choices is not None and value not in self.choices:
            raise problem("invalid_string", f"{attr} must be one of: {', '.join(self.choices)}.")
        return value


class Name(String):
    """A name: stripped of surrounding white space, without control characters."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> str:
        text = super()._deserialize(value.strip() if isinstance(value, str) else value, attr, data, **options)
        if CONTROL.search(text):
            raise problem("invalid_string", f"{attr} must not contain a control character.")
        return text


class Boolean(fields.Boolean):
    """true or false; null is an error."""

    default_error_messages = _messages("invalid_boolean")

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> bool:
        if not isinstance(value, bool):
            raise problem("invalid_boolean", f"{attr} must be true or false.")
        return value


class Integer(fields.Integer):
    """An integer. One beyond 64 bits is valid, but cannot be an id: it is loaded as `OUT_OF_RANGE`."""

    default_error_messages = _messages("invalid_integer")

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> int:
        if isinstance(value, float) and value.is_integer() and not is_storable(value):
            return OUT_OF_RANGE  # the JSON parser returns whole numbers beyond 64 bits as floats
        if not isinstance(value, int) or isinstance(value, bool):
            raise problem("invalid_integer", f"{attr} must be an integer.")
        return value if is_storable(value) else OUT_OF_RANGE


class Number(fields.Float):
    """A number; outside of `least` to `most`, if given, it is `invalid_range`."""

    default_error_messages = _messages("invalid_number")

    def __init__(self, *, least: float | None = None, most: float | None = None, **options: Any) -> None:
        super().__init__(**_described(options, minimum=least, maximum=most))
        self.least = -math.inf if least is None else least
        self.most = math.inf if most is None else most

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise problem("invalid_number", f"{attr} must be a number.")
        if not self.least <= value <= self.most:
            raise problem("invalid_range", f"{attr} must be between {self.least} and {self.most}.")
        return value


class PositiveNumber(fields.Float):
    """A number above zero."""

    default_error_messages = _messages("invalid_positive_number")

    def __init__(self, **options: Any) -> None:
        super().__init__(**_described(options, exclusiveMinimum=0))

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise problem("invalid_positive_number", f"{attr} must be a number above zero.")
        return value


class Bitfield(fields.Integer):
    """A combination of the bits in `bits`."""

    default_error_messages = _messages("invalid_bitfield")

    def __init__(self, *, bits: int, **options: Any) -> None:
        super().__init__(**_described(options, minimum=0, maximum=bits))
        self.bits = bits

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value & ~self.bits:
            raise problem("invalid_bitfield", f"{attr} must be a combination of the bits of {self.bits}.")
        return value


class Email(String):
    """An email address; an empty string means null if null is allowed (docs/contacts.md#values)."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        text = super()._deserialize(value, attr, data, **options)
        if text == "" and self.allow_none:
            return None
        if not is_valid_email(text):
            raise problem("invalid_email_address", f"{attr} must be an email address such as ann@example.com.")
        return text


class Mobile(String):
    """A mobile number in international format; an empty string means null if null is allowed."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        text = super()._deserialize(value, attr, data, **options)
        if text == "" and self.allow_none:
            return None
        if not is_valid_mobile(text):
            raise problem(
                "invalid_mobile_address",
                f"{attr} must be a mobile number of 8 to 15 digits with its country code, such as 61411111111.",
            )
        return text


class Object(fields.Nested):
    """An object with its own schema."""

    default_error_messages = _messages("invalid_object")

    def compiled(self) -> FastLoad | None:
        """The field's schema as a function; see `schemas.base`."""
        if type(self)._deserialize is not Object._deserialize or self.many or self.unknown:
            return None
        return compile_schema(self.schema)


class Array(fields.List[Any]):
    """An array of at most `most` elements; `least_one` refuses an empty one."""

    default_error_messages = _messages("invalid_array")

    def __init__(self, inner: fields.Field[Any], *, most: int, least_one: bool = True, **options: Any) -> None:
        super().__init__(inner, **_described(options, minItems=1 if least_one else None, maxItems=most))
        self.most = most
        self.least_one = least_one

    def compiled(self) -> FastLoad | None:
        """The array's own checks, then a function per element; see `schemas.base`."""
        load_element = compile_field(self.inner)
        if type(self)._deserialize is not Array._deserialize or load_element is None or self.inner.allow_none:
            return None

        def load_array(value: Any, name: str, around: Mapping[str, Any]) -> list[Any]:
            self._check(value, name)
            if None in value:
                raise NOT_VALID
            return [load_element(element, name, around) for element in value]

        return load_array

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        self._check(value, attr)
        return self._elements(value, **options)

    def _elements(self, value: Sequence[Any], **options: Any) -> list[Any]:
        """The loaded elements; stops after as many errors as a response lists."""
        loaded: list[Any] = []
        errors: dict[int, Any] = {}
        for index, element in enumerate(value):
            try:
                loaded.append(self.inner.deserialize(element, **options))
            except ValidationError as error:
                errors[index] = error.messages
                if len(errors) >= MAX_LISTED_ERRORS:
                    break
        if errors:
            raise ValidationError(errors)
        return loaded

    def _check(self, value: Any, attr: str | None) -> None:
        if not isinstance(value, list):
            raise problem("invalid_array", f"{attr} must be an array.")
        if self.least_one and not value:
            raise problem("not_empty", f"{attr} must have at least one element.")
        if len(value) > self.most:
            raise problem("too_long", f"{attr} has {len(value)} elements; at most {self.most} are accepted.")


class Collection(Array):
    """An array of objects of one schema; any other value or element is `invalid_collection`."""

    default_error_messages = _messages("invalid_collection")

    def __init__(self, schema: type[Schema], *, most: int, **options: Any) -> None:
        super().__init__(Object(schema), most=most, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        if not isinstance(value, list) or not all(isinstance(element, Mapping) for element in value):
            raise problem("invalid_collection", f"{attr} must be an array of objects.")
        return super()._deserialize(value, attr, data, **options)
