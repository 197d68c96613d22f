"""`flask holds`: what is held after a restore, and its release or end (docs/restore.md#what-a-restore-holds)."""

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
from app.cli.base import CommandResult, Group, Row, accounts_option, combine_options, echo, limit_option
from app.cli.bulk_actions import left_out_lines
from app.cli.progress import progress
from app.clock import now
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Automation, QueueEntry, Recipient
from app.db.models import Group as TransactionalGroup
from app.events.holds import HeldWebhook, drop_events, held_webhooks, release_webhook
from app.infrastructure.redis_client import AUTOMATIONS, SENDS, WEBHOOKS
from app.maintenance.words import counted
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
            self.fail(f"{value!r} is not a time such as 2026-11-22T03:00:00Z", param, ctx)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


before_option = click.option("--due-before", type=Moment(), help="Only items that were due before this time.")
after_option = click.option("--due-after", type=Moment(), help="Only items that were due at this time or later.")
group_option = click.option("--group", "group_", metavar="NAME|ID", help="Only messages of this group.")
was_option = click.option(
    "--was", type=click.Choice(FORMER_STATES), help="Only messages that were in this state in the backup."
)
uuid_option = click.option("--uuid", "uuids", multiple=True, metavar="UUID", help="Only this message. Repeatable.")
automation_option = click.option("--automation", metavar="NAME|ID", help="Only runs of this automation.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only count.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")

narrowing_messages = combine_options(
    accounts_option, group_option, before_option, after_option, was_option, uuid_option
)
message_options = combine_options(narrowing_messages, dry_run_option, yes_option)
run_options = combine_options(
    accounts_option, automation_option, before_option, after_option, dry_run_option, yes_option
)
event_options = combine_options(accounts_option, dry_run_option, yes_option)


@dataclass(frozen=True, slots=True)
class HeldCount:
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


def confirmed(what: str, noun: str, count: Callable[[], HeldCount], *, yes: bool) -> HeldCount:
    """What is held, after asking whether it is to be done. A question that has stood for too long is asked again if
    its numbers have changed."""
    held_now = count()
    while held_now.held and not yes:
        echo(f"{counted(held_now.held, noun)} that {'is' if held_now.held == 1 else 'are'} held.", err=True)
        for line in held_now.lines:
            echo(line, err=True)
        click.confirm(f"{what} {held_now.number_done(noun)}?", abort=True, err=True)
        if now() - held_now.time <= VALID_FOR:
            break
        asked_about, held_now = held_now, count()
        if (asked_about.held, asked_about.left_out) == (held_now.held, held_now.left_out):
            break
        if held_now.held:
            echo("The numbers have changed since the question was asked. Here are the new ones:", err=True)
    return held_now


ROW_COLUMNS = ("uuid", "type", "email", "mobile", "was", "due_time")

group = Group("holds", help="What a restored backup would send again, held until you decide.")


@group.reads("list", "installation")
@accounts_option
def list_(session: Session, account: str | None) -> list[Row]:
    """Count what is held: messages by their state in the backup, runs by automation, events by webhook."""
    account_id = _account_id(session, account)
    names = {owner.id: owner.name for owner in all_accounts(session)}
    held = [
        *_messages_held(session, HeldMessages(account_id=account_id)),
        *_runs_held(session, HeldRuns(account_id=account_id)),
        *_events_held(session, account_id),
    ]
    return [{"account": names.get(account_id, str(account_id)), **row} for account_id, row in held]


def _messages_held(session: Session, selection: HeldMessages) -> Iterator[tuple[int, Row]]:
    for held_count in count_held(session, selection):
        yield (
            held_count.account_id,
            _row("messages", held_count.was, held_count.messages, held_count.first_due, held_count.last_due),
        )


def _runs_held(session: Session, selection: HeldRuns) -> Iterator[tuple[int, Row]]:
    for held_count in count_held_runs(session, selection):
        yield (
            held_count.account_id,
            _row("runs", held_count.automation, held_count.runs, held_count.first_due, held_count.last_due),
        )


def _events_held(session: Session, account_id: int | None) -> Iterator[tuple[int, Row]]:
    for webhook in held_webhooks(session, account_id):
        yield webhook.account_id, _row("events", webhook.url, webhook.events)


def _row(
    what: str, of: str | None, held: int, first_due: datetime | None = None, last_due: datetime | None = None
) -> Row:
    return {"what": what, "of": of, "held": held, "first_due": first_due, "last_due": last_due}


@group.reads("show", "installation")
@narrowing_messages
@limit_option
def show(session: Session, *, limit: int, **options: Any) -> list[Row]:
    """Show held messages, newest first, each with its state in the backup."""
    columns = Recipient.uuid, Recipient.type, Recipient.email, Recipient.mobile, QueueEntry.held_state
    names = {account.id: account.name for account in all_accounts(session)}
    statement = held_messages(_messages(session, **options), QueueEntry.account_id, *columns, QueueEntry.due_time)
    rows = session.execute(statement.order_by(QueueEntry.recipient_id.desc()).limit(limit)).all()
    return [{"account": names.get(row.account_id), **dict(zip(ROW_COLUMNS, row[1:], strict=True))} for row in rows]


release = Group("release", help="Release what is held, so that it is sent.")
drop = Group("drop", help="Drop what is held, so that it is not sent.")
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


def _held_messages(parts: Services, **options: Any) -> tuple[HeldMessages, Callable[..., HeldCount]]:
    """The selection of the options, and a function that counts its messages; with `sent` it also counts those that a
    release would leave out."""
    with parts.database.read() as session:
        selection = _messages(session, **options)

    def count(*, sent: bool) -> HeldCount:
        with parts.database.read() as session:
            held = sum(held_count.messages for held_count in count_held(session, selection))
            looked_at = inspect_rows(session, Release(MatchingHeldMessages(selection)), held) if sent else Inspection()
        return HeldCount(held, looked_at)

    return selection, count


def _held_runs(parts: Services, **options: Any) -> tuple[HeldRuns, Callable[[], HeldCount]]:
    with parts.database.read() as session:
        selection = _runs(session, **options)

    def count() -> HeldCount:
        with parts.database.read() as session:
            return HeldCount(sum(held_count.runs for held_count in count_held_runs(session, selection)))

    return selection, count


@release.runs("messages", "installation")
@message_options
def release_messages_(parts: Services, *, dry_run: bool, yes: bool, **options: Any) -> CommandResult:
    """Release messages into the queue. A message that shows a sign of arrival is not sent again: it ends as sent, or as
    delivered if it is a text message with a receipt."""
    selection, count = _held_messages(parts, **options)
    if dry_run:
        held_now = count(sent=True)
        facts = {"held": held_now.held, "left_out": dict(held_now.looked_at.left_out), "time": held_now.time}
        return CommandResult(
            "\n".join([f"{held_now.number_done('message')} would be released", *held_now.lines]), facts
        )
    held = confirmed("Release", "message", partial(count, sent=True), yes=yes).held
    with progress("releasing", held) as advance:
        done = release_messages(parts, selection, advance)
    parts.wake_ups.wake(SENDS)
    arrived_note = f", and {done.arrived} with a sign of arrival as sent" if done.arrived else ""
    facts = {"released": done.released, "arrived": done.arrived}
    return CommandResult(f"released {counted(done.released, 'message')}{arrived_note}", facts)


@drop.runs("messages", "installation")
@click.option(
    "--as",
    "outcome",
    type=click.Choice(DROP_OUTCOMES),
    required=True,
    help="The outcome: `sent` if the messages were sent before the restore, or `failed` with the reason `dropped`.",
)
@message_options
def drop_messages_(parts: Services, *, outcome: DropOutcome, dry_run: bool, yes: bool, **options: Any) -> CommandResult:
    """Drop messages. They are not sent, and each causes the event of its outcome."""
    selection, count = _held_messages(parts, **options)
    if dry_run:
        held = count(sent=False).held
        line = f"{counted(held, 'message')} would be dropped as {outcome}"
        return CommandResult(line, {"held": held, "outcome": outcome})
    held = confirmed(f"Drop as {outcome}", "message", partial(count, sent=False), yes=yes).held
    with progress("dropping", held) as advance:
        dropped = drop_messages(parts, selection, outcome, advance)
    line = f"dropped {counted(dropped, 'message')} as {outcome}"
    return CommandResult(line, {"dropped": dropped, "outcome": outcome})


@release.runs("runs", "installation")
@run_options
def release_runs_(parts: Services, *, dry_run: bool, yes: bool, **options: Any) -> CommandResult:
    """Release runs of automations, which go on. Steps that fell due are carried out now."""
    selection, count = _held_runs(parts, **options)
    if dry_run:
        held = count().held
        return CommandResult(f"{counted(held, 'run')} would be released", {"held": held})
    held = confirmed("Release", "run", count, yes=yes).held
    with progress("releasing", held) as advance:
        released = release_runs(parts, selection, advance)
    parts.wake_ups.wake(AUTOMATIONS)
    return CommandResult(f"released {counted(released, 'run')}", {"released": released})


@drop.runs("runs", "installation")
@run_options
def drop_runs_(parts: Services, *, dry_run: bool, yes: bool, **options: Any) -> CommandResult:
    """Drop runs of automations. Their contacts get no more messages from them."""
    selection, count = _held_runs(parts, **options)
    if dry_run:
        held = count().held
        return CommandResult(f"{counted(held, 'run')} would be dropped", {"held": held})
    held = confirmed("Drop", "run", count, yes=yes).held
    with progress("dropping", held) as advance:
        dropped = drop_runs(parts, selection, advance)
    return CommandResult(f"dropped {counted(dropped, 'run')}", {"dropped": dropped})


@release.runs("events", "installation")
@event_options
def release_events_(parts: Services, account: str | None, dry_run: bool, yes: bool) -> CommandResult:
    """Release the events that waited for webhooks in the backup, and the events since the restore."""
    return _end_holds(parts, account, "Release", "released", release_webhook, dry_run=dry_run, yes=yes)


@drop.runs("events", "installation")
@event_options
def drop_events_(parts: Services, account: str | None, dry_run: bool, yes: bool) -> CommandResult:
    """Drop the events that waited for webhooks in the backup. Events since the restore are sent."""
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
) -> CommandResult:
    def held() -> list[HeldWebhook]:
        with parts.database.read() as session:
            return held_webhooks(session, _account_id(session, account))

    if dry_run:
        webhooks = held()
        events = _events_of(webhooks)
        return CommandResult(f"{counted(events, 'event')} would be {past}", {"held": events, "webhooks": len(webhooks)})
    confirmed(what, "event", lambda: HeldCount(_events_of(held())), yes=yes)
    ended = []
    for webhook in held():
        with parts.database.write() as transaction:
            if end_hold(transaction, webhook):
                ended.append(webhook)
    parts.wake_ups.wake(WEBHOOKS)
    events = _events_of(ended)
    return CommandResult(f"{past} {counted(events, 'event')}", {past: events, "webhooks": len(ended)})


def _events_of(webhooks: Sequence[HeldWebhook]) -> int:
    return sum(webhook.events for webhook in webhooks)
