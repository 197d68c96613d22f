"""What a session may see beyond the scopes of keys. Pure."""

from __future__ import annotations

OPERATOR = "operator"
"""The scope of pages about the whole installation, which no key has."""
