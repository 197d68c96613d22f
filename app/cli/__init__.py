"""The command line: `flask --app wsgi …`, one module per group (docs/cli.md#conventions)."""

from __future__ import annotations

import importlib

import click
from flask import Flask
from flask.cli import AppGroup

NOUNS = (
    "accounts",
    "keys",
    "domains",
    "senders",
    "lists",
    "contacts",
    "messages",
    "webhooks",
    "groups",
    "suppressions",
    "sends",
    "inbound",
    "automations",
    "db",
)
"""The modules that offer a `group` of that name."""
COMMANDS = ("seed", "status")
"""The modules that offer a `command` of that name."""


def group_of(noun: str) -> click.Group:
    """The commands of a noun."""
    found: click.Group = importlib.import_module(f"{__name__}.{noun}").group
    return found


class LazyCommands(AppGroup):
    """Imports a group when it is asked for: the API and the workers start half a second sooner without them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """In alphabetical order."""
        return sorted((*COMMANDS, *NOUNS))

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for a name that there is not."""
        if cmd_name in COMMANDS:
            found: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
            return found
        return group_of(cmd_name) if cmd_name in NOUNS else None


def register(app: Flask) -> None:
    """Gives `flask` the commands."""
    app.cli = LazyCommands()
