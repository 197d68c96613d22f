"""Names that operators give to accounts, keys, lists and messages, by which they find them again."""

from __future__ import annotations

from app.errors import ServiceError

LONGEST_NAME = 255


def check_name(name: str | None) -> str:
    """The name itself. Raises `ServiceError` unless it has 1 to 255 printable characters that are not all blank."""
    if not name or not name.strip():
        raise ServiceError("not_empty", field="name", detail="must not be empty")
    if len(name) > LONGEST_NAME:
        raise ServiceError("too_long", field="name", detail=f"has more than {LONGEST_NAME} characters")
    if not name.isprintable():
        raise ServiceError("invalid_string", field="name", detail="holds a control character")
    return name
