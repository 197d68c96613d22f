"""`flask sends`: the outcome of each recipient, why it did not arrive, and retries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.addresses import AccountAddress
from app.bulk_actions.kinds import RETRY
from app.bulk_actions.query import parse_query
from app.cli import bulk_actions, send_export
from app.cli.addresses import address_kind
from app.cli.base import (
    Group,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    echo,
    json_option,
    limit_option,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.cli.bulk_actions import ask_for_all, pairs_of
from app.cli.explain import explain
from app.cli.hold_options import dry_run_option, yes_option
from app.cli.pauses import pause, pauses, resume_
from app.db.expressions import in_json
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, QueueEntry, Recipient, Send
from app.db.models import Group as TransactionalGroup
from app.http.context import services
from app.infrastructure.queueing import SENDS
from app.recipients.collection import Matching
from app.recipients.conditions import current_entry
from app.recipients.read import find_recipient, latest_steps
from app.recipients.states import RecipientState
from app.sends.explain.recipient import messages_to
from app.sends.outcomes.requeue import requeue

group = Group("sends", help="Recipients of sends, named by the uuid from the response to the send.")
group.add_command(explain)
group.add_command(send_export.export)
group.add_command(bulk_actions.group)
for command in (pause, resume_, pauses):
    group.add_command(command)

STATES = tuple(state.value for state in RecipientState)
SHOWN = ("uuid", "type", "email", "mobile", "state", "reason", "group_id", "attempts", "creation_time", "sent_time")
TEXT_ONLY = ("segments", "gateway_id")
STEP_SHOWN = ("time", "step", "transport", "country", "detail", "note")


def _row(recipient: Recipient, entry: QueueEntry | None) -> Row:
    """The recipient with the state and the attempts of its queue entry, if it has one."""
    current = {"state": entry.state, "attempts": entry.attempts} if entry else {}
    return {name: current.get(name, getattr(recipient, name)) for name in SHOWN}


def _rows(session: Session, recipients: Sequence[Recipient]) -> list[Row]:
    """The same of many; two statements, because the planner of a join would not know how few there are."""
    ids = [recipient.id for recipient in recipients]
    entries = session.scalars(select(QueueEntry).where(in_json(QueueEntry.recipient_id, ids)))
    by_id = {entry.recipient_id: entry for entry in entries}
    return [_row(recipient, by_id.get(recipient.id)) for recipient in recipients]


@group.command("list")
@click.argument("filters", nargs=-1, metavar="[FILTER...]")
@click.option("--to", metavar="ADDRESS", help="Only recipients with this email address or mobile number.")
@click.option("--state", type=click.Choice(STATES), help="Only recipients in this state.")
@click.option("--group", "group_", metavar="NAME|ID", help="Only recipients of this group.")
@limit_option
@accounts_option
@json_option
def list_(
    filters: tuple[str, ...],
    *,
    to: str | None,
    state: str | None,
    group_: str | None,
    limit: int,
    account: str | None,
    as_json: bool,
) -> None:
    """Show the recipients of an account's sends, or of each account's, the newest first; those that match filters, such
    as group_id=5."""
    kind = None if to is None else address_kind(to)
    pairs, states = pairs_of(filters), tuple(RecipientState) if state is None else (RecipientState(state),)
    with services().database.read() as session:
        if group_:
            chosen = find_account(session, account)
            account = chosen.name
            found = find_by_name_or_id(session, TransactionalGroup, chosen.id, group_, "group")
            pairs.append(("group_id", str(found.id)))

        def of_account(account_id: int) -> Iterable[Row]:
            query = parse_query(session.get_one(Account, account_id), pairs)
            addressed: list[ColumnElement[bool]] = []
            if to is not None and kind is not None:
                addressed.append(messages_to(session, AccountAddress.of(account_id, kind, to)))
            newest = Matching.of(account_id, query, states).newest_ones(session, (Recipient,), limit, *addressed)
            return _rows(session, [row[0] for row in newest])

        rows = rows_of_accounts(session, account, of_account)
    print_rows(rows, as_json)


@group.command("show")
@click.argument("uuid")
@click.option(
    "--limit", type=click.IntRange(1), default=1000, show_default=True, help="Number of steps to show, the latest ones."
)
@json_option
def show(uuid: str, limit: int, as_json: bool) -> None:
    """Show a recipient and its timeline."""
    with services().database.read() as session:
        recipient = find_recipient(session, uuid)
        latest = latest_steps(session, recipient, limit)
        steps = [{name: getattr(step, name) for name in STEP_SHOWN} for step in latest]
        own = TEXT_ONLY if recipient.type == "sms" else ()
        send = session.get_one(Send, recipient.send_id)
        further = {
            "content_purged_time": send.content_purged_time,
            **{name: getattr(recipient, name) for name in own},
        }
        row = {**_row(recipient, current_entry(session, recipient)), **further}
    if as_json:
        print_row({**row, "timeline": steps}, as_json)
        return
    print_row(row, as_json)
    echo("timeline:")
    print_rows(steps, as_json)


@group.command("retry")
@click.argument("wanted", nargs=-1, required=True, metavar="UUID | FILTER...")
@dry_run_option
@yes_option
@account_option
@json_option
def retry(*, wanted: tuple[str, ...], dry_run: bool, yes: bool, account: str | None, as_json: bool) -> None:
    """Requeue a recipient that has bounced or failed, or an uncertain one without waiting; or all of an account that
    match filters, such as state=failed group_id=5."""
    if len(wanted) > 1 or "=" in wanted[0]:
        ask_for_all(RETRY, wanted, account=account, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    if dry_run:
        raise WrongValue("--dry-run counts what filters match, such as state=failed")
    parts = services()
    with parts.database.write() as transaction:
        recipient = requeue(transaction, wanted[0])
        row = _row(recipient, current_entry(transaction, recipient))
        transaction.after_commit(lambda: parts.wake_ups.wake(SENDS))
    print_row(row, as_json)
