"""Limits that accepting and delivering a send share. Pure."""

from __future__ import annotations

MAX_RECIPIENTS = 100
"""Maximum of one send (docs/sending.md#recipients)."""
MAX_SECRET_VALUES = 20
"""Names in `secret_values` (docs/secret-values.md)."""
MAX_DAYS_AHEAD = 90
"""How far ahead a send may be scheduled (docs/scheduling.md)."""
MAX_CANCELLED = 1000
"""Messages that one request cancels (docs/scheduling.md#cancelling-many)."""
