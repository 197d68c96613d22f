"""`flask sends`: the outcome of each recipient, and retries."""

from __future__ import annotations

from itertools import starmap

import click
from sqlalchemy import Select, select

from app.accounts.find import find_account
from app.cli.base import (
    Group,
    Row,
    accounts_option,
    echo,
    json_option,
    limit_option,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.db.lookup import find_by_name_or_id
from app.db.models import Group as TransactionalGroup
from app.db.models import QueueEntry, Recipient, Send
from app.http.context import services
from app.infrastructure.queueing import SENDS
from app.recipients.current import current_entry
from app.recipients.read import find_recipient, latest_steps
from app.recipients.states import UNSETTLED, RecipientState
from app.sends.outcomes.requeue import requeue

group = Group("sends", help="Recipients of sends, named by the uuid from the response to the send.")

STATES = tuple(state.value for state in RecipientState)
SHOWN = ("uuid", "type", "email", "mobile", "state", "reason", "group_id", "attempts", "creation_time", "sent_time")
TEXT_ONLY = ("segments", "gateway_id")
STEP_SHOWN = ("time", "step", "transport", "detail", "note")

Listed = Select[Recipient, QueueEntry]


def _row(recipient: Recipient, entry: QueueEntry | None) -> Row:
    """The recipient with the state and the attempts of its queue entry, if it has one."""
    current = {"state": entry.state, "attempts": entry.attempts} if entry else {}
    return {name: current.get(name, getattr(recipient, name)) for name in SHOWN}


@group.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only recipients in this state.")
@click.option("--group", "group_", metavar="NAME|ID", help="Only recipients of this group.")
@limit_option
@accounts_option
@json_option
def list_(state: str | None, group_: str | None, limit: int, account: str | None, as_json: bool) -> None:
    """Show the recipients of an account's sends, or of each account's, the newest first."""
    newest = select(Recipient, QueueEntry).order_by(Recipient.id.desc()).limit(limit)
    is_unsettled = state in UNSETTLED
    newest = newest.join(QueueEntry, QueueEntry.recipient_id == Recipient.id, isouter=not is_unsettled)
    if state:
        newest = newest.where((QueueEntry.state if is_unsettled else Recipient.state) == state)
    with services().database.read() as session:
        if group_:
            chosen = find_account(session, account)
            account = chosen.name
            found = find_by_name_or_id(session, TransactionalGroup, chosen.id, group_, "group")
            newest = newest.where(Recipient.group_id == found.id)
        bounded = not (state or group_)
        rows = rows_of_accounts(
            session,
            account,
            lambda one: starmap(_row, session.execute(_of_account(newest, one, limit, bounded=bounded))),
        )
    print_rows(rows, as_json)


def _of_account(newest: Listed, account_id: int, limit: int, *, bounded: bool) -> Listed:
    """The statement for an account. `bounded` reads only its newest sends, which have at least one recipient each:
    recipients have no index by account."""
    found = newest.where(Recipient.account_id == account_id)
    if not bounded:
        return found
    sends = select(Send.id).where(Send.account_id == account_id).order_by(Send.id.desc()).limit(limit)
    return found.where(Recipient.send_id.in_(sends.subquery().select()))


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
        row = {**_row(recipient, current_entry(session, recipient)), **{name: getattr(recipient, name) for name in own}}
    if as_json:
        print_row({**row, "timeline": steps}, as_json)
        return
    print_row(row, as_json)
    echo("timeline:")
    print_rows(steps, as_json)


@group.command("retry")
@click.argument("uuid")
@json_option
def retry(uuid: str, as_json: bool) -> None:
    """Requeue a recipient that has bounced or failed, or an uncertain one without waiting."""
    parts = services()
    with parts.database.write() as transaction:
        recipient = requeue(transaction, uuid)
        row = _row(recipient, current_entry(transaction, recipient))
        transaction.after_commit(lambda: parts.wake_ups.wake(SENDS))
    print_row(row, as_json)
