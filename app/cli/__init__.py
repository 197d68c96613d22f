"""The command line: `flask --app wsgi …`, one module per group (contract: Command line)."""

from __future__ import annotations

from flask import Flask

from app.cli import (
    accounts,
    automations,
    contacts,
    db,
    domains,
    groups,
    inbound,
    keys,
    lists,
    messages,
    seed,
    senders,
    sends,
    suppressions,
    webhooks,
)

NOUNS = (
    accounts,
    keys,
    domains,
    senders,
    lists,
    contacts,
    messages,
    webhooks,
    groups,
    suppressions,
    sends,
    inbound,
    automations,
    db,
)


def register(app: Flask) -> None:
    """Adds the commands to `flask`."""
    app.cli.add_command(seed.command)
    for noun in NOUNS:
        app.cli.add_command(noun.group)
