"""Writes docs/commands from the commands themselves: `python -m tools.generated_docs.commands FOLDER`, called by
`make docs`."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from app.cli.processes import PROCESSES
from app.tms import tms

WIDTH = 118
RANGE = re.compile(r"\b(?:INTEGER|FLOAT)(?: RANGE)?$")

INDEX = """\
# Commands

Each group of commands is on one of these pages. They are generated from the help texts of the commands by `make docs`;
[the command line](../cli.md) says what is the same for all of them.

| command or group | what it is for |
| --- | --- |
"""
HEAD = """\
# {title}

{purpose} [The command line](../cli.md) says how to call a command, and what `--json` and `--account` do. This page is
generated from the help texts of the commands by `make docs`.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page with the commands of some groups, and single commands."""

    title: str
    purpose: str
    names: tuple[str, ...]


PAGES = {
    "running": Page(
        "Commands for running the service",
        "The first account, the processes, and how they are. Only `tms` has the commands from `run` to `submission`.",
        ("init", "run", "web", "worker", "scheduler", "submission", "reload", "status", "top"),
    ),
    "accounts": Page(
        "Commands for accounts",
        "Accounts, their keys, and the domains and numbers from which they send.",
        ("accounts", "keys", "test-account", "domains", "senders", "seed"),
    ),
    "contacts": Page(
        "Commands for contacts",
        "Lists, their contacts, and the addresses that are unsubscribed or blocked.",
        ("lists", "contacts", "suppressions"),
    ),
    "messages": Page(
        "Commands for messages",
        "Stored messages, what was sent, and what became of it.",
        ("messages", "sends", "groups", "inbox"),
    ),
    "automations": Page(
        "Commands for automations and webhooks",
        "What happens by itself: automations, and the events that are sent to webhooks.",
        ("automations", "webhooks"),
    ),
    "transports": Page(
        "Commands for transports",
        "The ways to mail relays and SMS gateways, and what comes back from them.",
        ("transports", "inbound"),
    ),
    "upkeep": Page(
        "Commands for upkeep and repair",
        "The database, backups, secrets, the console, and what concerns all accounts.",
        ("db", "backup", "restore", "holds", "history", "secrets", "console", "audit"),
    ),
}
"""Name of the file -> the page."""

MORE = {
    "accounts": "[Accounts in a seed file](../seed.md#accounts-found-by-name), [retention](../retention.md)",
    "keys": "[Keys and scopes](../requests.md#keys-and-scopes), [rotating a key](../requests.md#rotating-a-key)",
    "test-account": "[Testing](../testing.md)",
    "domains": "[Deliverability](../deliverability.md), [reports about a domain](../domain-reports.md)",
    "senders": "[Senders of text messages](../sms.md#senders)",
    "lists": "[Lists and contacts](../contacts.md), [indexes on fields](../querying.md#what-an-index-answers)",
    "contacts": "[CSV files](../csv.md), [people's data](../privacy.md), [filters](../querying.md#filters)",
    "suppressions": "[Unblocking many addresses](../troubleshoot.md#unblocking-many-addresses), "
    "[suppressions in the console](../console-contents.md#suppressions)",
    "messages": "[Messages](../contacts.md#messages) and their [versions](../contacts.md#versions)",
    "sends": "[When messages do not arrive](../troubleshoot.md), [filters](../querying.md#filters)",
    "groups": "[Counts over time](../cli.md#counts-over-time)",
    "inbox": "[The inbox](../testing.md#inbox)",
    "automations": "[Automations](../automations.md)",
    "webhooks": "[Webhooks](../webhooks.md)",
    "transports": "[Transports](../transports.md)",
    "inbound": "[Inbound mail](../inbound.md), [text messages](../sms.md)",
    "init": "[Sending the first mail](../first-mail.md)",
    "run": "[Running the service](../run.md)",
    "reload": "[Upgrading](../upgrade.md)",
    "status": "[Health](../health.md#status)",
    "seed": "[Seed files](../seed.md)",
    "db": "[Upgrading](../upgrade.md#migrations)",
    "backup": "[Backing up](../backup.md)",
    "restore": "[Restoring a backup](../restore.md)",
    "holds": "[What a restore holds](../restore.md#what-a-restore-holds)",
    "history": "[Dropping a month](../retention.md#dropping-a-month)",
    "secrets": "[Secrets](../secrets.md)",
    "console": "[Console](../console.md#signing-in)",
    "audit": "[Audit log](../audit.md)",
}
"""A group or command -> the pages that say more."""


def pages() -> dict[str, str]:
    """Name of the file -> its text."""
    texts = {f"{name}.md": _text(page) for name, page in PAGES.items()}
    rows = "".join(_row(name, file) for file, page in PAGES.items() for name in page.names)
    return {"README.md": INDEX + rows, **texts}


def _command(name: str) -> click.Command:
    command = tms.get_command(click.Context(tms), name)
    if command is None:
        raise LookupError(name)
    return command


def _row(name: str, file: str) -> str:
    summary = _paragraphs(_command(name))[0].partition(". ")[0].rstrip(".")
    return f"| [`{name}`]({file}.md#{name}) | {_cell(summary)} |\n"


def _text(page: Page) -> str:
    parts = [textwrap.fill(part, WIDTH) for part in HEAD.format(title=page.title, purpose=page.purpose).split("\n\n")]
    for name in page.names:
        parts += _section(_command(name), name, 2)
        parts += _subcommands(_command(name), name, 3)
    return "\n\n".join(parts) + "\n"


def _section(command: click.Command, path: str, level: int) -> Iterator[str]:
    """The parts of a command or group: heading, help, usage, options."""
    yield f"{'#' * level} {path}"
    yield from _paragraphs(command)
    if not isinstance(command, click.Group):
        yield from _usage(command, path)
    if path in MORE:
        yield f"More: {MORE[path]}."


def _subcommands(command: click.Command, path: str, level: int) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name, subcommand in sorted(command.commands.items()):
            yield from _section(subcommand, f"{path} {name}", level)
            yield from _subcommands(subcommand, f"{path} {name}", level)


def _paragraphs(command: click.Command) -> list[str]:
    paragraphs = (" ".join(paragraph.replace("\b", "").split()) for paragraph in (command.help or "").split("\n\n"))
    return [textwrap.fill(text, WIDTH, break_on_hyphens=False) for text in paragraphs if text]


def _usage(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    words = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    prefix = ("tms",) if path in PROCESSES else ()
    yield f"Usage: `{' '.join((*prefix, path, *words))}`"
    options = [option for option in command.params if isinstance(option, click.Option) and option.name != "as_json"]
    if options:
        rows = [f"| `{_cell(_form(option, context))}` | {_cell(_meaning(option))} |" for option in options]
        yield "\n".join(("| option | what it does |", "| --- | --- |", *rows))


def _form(option: click.Option, context: click.Context) -> str:
    """The option as one writes it, such as `--limit N`."""
    form, _ = option.get_help_record(context) or ("", "")
    return RANGE.sub("N", form)


def _meaning(option: click.Option) -> str:
    parts = ["Required." if option.required else "", " ".join((option.help or "").split())]
    if option.show_default and option.default is not None:
        parts.append(f"Default: `{option.default}`.")
    return " ".join(part for part in parts if part)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def main(folder: Path) -> None:
    """Writes the pages into a folder."""
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
