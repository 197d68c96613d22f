"""The command line: `flask --app wsgi …`, one module per group (contract: Command line)."""

from __future__ import annotations

from flask import Flask

from app.cli import (
    accounts,
    automations,
    domains,
    groups,
    keys,
    lists,
    messages,
    senders,
    sends,
    webhooks,
)

NOUNS = (
    accounts,
    keys,
    domains,
    senders,
    lists,
    messages,
    webhooks,
    groups,
    sends,
    automations,
)


def register(app: Flask) -> None:
    """Adds the commands to `flask`."""
    for noun in NOUNS:
        app.cli.add_command(noun.group)
