"""`flask messages`: stored messages, whose bodies are read from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import MESSAGE_TYPES
from app.cli.base import (
    CommandResult,
    Group,
    Row,
    WrongValue,
    by_name_or_id,
    columns,
    combine_options,
    given_options,
    print_row,
    print_rows,
)
from app.db.database import Transaction
from app.db.models import Account, Message
from app.ids import shown_id
from app.messages.define import create_message, update_message
from app.messages.difference import BODY_FIELDS, unified
from app.messages.history import VersionLine, compare_version, contents, find_version, restore_version, versions_of

group = Group("messages", help="Stored messages: content that sends can refer to.")
MESSAGE = by_name_or_id(Message)

# `flask messages`: the versions of a message, what differs between them, and writing one back.


ROW_COLUMNS = ("id", "name", "type", "subject", "from_name", "from_address", "reply_to", "thumbnail_url")
TIME_COLUMNS = ("creation_time", "last_modified_time")

version_option = click.option("--version", "number", type=click.IntRange(1), help="The number of a version.")


def _row(message: Message, *further: str) -> Row:
    """The message with further columns, for printing."""
    row = {name: getattr(message, name) for name in (*ROW_COLUMNS, *TIME_COLUMNS, *further)}
    return {**row, "id": shown_id(message.id)}


def _print_message(row: Row, as_json: bool) -> None:
    print_row(row, as_json, texts=BODY_FIELDS)


def _print_history(result: Row | list[Row], as_json: bool) -> None:
    rows = result if isinstance(result, list) else [result]
    if not as_json:
        rows = [{name: value for name, value in row.items() if name != "actor_kind"} for row in rows]
    if isinstance(result, list):
        print_rows(rows, as_json)
    else:
        _print_message(rows[0], as_json)


@group.reads("history", MESSAGE, _print_history)
@version_option
def history(session: Session, message: Message, number: int | None) -> Row | list[Row]:
    """Show the versions of a message, newest first. With --version, show the content of that version."""
    lines = versions_of(session, message)
    if number is None:
        return [_line(line) for line in lines]
    line = find_version(lines, number)
    return {**_line(line), **contents(session, message, lines, [number])[number]}


def _line(version: VersionLine) -> Row:
    return {
        "number": version.number,
        "time": version.time,
        "actor_kind": version.actor_kind,
        "actor": version.actor,
        "via": version.via,
        "changed": list(version.changed),
    }


@group.reads("difference", MESSAGE)
@version_option
@click.option("--against", type=click.IntRange(1), help="The version to compare with. Default: the previous version.")
def difference(session: Session, message: Message, number: int | None, against: int | None) -> CommandResult:
    """Show what a version changed, as a unified diff of each field. Default: the newest version."""
    comparison = compare_version(session, message, number, against)
    newer, older = comparison.version.number, comparison.against
    names = "nothing" if older is None else f"version {older}", f"version {newer}"
    changed = [{"field": field.field, "before": field.before, "after": field.after} for field in comparison.differences]
    printed = [line for field in comparison.differences for line in unified(field, *names)]
    return CommandResult(
        "\n".join(printed) or "no difference", {"version": newer, "against": older, "changed": changed}
    )


@group.writes("restore", MESSAGE)
@click.option("--version", "number", type=click.IntRange(1), required=True, help="The number of the version.")
def restore(transaction: Transaction, message: Message, number: int) -> Row:
    """Restore a version of a message as a new version. Sends that were accepted before keep their content."""
    restore_version(transaction, message, number)
    return _row(message)


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
attribute_options = combine_options(
    click.option("--subject", help="Subject of the email."),
    click.option("--from-name", metavar="NAME", help="Name of the sender."),
    click.option("--from-address", metavar="EMAIL|NUMBER", help="Address of the sender."),
    click.option("--reply-to", metavar="EMAIL", help="Where replies to the email go."),
    click.option("--thumbnail-url", metavar="URL", help="URL of the thumbnail of the message."),
    click.option("--html", type=FILE, help="File with the HTML body."),
    click.option("--text", type=FILE, help="File with the text body."),
)
"""The options of `create` and `update`."""


def _attributes(html: Path | None, text: Path | None, **options: Any) -> dict[str, Any]:
    return given_options(**options, body_html=_content(html, "--html"), body_text=_content(text, "--text"))


def _content(file: Path | None, option: str) -> str | None:
    if file is None:
        return None
    try:
        content = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongValue(f"{option} {file}: cannot be read as UTF-8: {error}") from None
    if "\0" in content:
        raise WrongValue(f"{option} {file}: contains a character that cannot be stored")
    return content


@group.reads("list", "all accounts", columns("account", *ROW_COLUMNS[:6]))
def list_(session: Session, account: Account) -> list[Row]:
    """Show the messages of one account or of all accounts, without their bodies."""
    statement = select(Message).where(Message.account_id == account.id)
    return [_row(message) for message in session.scalars(statement.order_by(Message.name))]


@group.reads("show", MESSAGE, _print_message)
def show(_session: Session, message: Message) -> Row:
    """Show a message and its bodies."""
    return _row(message, *BODY_FIELDS)


@group.writes("create")
@click.argument("name")
@click.option(
    "--type",
    "type_",
    type=click.Choice(MESSAGE_TYPES),
    default="email",
    show_default=True,
    help="Whether it is an email or a text message.",
)
@attribute_options
def create(transaction: Transaction, account: Account, name: str, type_: str, **options: Any) -> Row:
    """Create a message from files."""
    return _row(create_message(transaction, account.id, {"name": name, "type": type_, **_attributes(**options)}))


@group.writes("update", MESSAGE)
@click.option("--name", help="The new name.")
@attribute_options
def update(transaction: Transaction, message: Message, name: str | None, **options: Any) -> Row:
    """Change a message. An empty value clears an attribute. Sends that were accepted before keep their content."""
    update_message(transaction, message, _attributes(**options) | ({} if name is None else {"name": name}))
    return _row(message)


@group.writes("delete", MESSAGE)
def delete(transaction: Transaction, message: Message) -> CommandResult:
    """Delete a message. Reports of its sends are kept."""
    transaction.delete(message)
    facts = {"id": shown_id(message.id), "name": message.name, "deleted": True}
    return CommandResult(f"deleted message {message.name}", facts)
