"""Fields that speak codes: each names the error code of a value that does not fit (specification: Schema errors)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from marshmallow import fields

from app.addresses import is_valid_email, is_valid_mobile
from schemas.base import Problem, problem

BIGGEST_INTEGER = 2**63 - 1


def _messages(invalid: str) -> dict[str, Any]:
    return {
        "required": Problem("required"),
        "null": Problem(invalid),
        "invalid": Problem(invalid),
        "validator_failed": Problem(invalid),
    }


class String(fields.Field[str]):
    """A string of `least` to `most` characters; one of `choices` where those are given."""

    default_error_messages = _messages("invalid_string")

    def __init__(
        self, *, least: int = 0, most: int = 10_000, choices: Collection[str] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.least = least
        self.most = most
        self.choices = choices

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> str:
        if not isinstance(value, str):
            raise problem("invalid_string", f"{attr} must be a string.")
        if "\x00" in value:
            raise problem("invalid_string", f"{attr} must not hold the character U+0000.")
        if len(value) > self.most:
            raise problem("too_long", f"{attr} has {len(value)} characters; at most {self.most} are accepted.")
        if len(value) < self.least:
            raise problem("not_empty" if self.least == 1 else "too_short", f"{attr} is too short.")
        if self.choices is not None and value not in self.choices:
            raise problem("invalid_string", f"{attr} must be one of: {', '.join(self.choices)}.")
        return value


class Boolean(fields.Field[bool]):
    """true or false; nothing else, null neither."""

    default_error_messages = _messages("invalid_boolean")

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> bool:
        if not isinstance(value, bool):
            raise problem("invalid_boolean", f"{attr} must be true or false.")
        return value


class Integer(fields.Field[int]):
    """A whole number. One too large for the database is a valid integer that names nothing: it is kept as -1."""

    default_error_messages = _messages("invalid_integer")

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> int:
        if isinstance(value, float) and value.is_integer() and abs(value) > BIGGEST_INTEGER:
            return -1  # the JSON reader gives whole numbers beyond 64 bits as floats
        if not isinstance(value, int) or isinstance(value, bool):
            raise problem("invalid_integer", f"{attr} must be an integer.")
        return value if abs(value) <= BIGGEST_INTEGER else -1


class Email(String):
    """An email address; an empty string means null where null is allowed (decisions: 11, Codes)."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        text = super()._deserialize(value, attr, data, **options)
        if text == "" and self.allow_none:
            return None
        if not is_valid_email(text):
            raise problem("invalid_email_address", f"{attr} must be an email address such as ann@example.com.")
        return text


class Mobile(String):
    """A mobile number in international format; an empty string means null where null is allowed."""

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
    """An object with a schema of its own. A value that is no object is `invalid_object`."""

    default_error_messages = _messages("invalid_object")


class Array(fields.List[Any]):
    """An array of at most `most` elements; `least_one` refuses an empty one."""

    default_error_messages = _messages("invalid_array")

    def __init__(self, inner: fields.Field[Any], *, most: int, least_one: bool = True, **options: Any) -> None:
        super().__init__(inner, **options)
        self.most = most
        self.least_one = least_one

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        if not isinstance(value, list):
            raise problem("invalid_array", f"{attr} must be an array.")
        if self.least_one and not value:
            raise problem("not_empty", f"{attr} must have at least one element.")
        if len(value) > self.most:
            raise problem("too_long", f"{attr} has {len(value)} elements; at most {self.most} are accepted.")
        return super()._deserialize(value, attr, data, **options)
