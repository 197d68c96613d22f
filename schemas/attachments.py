"""Attachments of a send (docs/sending.md#attachments)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, post_load, validates_schema

from app.content.attachments import (
    MAX_NAME_LENGTH,
    decode_strict,
    extension_fits,
    is_valid_name,
    media_type,
    plain_type,
)
from app.sends.accept.draft import AttachmentDraft
from schemas.base import CodeSchema, Problem, problem
from schemas.fields import Array, Object, String

MAX_ELEMENTS = 10_000
"""Far above the actual limit, which is a setting and includes the attachments of single recipients."""


MAX_CONTENT_LENGTH = 2**63
"""No limit: the actual one is a setting, too, and is checked once the content is decoded."""


class AttachmentName(String):
    """A file name that is safe on all systems; all errors in it have the same code."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> str:
        if isinstance(value, str) and not is_valid_name(value):
            raise problem("invalid_attachment_name")
        return super()._deserialize(value, attr, data, **options)


class Base64(String):
    """Strict base64, decoded to bytes. The size limit applies to all attachments of a recipient together."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        if not isinstance(value, str):
            raise problem("invalid_string", f"{attr} must be a string in base64.")
        try:
            return decode_strict(value)
        except ValueError:
            raise problem("invalid_attachment_content") from None


class AttachmentSchema(CodeSchema):
    """A file for all recipients, or for one."""

    type = String(
        required=True, most=255, metadata={"description": "MIME type, such as `application/pdf`.", "minLength": 1}
    )
    name = AttachmentName(required=True, least=1, most=MAX_NAME_LENGTH)
    content = Base64(required=True, most=MAX_CONTENT_LENGTH, metadata={"description": "The file in base64."})

    @validates_schema
    def check_extension(self, data: Mapping[str, Any], **_: Any) -> None:
        """The extension must be one that the MIME type allows."""
        if not extension_fits(data["type"], data["name"]):
            field = "name" if media_type(data["type"]) else "type"
            detail = f"{field}: the extension of {data['name']} does not fit the MIME type {data['type']}."
            raise ValidationError({field: [Problem("invalid_attachment_extension", detail)]})

    @post_load
    def make_draft(self, data: Mapping[str, Any], **_: Any) -> AttachmentDraft:
        """The attachment as the use case expects it."""
        return AttachmentDraft(data["name"], plain_type(data["type"]) or data["type"], data["content"])


def attachments(**options: Any) -> Array:
    """An optional array of attachments."""
    return Array(Object(AttachmentSchema), most=MAX_ELEMENTS, least_one=False, allow_none=True, **options)
