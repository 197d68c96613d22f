"""`flask webhooks`: webhooks, their signing secrets and their delivery log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click
from sqlalchemy.orm import Session

from app.accounts.testing import find_test_account
from app.cli.base import (
    CommandResult,
    Group,
    NamedItem,
    Row,
    WrongValue,
    echo,
    limit_option,
    need_installation_key,
    print_json,
    print_row,
)
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, List, Webhook, WebhookAttempt
from app.distribution import COMMAND_LINE
from app.events.redeliver import events_of, find_delivery, redeliver, replay, replay_since, send_test
from app.events.registration import checked_url
from app.events.webhooks import (
    choose_events,
    create_webhook,
    delete_webhook,
    deliveries,
    find_webhook,
    list_secrets,
    list_webhooks,
    new_key_id,
    new_secret,
    pending_events,
    remove_secret,
    rotate_secret,
)
from app.http.context import services
from app.maintenance.words import counted
from app.query.times import instant_span
from app.services import Services

group = Group("webhooks", help="Webhooks: URLs that receive the account's events.")
WEBHOOK = NamedItem(click.argument("named", metavar="WEBHOOK"), find_webhook)
DELIVERY = NamedItem(click.argument("named", metavar="DELIVERY"), find_delivery)

# `flask webhooks`: trying a webhook out, its log of deliveries, and sending events again.

DELIVERY_TABLE_COLUMNS = ("id", "time", "batch_id", "events", "status", "outcome", "milliseconds", "detail")
ROW_COLUMNS = (
    "id",
    "webhook_id",
    "time",
    "batch_id",
    "events",
    "status",
    "outcome",
    "milliseconds",
    "detail",
    "answer",
)


def _delivery_row(delivery: WebhookAttempt, names: tuple[str, ...]) -> Row:
    return {name: getattr(delivery, name) for name in names}


@group.writes("test", WEBHOOK)
def test_(transaction: Transaction, webhook: Webhook) -> CommandResult:
    """Send a signed test event to a webhook, after its waiting events."""
    send_test(transaction, webhook)
    showing = f"`{COMMAND_LINE} webhooks deliveries` shows its delivery"
    said = f"a test event waits for {webhook.url}; {showing}"
    return CommandResult(said, {"id": webhook.id, "url": webhook.url, "events": 1})


@group.reads("deliveries", WEBHOOK)
@limit_option
def deliveries_(session: Session, webhook: Webhook, limit: int) -> list[Row]:
    """Show the latest requests to a webhook and how they ended."""
    return [_delivery_row(delivery, DELIVERY_TABLE_COLUMNS) for delivery in deliveries(session, webhook, limit)]


def _print_delivery(row: Row, as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    events = row["body"]["events"]
    print_row({name: row[name] for name in ROW_COLUMNS}, as_json, texts=("answer",))
    echo("events:" if len(events) == row["events"] else f"events, {len(events)} still kept:")
    print_json(events)


@group.reads("delivery", DELIVERY, _print_delivery)
def delivery_(session: Session, delivery: WebhookAttempt) -> Row:
    """Show a request to a webhook: its answer, and its events if they are kept. DELIVERY is its id or batch_id."""
    return {**_delivery_row(delivery, ROW_COLUMNS), "body": {"events": events_of(session, delivery)}}


@group.writes("redeliver", DELIVERY)
def redeliver_(transaction: Transaction, delivery: WebhookAttempt) -> CommandResult:
    """Send the events of a request again to the same webhook, after its waiting events."""
    events = redeliver(transaction, delivery)
    facts = {"id": delivery.id, "webhook_id": delivery.webhook_id, "redelivered": events}
    return CommandResult(_wait_again(events), facts)


def _wait_again(events: int) -> str:
    return f"{counted(events, 'event')} wait{'s' if events == 1 else ''} again"


def _moment(_context: object, _parameter: object, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return instant_span(text, None)[0]
    except ValueError:
        raise WrongValue(f"--since: {text!r} is not a date or a time such as 2026-01-31T10:00:00Z") from None


@group.writes("replay", WEBHOOK)
@click.option("--last", type=click.IntRange(1), metavar="N", help="The last N events.")
@click.option(
    "--since", metavar="TIME", callback=_moment, help="All events that were sent to it since this time, in UTC."
)
def replay_(transaction: Transaction, webhook: Webhook, last: int | None, since: datetime | None) -> CommandResult:
    """Send events again that a webhook accepted or that were dropped: the last N, or all since a time."""
    if (last is None) == (since is None):
        raise WrongValue("use either --last or --since")
    replayed = replay_since(transaction, webhook, since) if since else replay(transaction, webhook, last or 0)
    return CommandResult(_wait_again(replayed), {"id": webhook.id, "url": webhook.url, "replayed": replayed})


event_option = click.option(
    "--event",
    "events",
    multiple=True,
    metavar="NAME",
    help="Only these events, such as recipient.bounced, or all events of an object, such as recipient. Repeatable.",
)
lists_option = click.option(
    "--list", "lists", multiple=True, metavar="NAME|ID", help="Only events of these lists. Repeatable."
)


def _row(session: Session, webhook: Webhook, pending: dict[int, int]) -> Row:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": webhook.chosen_events or "all",
        "lists": webhook.chosen_lists or "all",
        "secrets": [signing_secret.key_id for signing_secret in list_secrets(session, webhook)],
        "pending_events": pending.get(webhook.id, 0),
        "failures": webhook.failures,
        "dropped_events": webhook.dropped_events,
        "held": webhook.held_to is not None,
        "barred": webhook.barred,
        "next_try": webhook.due_time if webhook.failures else None,
        "creation_time": webhook.creation_time,
    }


@group.reads("list", "all accounts")
def list_(session: Session, account: Account) -> list[Row]:
    """Show the webhooks of one account or of all accounts."""
    pending = pending_events(session, account.id)
    return [_row(session, webhook, pending) for webhook in list_webhooks(session, account.id)]


@group.reads("show", WEBHOOK)
def show(session: Session, webhook: Webhook) -> Row:
    """Show a webhook. WEBHOOK is its URL or id."""
    return _row(session, webhook, pending_events(session, webhook.account_id))


@group.runs("create")
@click.argument("url")
@click.option("--secret-id", metavar="ID", help="Key id of the signing secret. Default: k1.")
@click.option(
    "--secret", help="The signing secret, 32 bytes or more. Default: a generated secret, which is shown only once."
)
@event_option
@lists_option
@click.option("--test", is_flag=True, help="Receive only the events of test keys.")
def create(
    parts: Services,
    account: Account,
    *,
    url: str,
    secret_id: str | None,
    secret: str | None,
    events: Sequence[str],
    lists: Sequence[str],
    test: bool,
) -> Row:
    """Register a URL that receives all future events, or only the chosen ones."""
    need_installation_key(parts)
    signer = (secret_id or new_key_id([]), secret or new_secret())
    checked = checked_url(parts.settings, url)
    with parts.database.write() as transaction:
        account_id = find_test_account(transaction, account).id if test else account.id
        made = create_webhook(transaction, parts.settings, account_id, checked, [signer])
        choose_events(transaction, made, events or None, _list_ids(transaction, account_id, lists))
    return {"id": made.id, "url": made.url, "secret_id": signer[0], "secret": signer[1]}


def _list_ids(session: Session, account_id: int, names: Sequence[str]) -> list[int] | None:
    return [find_by_name_or_id(session, List, account_id, name, "list").id for name in names] or None


@group.writes("update", WEBHOOK)
@event_option
@lists_option
@click.option("--all-events", is_flag=True, help="Receive events of all kinds again.")
@click.option("--all-lists", is_flag=True, help="Receive events of all lists again, and events without a list.")
def update(
    transaction: Transaction,
    webhook: Webhook,
    *,
    events: Sequence[str],
    lists: Sequence[str],
    all_events: bool,
    all_lists: bool,
) -> Row:
    """Choose which events a webhook receives from now on. Waiting events are still sent."""
    if (all_events and events) or (all_lists and lists):
        raise WrongValue("use either --all-events or --event, and either --all-lists or --list")
    kinds = None if all_events else events or webhook.chosen_events
    ids = None if all_lists else _list_ids(transaction, webhook.account_id, lists) or webhook.chosen_lists
    choose_events(transaction, webhook, kinds, ids)
    return _row(transaction, webhook, pending_events(transaction, webhook.account_id))


@group.writes("rotate", WEBHOOK, needs_key=True)
@click.option("--secret-id", metavar="ID", help="Key id of the new secret. Default: the next free id of k1, k2, …")
@click.option(
    "--secret", help="The new secret, 32 bytes or more. Default: a generated secret, which is shown only once."
)
def rotate(transaction: Transaction, webhook: Webhook, secret_id: str | None, secret: str | None) -> Row:
    """Add a signing secret. Existing secrets keep signing until you remove them."""
    key_id, new_secret = rotate_secret(transaction, services().settings, webhook, secret_id, secret)
    return {"id": webhook.id, "url": webhook.url, "secret_id": key_id, "secret": new_secret}


@group.writes("remove-secret", WEBHOOK)
@click.argument("secret_id")
def remove_secret_(transaction: Transaction, webhook: Webhook, secret_id: str) -> CommandResult:
    """Remove a signing secret, once the receiver knows another one. The last secret cannot be removed."""
    remove_secret(transaction, webhook, secret_id)
    facts = {"id": webhook.id, "url": webhook.url, "secret_id": secret_id, "removed": True}
    return CommandResult(f"removed secret {secret_id}", facts)


@group.writes("delete", WEBHOOK)
def delete(transaction: Transaction, webhook: Webhook) -> CommandResult:
    """Delete a webhook and its waiting events."""
    delete_webhook(transaction, webhook)
    return CommandResult(f"deleted webhook {webhook.url}", {"id": webhook.id, "url": webhook.url, "deleted": True})
