"""Limits that accepting and delivering a send share. Pure."""

from __future__ import annotations

MAX_RECIPIENTS = 100
"""Of one send (docs/sending.md#recipients)."""
