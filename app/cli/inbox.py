"""`flask inbox`: the messages of test keys, which are captured instead of sent."""

from __future__ import annotations

import click
from sqlalchemy.orm import Session

from app.accounts.testing import find_test_account
from app.cli.base import Failure, Group, Row, limit_option, print_row
from app.db.models import Account, CapturedMessage
from app.inbox.read import InboxFilter, find_captured, list_captured, wait_for_captured
from app.inbox.shown import as_text
from app.services import Services

group = Group("inbox", help="Messages sent with test keys. They are captured, not delivered.")

to_option = click.option("--to", "address", metavar="ADDRESS", help="Only messages to this address or number.")
after_option = click.option(
    "--after", metavar="ID", type=click.IntRange(0), default=0, help="Only messages after the message with this id."
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


def _full(message: CapturedMessage) -> Row:
    return {**_row(message), "content": as_text(message.content)}


def _print_full(row: Row, as_json: bool) -> None:
    print_row(row, as_json, texts=("content",))


@group.reads("list")
@to_option
@after_option
@limit_option
def list_(session: Session, account: Account, address: str | None, after: int, limit: int) -> list[Row]:
    """Show captured messages, newest first."""
    inbox_filter = InboxFilter(find_test_account(session, account).id, address, after)
    return [_row(message) for message in list_captured(session, inbox_filter, limit)]


@group.reads("show", shows=_print_full)
@click.argument("message_id", metavar="ID", type=click.IntRange(1))
def show(session: Session, account: Account, message_id: int) -> Row:
    """Show a captured message as it would have been sent."""
    return _full(find_captured(session, find_test_account(session, account).id, message_id))


@group.runs("wait", shows=_print_full)
@to_option
@after_option
@click.option("--timeout", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds to wait.")
def wait(parts: Services, account: Account, address: str | None, after: int, timeout: float) -> Row:
    """Wait for the first matching message and show it."""
    with parts.database.read() as session:
        inbox_filter = InboxFilter(find_test_account(session, account).id, address, after)
    message = wait_for_captured(parts.database, inbox_filter, timeout)
    if message is None:
        raise Failure(f"no message{f' to {address}' if address else ''} within {timeout:g} seconds")
    return _full(message)
