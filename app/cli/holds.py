"""`flask holds`: what is held after a restore, and its release or end (docs/operations.md#what-a-restore-holds)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.find import all_accounts, find_account
from app.bulk_actions.kinds import Release
from app.bulk_actions.preview import VALID_FOR, Inspection, inspect_rows
from app.cli.base import Decorator, Done, Group, Row, accounts_option, echo, limit_option
from app.cli.bulk_actions import left_out_lines
from app.cli.progress import progress
from app.clock import now
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Automation, QueueEntry, Recipient
from app.db.models import Group as TransactionalGroup
from app.events.holds import HeldWebhook, drop_events, held_webhooks, release_webhook
from app.infrastructure.redis_client import AUTOMATIONS, SENDS, WEBHOOKS
from app.maintenance.findings import counted
from app.runs.holds import HeldRuns, count_held_runs, drop_runs, release_runs
from app.sends.holds.held import FORMER_STATES, HeldMessages, MatchingHeldMessages, count_held, held_messages
from app.sends.holds.release import DROP_OUTCOMES, DropOutcome, drop_messages, release_messages
from app.services import Services

# Options of the commands that release and drop what is held, and the question before.


class Moment(click.ParamType[datetime]):
    """A time as the API writes it; without an offset it is UTC."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment of the text."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no time such as 2026-11-22T03:00:00Z", param, ctx)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


before_option = click.option("--due-before", type=Moment(), help="Only what was due before this time.")
after_option = click.option("--due-after", type=Moment(), help="Only what was due at this time or later.")
group_option = click.option("--group", "group_", metavar="NAME|ID", help="Only messages of this group.")
was_option = click.option(
    "--was", type=click.Choice(FORMER_STATES), help="Only messages that were in this state in the backup."
)
uuid_option = click.option("--uuid", "uuids", multiple=True, metavar="UUID", help="Only this message; repeatable.")
automation_option = click.option("--automation", metavar="NAME|ID", help="Only runs of this automation.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only count.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def _options(*options: Decorator) -> Decorator:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


narrowing_messages = _options(accounts_option, group_option, before_option, after_option, was_option, uuid_option)
of_messages = _options(narrowing_messages, dry_run_option, yes_option)
of_runs = _options(accounts_option, automation_option, before_option, after_option, dry_run_option, yes_option)
of_events = _options(accounts_option, dry_run_option, yes_option)


@dataclass(frozen=True, slots=True)
class HeldNow:
    """How much is held, and what of it would be left out, as counted at a time."""

    held: int
    looked_at: Inspection = Inspection()
    time: datetime = field(default_factory=now)

    @property
    def left_out(self) -> int:
        """How many would be left out."""
        return sum(self.looked_at.left_out.values())

    def number_done(self, noun: str) -> str:
        """How many would be acted upon, in words."""
        some = f"{self.held - self.left_out} of " if self.left_out else ""
        return f"{some}{counted(self.held, noun)}"

    @property
    def lines(self) -> Iterator[str]:
        """Why some would be left out."""
        not_looked_at = max(0, self.held - self.looked_at.rows) if self.looked_at.rows else 0
        return left_out_lines(self.looked_at, not_looked_at)


def confirmed(what: str, noun: str, count: Callable[[], HeldNow], *, yes: bool) -> HeldNow:
    """What is held, after asking whether it is to be done. A question that has stood for too long is asked again if
    its numbers have changed."""
    found = count()
    while found.held and not yes:
        echo(f"{counted(found.held, noun)} that {'is' if found.held == 1 else 'are'} held.", err=True)
        for line in found.lines:
            echo(line, err=True)
        click.confirm(f"{what} {found.number_done(noun)}?", abort=True, err=True)
        if now() - found.time <= VALID_FOR:
            break
        shown, found = found, count()
        if (shown.held, shown.left_out) == (found.held, found.left_out):
            break
        echo("What is held has changed since the question was asked.", err=True)
    return found


SHOWN = ("uuid", "type", "email", "mobile", "was", "due_time")

group = Group("holds", help="What a restored backup would send again, and is held.")


@group.reads("list", "installation")
@accounts_option
def list_(session: Session, account: str | None) -> list[Row]:
    """Show what is held: messages by their state in the backup, runs by automation, events by webhook."""
    wanted = _account_id(session, account)
    names = {one.id: one.name for one in all_accounts(session)}
    held = [
        *_messages_held(session, HeldMessages(account_id=wanted)),
        *_runs_held(session, HeldRuns(account_id=wanted)),
        *_events_held(session, wanted),
    ]
    return [{"account": names.get(account_id, str(account_id)), **row} for account_id, row in held]


def _messages_held(session: Session, wanted: HeldMessages) -> Iterator[tuple[int, Row]]:
    for one in count_held(session, wanted):
        yield one.account_id, _row("messages", one.was, one.messages, one.first_due, one.last_due)


def _runs_held(session: Session, wanted: HeldRuns) -> Iterator[tuple[int, Row]]:
    for one in count_held_runs(session, wanted):
        yield one.account_id, _row("runs", one.automation, one.runs, one.first_due, one.last_due)


def _events_held(session: Session, account_id: int | None) -> Iterator[tuple[int, Row]]:
    for one in held_webhooks(session, account_id):
        yield one.account_id, _row("events", one.url, one.events)


def _row(
    what: str, of: str | None, held: int, first_due: datetime | None = None, last_due: datetime | None = None
) -> Row:
    return {"what": what, "of": of, "held": held, "first_due": first_due, "last_due": last_due}


@group.reads("show", "installation")
@narrowing_messages
@limit_option
def show(session: Session, *, limit: int, **options: Any) -> list[Row]:
    """Show held messages one by one, the newest first, with their state in the backup."""
    columns = Recipient.uuid, Recipient.type, Recipient.email, Recipient.mobile, QueueEntry.held_state
    names = {one.id: one.name for one in all_accounts(session)}
    wanted = held_messages(_messages(session, **options), QueueEntry.account_id, *columns, QueueEntry.due_time)
    found = session.execute(wanted.order_by(QueueEntry.recipient_id.desc()).limit(limit)).all()
    return [{"account": names.get(row.account_id), **dict(zip(SHOWN, row[1:], strict=True))} for row in found]


release = Group("release", help="Send what is held.")
drop = Group("drop", help="End what is held, without sending it.")
group.add_command(release)
group.add_command(drop)


def _account_id(session: Session, account: str | None) -> int | None:
    return None if account is None else find_account(session, account).id


def _messages(session: Session, *, account: str | None, group_: str | None, **options: Any) -> HeldMessages:
    account_id, group_id = _account_id(session, account), None
    if group_ is not None:
        account_id = find_account(session, account).id
        group_id = find_by_name_or_id(session, TransactionalGroup, account_id, group_, "group").id
    return HeldMessages(account_id=account_id, group_id=group_id, **options)


def _runs(session: Session, *, account: str | None, automation: str | None, **options: Any) -> HeldRuns:
    account_id, automation_id = _account_id(session, account), None
    if automation is not None:
        account_id = find_account(session, account).id
        automation_id = find_by_name_or_id(session, Automation, account_id, automation, "automation").id
    return HeldRuns(account_id=account_id, automation_id=automation_id, **options)


def _held_messages(parts: Services, **options: Any) -> tuple[HeldMessages, Callable[..., HeldNow]]:
    """Which messages are meant, and a count of them; of those that would be sent without what has arrived."""
    with parts.database.read() as session:
        wanted = _messages(session, **options)

    def count(*, sent: bool) -> HeldNow:
        with parts.database.read() as session:
            held = sum(one.messages for one in count_held(session, wanted))
            looked_at = inspect_rows(session, Release(MatchingHeldMessages(wanted)), held) if sent else Inspection()
        return HeldNow(held, looked_at)

    return wanted, count


def _held_runs(parts: Services, **options: Any) -> tuple[HeldRuns, Callable[[], HeldNow]]:
    with parts.database.read() as session:
        wanted = _runs(session, **options)

    def count() -> HeldNow:
        with parts.database.read() as session:
            return HeldNow(sum(one.runs for one in count_held_runs(session, wanted)))

    return wanted, count


@release.runs("messages", "installation")
@of_messages
def release_messages_(parts: Services, *, dry_run: bool, yes: bool, **options: Any) -> Done:
    """Put messages back into the queue. One that shows a sign of arrival was sent, and ends as that."""
    wanted, count = _held_messages(parts, **options)
    if dry_run:
        found = count(sent=True)
        facts = {"held": found.held, "left_out": dict(found.looked_at.left_out), "time": found.time}
        return Done("\n".join([f"{found.number_done('message')} would be released", *found.lines]), facts)
    held = confirmed("Send", "message", partial(count, sent=True), yes=yes).held
    with progress("releasing", held) as advance:
        done = release_messages(parts, wanted, advance)
    parts.wake_ups.wake(SENDS)
    shown = f", and {done.arrived} with a sign of arrival as sent" if done.arrived else ""
    facts = {"released": done.released, "arrived": done.arrived}
    return Done(f"released {counted(done.released, 'message')}{shown}", facts)


@drop.runs("messages", "installation")
@click.option(
    "--as",
    "outcome",
    type=click.Choice(DROP_OUTCOMES),
    required=True,
    help="Their outcome: they were sent before the restore, or they fail, with the reason `dropped`.",
)
@of_messages
def drop_messages_(parts: Services, *, outcome: DropOutcome, dry_run: bool, yes: bool, **options: Any) -> Done:
    """End messages without sending them, each with its event."""
    wanted, count = _held_messages(parts, **options)
    if dry_run:
        held = count(sent=False).held
        return Done(f"{counted(held, 'message')} would end as {outcome}", {"held": held, "outcome": outcome})
    held = confirmed(f"Do not send, and end as {outcome},", "message", partial(count, sent=False), yes=yes).held
    with progress("dropping", held) as advance:
        dropped = drop_messages(parts, wanted, outcome, advance)
    return Done(f"ended {counted(dropped, 'message')} as {outcome}", {"dropped": dropped, "outcome": outcome})


@release.runs("runs", "installation")
@of_runs
def release_runs_(parts: Services, *, dry_run: bool, yes: bool, **options: Any) -> Done:
    """Let runs of automations go on: what fell due is carried out now."""
    wanted, count = _held_runs(parts, **options)
    if dry_run:
        held = count().held
        return Done(f"{counted(held, 'run')} would be released", {"held": held})
    held = confirmed("Go on with", "run", count, yes=yes).held
    with progress("releasing", held) as advance:
        released = release_runs(parts, wanted, advance)
    parts.wake_ups.wake(AUTOMATIONS)
    return Done(f"released {counted(released, 'run')}", {"released": released})


@drop.runs("runs", "installation")
@of_runs
def drop_runs_(parts: Services, *, dry_run: bool, yes: bool, **options: Any) -> Done:
    """End runs of automations: their contacts are sent nothing more by them."""
    wanted, count = _held_runs(parts, **options)
    if dry_run:
        held = count().held
        return Done(f"{counted(held, 'run')} would end", {"held": held})
    held = confirmed("End", "run", count, yes=yes).held
    with progress("dropping", held) as advance:
        dropped = drop_runs(parts, wanted, advance)
    return Done(f"ended {counted(dropped, 'run')}", {"dropped": dropped})


@release.runs("events", "installation")
@of_events
def release_events_(parts: Services, account: str | None, dry_run: bool, yes: bool) -> Done:
    """Send the events that webhooks had waiting, and those behind them."""
    return _end_holds(parts, account, "Send", "released", release_webhook, dry_run=dry_run, yes=yes)


@drop.runs("events", "installation")
@of_events
def drop_events_(parts: Services, account: str | None, dry_run: bool, yes: bool) -> Done:
    """Pass the events that webhooks had waiting in the backup; what happened since the restore is sent."""
    return _end_holds(parts, account, "Drop", "dropped", drop_events, dry_run=dry_run, yes=yes)


def _end_holds(
    parts: Services,
    account: str | None,
    what: str,
    past: str,
    end_hold: Callable[[Transaction, HeldWebhook], bool],
    *,
    dry_run: bool,
    yes: bool,
) -> Done:
    def held() -> list[HeldWebhook]:
        with parts.database.read() as session:
            return held_webhooks(session, _account_id(session, account))

    if dry_run:
        webhooks = held()
        events = _events_of(webhooks)
        return Done(f"{counted(events, 'event')} would be {past}", {"held": events, "webhooks": len(webhooks)})
    confirmed(what, "event", lambda: HeldNow(_events_of(held())), yes=yes)
    ended = []
    for webhook in held():
        with parts.database.write() as transaction:
            if end_hold(transaction, webhook):
                ended.append(webhook)
    parts.wake_ups.wake(WEBHOOKS)
    events = _events_of(ended)
    return Done(f"{past} {counted(events, 'event')}", {past: events, "webhooks": len(ended)})


def _events_of(webhooks: Sequence[HeldWebhook]) -> int:
    return sum(one.events for one in webhooks)
