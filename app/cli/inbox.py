"""`flask inbox`: the messages of test keys, which are captured instead of sent."""

from __future__ import annotations

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.accounts.testing import find_test_account
from app.cli.base import Failure, Group, Row, account_option, json_option, limit_option, print_row, print_rows
from app.db.models import CapturedMessage
from app.http.context import services
from app.inbox.read import InboxFilter, find_captured, list_captured, wait_for_captured
from app.inbox.shown import as_text

group = Group("inbox", help="Messages that test keys have sent: captured, and read here.")

to_option = click.option("--to", "address", metavar="ADDRESS", help="Only messages to this address or number.")
after_option = click.option(
    "--after", metavar="ID", type=click.IntRange(0), default=0, help="Only messages after the one with this id."
)


def _row(message: CapturedMessage) -> Row:
    return {
        "id": message.id,
        "type": message.type,
        "address": message.address,
        "sender": message.sender,
        "subject": message.subject,
        "uuid": message.uuid,
        "blind_copy": message.is_copy,
        "captured_time": message.captured_time,
    }


def _print(message: CapturedMessage, as_json: bool) -> None:
    print_row({**_row(message), "content": as_text(message.content)}, as_json, texts=("content",))


def _inbox_of(session: Session, account: str | None) -> int:
    """The id of the test account whose messages these are."""
    return find_test_account(session, find_account(session, account)).id


@group.command("list")
@to_option
@after_option
@limit_option
@account_option
@json_option
def list_(address: str | None, after: int, limit: int, account: str | None, as_json: bool) -> None:
    """Show captured messages, the newest first."""
    with services().database.read() as session:
        wanted = InboxFilter(_inbox_of(session, account), address, after)
        rows = [_row(message) for message in list_captured(session, wanted, limit)]
    print_rows(rows, as_json)


@group.command("show")
@click.argument("message_id", metavar="ID", type=click.IntRange(1))
@account_option
@json_option
def show(message_id: int, account: str | None, as_json: bool) -> None:
    """Show a captured message as it would have left."""
    with services().database.read() as session:
        message = find_captured(session, _inbox_of(session, account), message_id)
        _print(message, as_json)


@group.command("wait")
@to_option
@after_option
@click.option("--timeout", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds to wait.")
@account_option
@json_option
def wait(address: str | None, after: int, timeout: float, account: str | None, as_json: bool) -> None:
    """Wait for the first captured message that matches, and show it."""
    database = services().database
    with database.read() as session:
        wanted = InboxFilter(_inbox_of(session, account), address, after)
    message = wait_for_captured(database, wanted, timeout)
    if message is None:
        raise Failure(f"no message{f' to {address}' if address else ''} within {timeout:g} seconds")
    _print(message, as_json)
