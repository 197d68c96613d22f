"""The header fields that a send adds to its mails (docs/mail-headers.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields

from app.content.mail_headers import (
    ACCEPTED_NAMES,
    MAX_HEADER_LINE,
    MAX_HEADERS,
    expected_value,
    is_accepted,
)
from app.names import CONTROL
from schemas.base import Problem, problem

MAX_TEXT_LENGTH = MAX_HEADER_LINE - len("X-A: ")
"""Characters of the text of a field with the shortest name."""


class MailHeaders(fields.Field[dict[str, str]]):
    """An object of names with the texts of the fields. One whose text is null is absent."""

    default_error_messages = {"null": Problem("invalid_object")}  # noqa: RUF012 - declared so by marshmallow

    def __init__(self, metadata: dict[str, Any]) -> None:
        described = {
            "type": "object",
            "maxProperties": MAX_HEADERS,
            "additionalProperties": {
                "type": ["string", "null"],
                "minLength": 1,
                "maxLength": MAX_TEXT_LENGTH,
            },
        }
        super().__init__(allow_none=True, metadata={**described, **metadata})

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise problem("invalid_object", f"{attr} must be an object of strings.")
        if len(value) > MAX_HEADERS:
            raise problem("too_long", f"{attr} has {len(value)} fields; at most {MAX_HEADERS} are accepted.")
        problems, seen = dict[str, list[Problem]](), set[str]()
        for name, text in value.items():
            fault = _fault(f"{attr}.{name}", name, text)
            if fault is None and name.lower() in seen:
                fault = Problem("invalid_string", f"{attr}.{name} occurs twice: names of header fields have no case.")
            if fault is not None:
                problems[name] = [fault]
            if text is not None:
                seen.add(name.lower())
        if problems:
            raise ValidationError(problems)
        return {name: text.strip() for name, text in value.items() if text is not None}


def _fault(path: str, name: str, text: object) -> Problem | None:
    """What is wrong with a header field."""
    if not is_accepted(name):
        return Problem("unexpected_field", f"{path} is not accepted; accepted: {ACCEPTED_NAMES}.")
    if text is None:
        return None
    if not isinstance(text, str):
        return Problem("invalid_string", f"{path} must be a string.")
    value = text.strip()
    most = MAX_HEADER_LINE - len(f"{name}: ")
    if len(value) > most:
        return Problem("too_long", f"{path} has {len(value)} characters; at most {most} are accepted.")
    if CONTROL.search(text):
        return Problem("invalid_string", f"{path} must not contain a line break or another control character.")
    if not value:
        return Problem("not_empty", f"{path} must not be blank; leave it out, or give null.")
    expected = expected_value(name, value)
    return Problem("invalid_string", f"{path} must be {expected}.") if expected else None
