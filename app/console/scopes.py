"""What a session may see beyond the scopes of keys. Pure."""

from __future__ import annotations

OPERATOR = "operator"
"""The scope of pages about the whole installation, which no key has."""
MANAGE = "manage"
"""The scope of keys and webhooks, which no key has: who reads one from an application's settings can neither make
another one nor have events sent elsewhere. Sessions have it that a link of the command line began."""
