"""Limits of what clients and operators write into a message, stored or sent (docs/sending.md#attributes). Pure."""

from __future__ import annotations

MAX_SUBJECT_LENGTH = 998
MAX_FROM_NAME_LENGTH = 255
MAX_BODY_BYTES = 1024 * 1024
"""Bytes of a body in UTF-8."""
MAX_VALUE_LENGTH = 10_000
"""Characters of a wildcard value (docs/sending.md#wildcard-values)."""
