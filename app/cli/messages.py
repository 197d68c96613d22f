"""`flask messages`: stored messages, whose bodies are read from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.addresses import MESSAGE_TYPES
from app.cli.base import (
    Group,
    WrongValue,
    account_option,
    accounts_option,
    given_options,
    json_option,
    print_done,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.cli.message_versions import SHOWN, TIMES, find_message, message_row
from app.cli.message_versions import commands as version_commands
from app.db.models import Message
from app.http.context import services
from app.ids import shown_id
from app.messages.define import create_message, update_message
from app.messages.difference import BODIES

group = Group("messages", help="Stored messages that sends may refer to.")
for one in version_commands.commands.values():
    group.add_command(one)

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def attribute_options(command: Any) -> Any:
    """The options of `create` and `update`."""
    for option in (
        click.option("--text", type=FILE, help="File with the text body."),
        click.option("--html", type=FILE, help="File with the HTML body."),
        click.option("--thumbnail-url", metavar="URL"),
        click.option("--reply-to", metavar="EMAIL"),
        click.option("--from-address", metavar="EMAIL|NUMBER"),
        click.option("--from-name", metavar="NAME"),
        click.option("--subject"),
    ):
        command = option(command)
    return command


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


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the messages of an account, or of all, without their bodies."""
    names = (*SHOWN, *TIMES) if as_json else SHOWN[:6]
    with services().database.read() as session:
        rows = rows_of_accounts(
            session, account, lambda one: [message_row(message, *names) for message in _messages(session, one)]
        )
    print_rows(rows, as_json)


def _messages(session: Session, account_id: int) -> Iterable[Message]:
    return session.scalars(select(Message).where(Message.account_id == account_id).order_by(Message.name))


@group.command("show")
@click.argument("message")
@account_option
@json_option
def show(message: str, account: str | None, as_json: bool) -> None:
    """Show a message with its bodies."""
    with services().database.read() as session:
        found = find_message(session, account, message)
        row = message_row(found, *SHOWN, *TIMES, *BODIES)
    print_row(row, as_json, texts=BODIES)


@group.command("create")
@click.argument("name")
@click.option("--type", "type_", type=click.Choice(MESSAGE_TYPES), default="email", show_default=True)
@attribute_options
@account_option
@json_option
def create(name: str, type_: str, account: str | None, as_json: bool, **options: Any) -> None:
    """Create a message from files."""
    attributes = {"name": name, "type": type_, **_attributes(**options)}
    with services().database.write() as transaction:
        made = create_message(transaction, find_account(transaction, account).id, attributes)
        row = message_row(made, *SHOWN, *TIMES)
    print_row(row, as_json, texts=BODIES)


@group.command("update")
@click.argument("message")
@click.option("--name", help="The new name.")
@attribute_options
@account_option
@json_option
def update(message: str, name: str | None, account: str | None, as_json: bool, **options: Any) -> None:
    """Change a message; an empty text clears an attribute. Sends accepted before keep the old content."""
    attributes = _attributes(**options) | ({} if name is None else {"name": name})
    with services().database.write() as transaction:
        found = find_message(transaction, account, message)
        update_message(transaction, found, attributes)
        row = message_row(found, *SHOWN, *TIMES)
    print_row(row, as_json, texts=BODIES)


@group.command("delete")
@click.argument("message")
@account_option
@json_option
def delete(message: str, account: str | None, as_json: bool) -> None:
    """Delete a message. Reports of its sends are kept."""
    with services().database.write() as transaction:
        found = find_message(transaction, account, message)
        transaction.delete(found)
    print_done(
        f"deleted message {found.name}", {"id": shown_id(found.id), "name": found.name, "deleted": True}, as_json
    )
