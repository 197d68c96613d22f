"""`flask messages`: stored messages, whose bodies are read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.addresses import MESSAGE_TYPES
from app.cli.base import (
    Group,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    echo,
    given_options,
    json_option,
    print_done,
    print_json,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.db.lookup import find_by_name_or_id
from app.db.models import Message
from app.http.context import services
from app.ids import shown_id
from app.messages.define import create_message, update_message
from app.messages.difference import BODIES, differences, unified
from app.messages.history import VersionLine, contents, find_version, restore_version, version_before, versions_of

group = Group("messages", help="Stored messages that sends may refer to.")

# `flask messages`: the versions of a message, what differs between them, and writing one back.


SHOWN = ("id", "name", "type", "subject", "from_name", "from_address", "reply_to", "thumbnail_url")
TIMES = ("creation_time", "last_modified_time")

version_option = click.option("--version", "number", type=click.IntRange(1), help="The number of a version.")


def find_message(session: Session, account: str | None, name: str) -> Message:
    """The account's message with that name or id."""
    return find_by_name_or_id(session, Message, find_account(session, account).id, name, "message")


def message_row(message: Message, *names: str) -> Row:
    """The named columns of the message, for printing."""
    row = {name: getattr(message, name) for name in names}
    return {**row, "id": shown_id(message.id)}


@group.command("history")
@click.argument("message")
@version_option
@account_option
@json_option
def history(message: str, number: int | None, account: str | None, as_json: bool) -> None:
    """Show the versions of a message, the newest first, or with --version what one of them says."""
    with services().database.read() as session:
        found = find_message(session, account, message)
        lines = versions_of(session, found)
        if number is None:
            print_rows([_line(one, as_json) for one in lines], as_json)
            return
        line = find_version(lines, number)
        content = contents(session, found, lines, [number])[number]
    print_row({**_line(line, as_json), **content}, as_json, texts=BODIES)


def _line(one: VersionLine, as_json: bool) -> Row:
    row = {"number": one.number, "time": one.time, "actor_kind": one.actor_kind, "actor": one.actor, "via": one.via}
    if not as_json:
        del row["actor_kind"]
    return {**row, "changed": list(one.changed)}


@group.command("difference")
@click.argument("message")
@version_option
@click.option("--against", type=click.IntRange(1), help="The version to compare it with; the one before by default.")
@account_option
@json_option
def difference(message: str, number: int | None, against: int | None, account: str | None, as_json: bool) -> None:
    """Show what changed in a version, the newest by default, as a unified diff of each field."""
    with services().database.read() as session:
        found = find_message(session, account, message)
        lines = versions_of(session, found)
        newer = find_version(lines, number or lines[0].number).number
        older = version_before(lines, newer) if against is None else find_version(lines, against).number
        said = contents(session, found, lines, [one for one in (newer, older) if one is not None])
    _print_difference(newer, older, said, as_json)


def _print_difference(
    newer: int, older: int | None, said: Mapping[int, Mapping[str, str | None]], as_json: bool
) -> None:
    before = dict.fromkeys(said[newer]) if older is None else said[older]
    found = differences(before, said[newer])
    if as_json:
        changed = [{"field": one.field, "before": one.before, "after": one.after} for one in found]
        print_json({"version": newer, "against": older, "changed": changed})
        return
    names = "nothing" if older is None else f"version {older}", f"version {newer}"
    printed: Sequence[str] = [line for one in found for line in unified(one, *names)]
    echo("\n".join(printed) if printed else "no difference")


@group.command("restore")
@click.argument("message")
@click.option("--version", "number", type=click.IntRange(1), required=True, help="The number of the version.")
@account_option
@json_option
def restore(message: str, number: int, account: str | None, as_json: bool) -> None:
    """Write back what a version of a message says, as a new version. Sends accepted before keep their content."""
    with services().database.write() as transaction:
        found = find_message(transaction, account, message)
        restore_version(transaction, found, number)
        row = message_row(found, *SHOWN, *TIMES)
    print_row(row, as_json)


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
