"""The command line: `flask --app wsgi …`, one module per group (docs/cli.md)."""

from __future__ import annotations

import importlib

import click
from flask import Flask
from flask.cli import AppGroup

from app.resources.definition import ResourceDefinition

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
    "history",
    "holds",
    "inbound",
    "inbox",
    "automations",
    "transports",
    "test-account",
    "audit",
    "console",
    "secrets",
    "db",
)
"""Groups of commands, each the `group` of a module, which has the noun's name unless `MODULES` names another."""
MODULES = {"test-account": "testing"}
"""Noun -> the module with its commands, where the names differ."""
DEFINED_NOUNS = ("senders",)
"""Nouns without a module, whose commands are made from a definition: `RESOURCE` in `app.<noun>.resource`."""
COMMANDS = ("init", "reload", "seed", "status", "top", "backup", "restore")
"""Modules with a single `command`."""
SECTIONS = {
    "Run": ("init", "run", "web", "worker", "scheduler", "submission", "reload", "status", "top"),
    "Accounts": ("accounts", "keys", "test-account", "domains", "senders", "webhooks", "console", "seed"),
    "Sending": ("messages", "sends", "groups", "inbox", "automations", "transports", "inbound"),
    "People": ("lists", "contacts", "suppressions"),
    "Maintenance": ("db", "backup", "restore", "holds", "history", "secrets", "audit"),
}
"""Title -> commands, in the order of `tms --help`. Only `tms` has `run`, `web`, `worker` and `scheduler`."""
LONGEST_SENTENCE = 200
"""Characters of the first sentence of a help text. Lists of commands wrap it and do not cut it off."""


class WholeSentence(click.Command):
    """A command or group that lists of commands show with the whole first sentence of its help text."""

    def get_short_help_str(self, limit: int = LONGEST_SENTENCE) -> str:
        """The first sentence, also where click would cut it off."""
        return super().get_short_help_str(max(limit, LONGEST_SENTENCE))


def group_of(noun: str) -> click.Group:
    """The commands of a noun."""
    if noun in DEFINED_NOUNS:
        resource: ResourceDefinition = importlib.import_module(f"app.{noun}.resource").RESOURCE
        made: click.Group = importlib.import_module(f"{__name__}.resource").commands_of(resource)
        return made
    group: click.Group = importlib.import_module(f"{__name__}.{MODULES.get(noun, noun)}").group
    return group


class LazyCommands(AppGroup):
    """Imports a group when it is used: the API and the workers start half a second sooner without the commands."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names in alphabetical order."""
        return sorted((*COMMANDS, *NOUNS))

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command or group of that name, or None."""
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
            return command
        return group_of(cmd_name) if cmd_name in NOUNS else None


def register(app: Flask) -> None:
    """Adds the commands to `flask`."""
    app.cli = LazyCommands()
