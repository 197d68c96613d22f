"""`flask sends export`: the recipients of an account's sends as a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from flask.cli import with_appcontext
from sqlalchemy import ColumnElement, func, literal, select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.audit.record import Act
from app.cli.acts import record_act
from app.cli.base import Command, account_option, json_option
from app.cli.csv_files import Rows, export_options, export_rows, format_to_write
from app.db.copied_ids import shown
from app.db.in_json import in_json
from app.db.lookup import find_by_name_or_id
from app.db.models import Group, QueueEntry, Recipient, Send
from app.db.pages import pages_of
from app.http.context import services
from app.recipients.states import RecipientState

SENDS_AT_ONCE = 100
STATE: ColumnElement[str] = func.coalesce(QueueEntry.state, Recipient.state)
COLUMNS: dict[str, Any] = {
    "uuid": Recipient.uuid,
    "type": Recipient.type,
    "email": Recipient.email,
    "mobile": Recipient.mobile,
    "list_id": shown(Recipient.list_id),
    "contact_id": Recipient.contact_id,
    "message_id": shown(Recipient.message_id),
    "group_id": Recipient.group_id,
    "state": STATE,
    "reason": Recipient.reason,
    "attempts": func.coalesce(QueueEntry.attempts, Recipient.attempts),
    "creation_time": Recipient.creation_time,
    "sent_time": Recipient.sent_time,
}
"""Name of a column -> its value; the state and the attempts are those of the queue entry, if there is one."""


@click.command("export", cls=Command)
@export_options
@click.option("--state", type=click.Choice([str(one) for one in RecipientState]), help="Only recipients in this state.")
@click.option("--group", metavar="NAME|ID", help="Only recipients of this group.")
@account_option
@json_option
@with_appcontext
def export(
    file: str,
    *,
    delimiter: str | None,
    encoding: str | None,
    state: str | None,
    group: str | None,
    account: str | None,
    as_json: bool,
) -> None:
    """Write the recipients of an account's sends to a CSV file; - is standard output."""
    with services().database.read() as session:
        account_id = find_account(session, account).id
        wanted: list[ColumnElement[bool]] = []
        if state is not None:
            wanted.append(literal(state) == STATE)
        if group is not None:
            wanted.append(Recipient.group_id == find_by_name_or_id(session, Group, account_id, group, "group").id)
        pages = _pages(session, account_id, wanted)
        record_act(Act("recipient.exported", account_id))
        export_rows(file, format_to_write(delimiter, encoding), tuple(COLUMNS), pages, None, as_json=as_json)


def _pages(session: Session, account_id: int, wanted: list[ColumnElement[bool]]) -> Iterator[Rows]:
    """The recipients of some sends at a time, the oldest first: a send has a bounded number of them."""
    statement = (
        select(*(value.label(name) for name, value in COLUMNS.items()))
        .outerjoin(QueueEntry, QueueEntry.recipient_id == Recipient.id)
        .where(Recipient.account_id == account_id, *wanted)
        .order_by(Recipient.id)
    )
    sends = select(Send.id).where(Send.account_id == account_id)
    for page in pages_of(session, sends, (Send.id,), size=SENDS_AT_ONCE):
        of_sends = statement.where(in_json(Recipient.send_id, [row[0] for row in page]))
        yield [dict(row._mapping) for row in session.execute(of_sends)]
