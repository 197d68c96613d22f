"""Tags and metadata of a send (docs/tags.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields

from app.names import CONTROL
from app.recipients.labels import (
    MAX_METADATA_ENTRIES,
    MAX_METADATA_KEY_LENGTH,
    MAX_METADATA_VALUE_LENGTH,
    MAX_TAG_LENGTH,
    MAX_TAGS,
    METADATA_KEY,
)
from schemas.base import Problem, problem
from schemas.fields import Array, Name

ENTRIES = {
    "type": "object",
    "maxProperties": MAX_METADATA_ENTRIES,
    "propertyNames": {"pattern": f"^{METADATA_KEY.pattern}$"},
    "additionalProperties": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_METADATA_VALUE_LENGTH},
}
"""What the description says of metadata."""


class Tag(Name):
    """A tag; its errors say so, because an element has no name."""

    def __init__(self) -> None:
        super().__init__(least=1, most=MAX_TAG_LENGTH, metadata={"pattern": r"[^\s/]\s*$"})

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> str:
        tag = super()._deserialize(value, attr or "A tag", data, **options)
        if tag.endswith("/"):  # the path of its counts would be that of another tag
            raise problem("invalid_string", f"{attr or 'A tag'} must not end with a slash.")
        return tag


class Tags(Array):
    """An array of different tags."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        super().__init__(Tag(), most=MAX_TAGS, least_one=False, allow_none=True, metadata=metadata)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        tags = super()._deserialize(value, attr, data, **options)
        twice = [index for index, tag in enumerate(tags) if tag in tags[:index]]
        if twice:
            raise ValidationError(
                {index: [Problem("invalid_string", f"{tags[index]} occurs twice.")] for index in twice}
            )
        return tags


class Metadata(fields.Field[dict[str, str]]):
    """An object of strings. An entry whose value is null is absent."""

    default_error_messages = {"null": Problem("invalid_object")}  # noqa: RUF012 - declared so by marshmallow

    def __init__(self, metadata: dict[str, Any]) -> None:
        super().__init__(allow_none=True, metadata={**ENTRIES, **metadata})

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise problem("invalid_object", f"{attr} must be an object of strings.")
        if len(value) > MAX_METADATA_ENTRIES:
            raise problem("too_long", f"{attr} has {len(value)} keys; at most {MAX_METADATA_ENTRIES} are accepted.")
        problems = {key: [fault] for key, text in value.items() if (fault := _fault(f"{attr}.{key}", key, text))}
        if problems:
            raise ValidationError(problems)
        return {key: text for key, text in value.items() if text is not None}


def _fault(name: str, key: str, value: object) -> Problem | None:
    """What is wrong with an entry of the metadata."""
    if not METADATA_KEY.fullmatch(key):
        form = f"1 to {MAX_METADATA_KEY_LENGTH} letters of A-Z and a-z, digits, underscores, hyphens and dots"
        return Problem("invalid_string", f"A key of metadata has {form}.")
    if value is None:
        return None
    if not isinstance(value, str):
        return Problem("invalid_string", f"{name} must be a string.")
    if not value:
        return Problem("not_empty", f"{name} must not be empty; leave it out, or give null.")
    if len(value) > MAX_METADATA_VALUE_LENGTH:
        return Problem(
            "too_long", f"{name} has {len(value)} characters; at most {MAX_METADATA_VALUE_LENGTH} are accepted."
        )
    if CONTROL.search(value):
        return Problem("invalid_string", f"{name} must not contain a control character.")
    return None
