"""`flask webhooks`: trying a webhook out, its log of deliveries, and sending events again."""

from __future__ import annotations

from datetime import datetime

import click
from flask.cli import with_appcontext

from app.accounts.find import find_account
from app.cli.base import (
    Command,
    Row,
    WrongValue,
    account_option,
    echo,
    json_option,
    limit_option,
    print_done,
    print_json,
    print_row,
    print_rows,
)
from app.db.models import WebhookAttempt
from app.distribution import COMMAND_LINE
from app.events.redeliver import events_of, find_delivery, redeliver, replay, replay_since, send_test
from app.events.webhooks import deliveries, find_webhook
from app.http.context import services
from app.maintenance.findings import counted
from app.query.times import instant_span

LISTED = ("id", "time", "batch_id", "events", "status", "outcome", "milliseconds", "detail")
SHOWN = ("id", "webhook_id", "time", "batch_id", "events", "status", "outcome", "milliseconds", "detail", "answer")


def _row(delivery: WebhookAttempt, names: tuple[str, ...]) -> Row:
    return {name: getattr(delivery, name) for name in names}


@click.command("test", cls=Command)
@click.argument("webhook")
@account_option
@json_option
@with_appcontext
def test_command(webhook: str, account: str | None, as_json: bool) -> None:
    """Send a test event to a webhook, signed as all are, behind the events that wait for it."""
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        send_test(transaction, found)
    showing = f"`{COMMAND_LINE} webhooks deliveries` shows what becomes of it"
    said = f"a test event waits for {found.url}; {showing}"
    print_done(said, {"id": found.id, "url": found.url, "events": 1}, as_json)


@click.command("deliveries", cls=Command)
@click.argument("webhook")
@limit_option
@account_option
@json_option
@with_appcontext
def deliveries_command(webhook: str, limit: int, account: str | None, as_json: bool) -> None:
    """Show the latest requests to a webhook and how they ended."""
    with services().database.read() as session:
        found = find_webhook(session, find_account(session, account).id, webhook)
        rows = [_row(one, LISTED) for one in deliveries(session, found, limit)]
    print_rows(rows, as_json)


@click.command("delivery", cls=Command)
@click.argument("delivery")
@account_option
@json_option
@with_appcontext
def delivery_command(delivery: str, account: str | None, as_json: bool) -> None:
    """Show a request to a webhook, named by its id or batch_id: its events, as far as they are kept, and the answer."""
    with services().database.read() as session:
        found = find_delivery(session, find_account(session, account).id, delivery)
        row, events = _row(found, SHOWN), events_of(session, found)
    if as_json:
        print_json({**row, "body": {"events": events}})
        return
    print_row(row, as_json, texts=("answer",))
    echo("events:" if len(events) == found.events else f"events, of which {len(events)} are still kept:")
    print_json(events)


@click.command("redeliver", cls=Command)
@click.argument("delivery")
@account_option
@json_option
@with_appcontext
def redeliver_command(delivery: str, account: str | None, as_json: bool) -> None:
    """Send the events of a request again, to the same webhook, behind the events that wait for it."""
    with services().database.write() as transaction:
        found = find_delivery(transaction, find_account(transaction, account).id, delivery)
        events = redeliver(transaction, found)
        facts = {"id": found.id, "webhook_id": found.webhook_id, "redelivered": events}
    print_done(_wait_again(events), facts, as_json)


def _wait_again(events: int) -> str:
    return f"{counted(events, 'event')} wait{'s' if events == 1 else ''} again"


def _moment(_context: object, _parameter: object, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return instant_span(text, None)[0]
    except ValueError:
        raise WrongValue(f"--since: {text!r} is no time such as 2026-01-31T10:00:00Z, and no date") from None


@click.command("replay", cls=Command)
@click.argument("webhook")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Maximum number of events.")
@click.option("--since", metavar="TIME", callback=_moment, help="All that were sent to it since then, in UTC.")
@account_option
@json_option
@with_appcontext
def replay_command(webhook: str, last: int | None, since: datetime | None, account: str | None, as_json: bool) -> None:
    """Send events that a webhook has accepted again, as far back as they are kept: the last, or all since a time."""
    if (last is None) == (since is None):
        raise WrongValue("give either --last or --since")
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        replayed = replay_since(transaction, found, since) if since else replay(transaction, found, last or 0)
    print_done(_wait_again(replayed), {"id": found.id, "url": found.url, "replayed": replayed}, as_json)


commands = (
    *(test_command, deliveries_command, delivery_command),
    *(redeliver_command, replay_command),
)
