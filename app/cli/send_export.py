"""`flask sends export`: the recipients of an account's sends as a CSV file."""

from __future__ import annotations

from typing import Any

import click
from flask.cli import with_appcontext

from app.accounts.find import find_account
from app.audit.record import Act
from app.bulk_actions.query import parse_query
from app.cli.acts import record_act
from app.cli.base import Command, account_option, json_option
from app.cli.bulk_actions import pairs_of
from app.cli.csv_files import export_options, export_rows, format_to_write
from app.db.copied_ids import shown
from app.db.lookup import find_by_name_or_id
from app.db.models import Group, Recipient
from app.http.context import services
from app.recipients.collection import Matching, parts_of
from app.recipients.conditions import CURRENT_ATTEMPTS, CURRENT_STATE
from app.recipients.states import RecipientState

COLUMNS: dict[str, Any] = {
    "uuid": Recipient.uuid,
    "type": Recipient.type,
    "email": Recipient.email,
    "mobile": Recipient.mobile,
    "list_id": shown(Recipient.list_id),
    "contact_id": Recipient.contact_id,
    "message_id": shown(Recipient.message_id),
    "group_id": Recipient.group_id,
    "state": CURRENT_STATE,
    "reason": Recipient.reason,
    "attempts": CURRENT_ATTEMPTS,
    "creation_time": Recipient.creation_time,
    "sent_time": Recipient.sent_time,
}
"""Name of a column -> its value; the state and the attempts are those of the queue entry, if there is one."""


@click.command("export", cls=Command)
@export_options
@click.argument("filters", nargs=-1, metavar="[FILTER...]")
@click.option("--state", type=click.Choice([str(one) for one in RecipientState]), help="Only recipients in this state.")
@click.option("--group", metavar="NAME|ID", help="Only recipients of this group.")
@account_option
@json_option
@with_appcontext
def export(
    file: str,
    *,
    filters: tuple[str, ...],
    delimiter: str | None,
    encoding: str | None,
    state: str | None,
    group: str | None,
    account: str | None,
    as_json: bool,
) -> None:
    """Write the recipients of an account's sends to a CSV file, all or those that match; - is standard output."""
    pairs, states = pairs_of(filters), tuple(RecipientState) if state is None else (RecipientState(state),)
    with services().database.read() as session:
        chosen = find_account(session, account)
        if group is not None:
            found = find_by_name_or_id(session, Group, chosen.id, group, "group")
            pairs.append(("group_id", str(found.id)))
        matching = Matching.of(chosen.id, parse_query(chosen, pairs), states)
    record_act(Act("recipient.exported", chosen.id))
    columns = [value.label(name) for name, value in COLUMNS.items()]
    pages = ([dict(row._mapping) for row in part] for part in parts_of(services().database, matching, columns))
    export_rows(file, format_to_write(delimiter, encoding), tuple(COLUMNS), pages, None, as_json=as_json)
