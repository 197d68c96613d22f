"""`flask webhooks`: webhooks, their signing secrets and their delivery log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.accounts.testing import find_test_account
from app.cli.base import (
    Group,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    echo,
    json_option,
    limit_option,
    print_done,
    print_json,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.db.lookup import find_by_name_or_id
from app.db.models import List, Webhook, WebhookAttempt
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
from app.maintenance.findings import counted
from app.query.times import instant_span

group = Group("webhooks", help="Webhooks: URLs that receive the account's events.")

# `flask webhooks`: trying a webhook out, its log of deliveries, and sending events again.

LISTED = ("id", "time", "batch_id", "events", "status", "outcome", "milliseconds", "detail")
SHOWN = ("id", "webhook_id", "time", "batch_id", "events", "status", "outcome", "milliseconds", "detail", "answer")


def _delivery_row(delivery: WebhookAttempt, names: tuple[str, ...]) -> Row:
    return {name: getattr(delivery, name) for name in names}


@group.command("test")
@click.argument("webhook")
@account_option
@json_option
def test_command(webhook: str, account: str | None, as_json: bool) -> None:
    """Send a test event to a webhook, signed as all are, behind the events that wait for it."""
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        send_test(transaction, found)
    showing = f"`{COMMAND_LINE} webhooks deliveries` shows what becomes of it"
    said = f"a test event waits for {found.url}; {showing}"
    print_done(said, {"id": found.id, "url": found.url, "events": 1}, as_json)


@group.command("deliveries")
@click.argument("webhook")
@limit_option
@account_option
@json_option
def deliveries_command(webhook: str, limit: int, account: str | None, as_json: bool) -> None:
    """Show the latest requests to a webhook and how they ended."""
    with services().database.read() as session:
        found = find_webhook(session, find_account(session, account).id, webhook)
        rows = [_delivery_row(one, LISTED) for one in deliveries(session, found, limit)]
    print_rows(rows, as_json)


@group.command("delivery")
@click.argument("delivery")
@account_option
@json_option
def delivery_command(delivery: str, account: str | None, as_json: bool) -> None:
    """Show a request to a webhook, named by its id or batch_id: its events, as far as they are kept, and the answer."""
    with services().database.read() as session:
        found = find_delivery(session, find_account(session, account).id, delivery)
        row, events = _delivery_row(found, SHOWN), events_of(session, found)
    if as_json:
        print_json({**row, "body": {"events": events}})
        return
    print_row(row, as_json, texts=("answer",))
    echo("events:" if len(events) == found.events else f"events, of which {len(events)} are still kept:")
    print_json(events)


@group.command("redeliver")
@click.argument("delivery")
@account_option
@json_option
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


@group.command("replay")
@click.argument("webhook")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Maximum number of events.")
@click.option("--since", metavar="TIME", callback=_moment, help="All that were sent to it since then, in UTC.")
@account_option
@json_option
def replay_command(webhook: str, last: int | None, since: datetime | None, account: str | None, as_json: bool) -> None:
    """Send events that a webhook has accepted again, as far back as they are kept: the last, or all since a time."""
    if (last is None) == (since is None):
        raise WrongValue("give either --last or --since")
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        replayed = replay_since(transaction, found, since) if since else replay(transaction, found, last or 0)
    print_done(_wait_again(replayed), {"id": found.id, "url": found.url, "replayed": replayed}, as_json)


event_option = click.option(
    "--event",
    "events",
    multiple=True,
    metavar="NAME",
    help="Only these events, such as recipient.bounced, or all of an object, such as recipient; may be repeated.",
)
lists_option = click.option(
    "--list", "lists", multiple=True, metavar="NAME|ID", help="Only events of these lists; may be repeated."
)


def _row(session: Session, webhook: Webhook, pending: dict[int, int]) -> Row:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": webhook.chosen_events or "all",
        "lists": webhook.chosen_lists or "all",
        "secrets": [one.key_id for one in list_secrets(session, webhook)],
        "pending_events": pending.get(webhook.id, 0),
        "failures": webhook.failures,
        "dropped_events": webhook.dropped_events,
        "held": webhook.held_to is not None,
        "barred": webhook.barred,
        "next_try": webhook.due_time if webhook.failures else None,
        "creation_time": webhook.creation_time,
    }


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the webhooks of an account, or of all."""
    with services().database.read() as session:
        rows = rows_of_accounts(session, account, lambda one: _rows(session, one))
    print_rows(rows, as_json)


def _rows(session: Session, account_id: int) -> list[Row]:
    pending = pending_events(session, account_id)
    return [_row(session, webhook, pending) for webhook in list_webhooks(session, account_id)]


@group.command("show")
@click.argument("webhook")
@account_option
@json_option
def show(webhook: str, account: str | None, as_json: bool) -> None:
    """Show a webhook, named by its URL or id."""
    with services().database.read() as session:
        account_id = find_account(session, account).id
        row = _row(session, find_webhook(session, account_id, webhook), pending_events(session, account_id))
    print_row(row, as_json)


@group.command("create")
@click.argument("url")
@click.option("--secret-id", metavar="ID", help="Key id of the signing secret; k1 by default.")
@click.option("--secret", help="The signing secret, 32 bytes or more; generated and shown once by default.")
@event_option
@lists_option
@click.option("--test", is_flag=True, help="For the events of test keys, and no others.")
@account_option
@json_option
def create(
    *,
    url: str,
    secret_id: str | None,
    secret: str | None,
    events: Sequence[str],
    lists: Sequence[str],
    test: bool,
    account: str | None,
    as_json: bool,
) -> None:
    """Register a URL for events from now on: for all, or for those that are chosen."""
    signer = (secret_id or new_key_id([]), secret or new_secret())
    checked = checked_url(services().settings, url)
    with services().database.write() as transaction:
        owner = find_account(transaction, account)
        account_id = find_test_account(transaction, owner).id if test else owner.id
        made = create_webhook(transaction, services().settings, account_id, checked, [signer])
        choose_events(transaction, made, events or None, _list_ids(transaction, account_id, lists))
    print_row({"id": made.id, "url": made.url, "secret_id": signer[0], "secret": signer[1]}, as_json)


def _list_ids(session: Session, account_id: int, names: Sequence[str]) -> list[int] | None:
    return [find_by_name_or_id(session, List, account_id, name, "list").id for name in names] or None


@group.command("update")
@click.argument("webhook")
@event_option
@lists_option
@click.option("--all-events", is_flag=True, help="Events of all kinds again.")
@click.option("--all-lists", is_flag=True, help="Events of all lists again, and those without a list.")
@account_option
@json_option
def update(
    *,
    webhook: str,
    events: Sequence[str],
    lists: Sequence[str],
    all_events: bool,
    all_lists: bool,
    account: str | None,
    as_json: bool,
) -> None:
    """Choose which events a webhook receives from now on; those that wait are still sent."""
    if (all_events and events) or (all_lists and lists):
        raise WrongValue("--all-events excludes --event, and --all-lists excludes --list")
    with services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        found = find_webhook(transaction, account_id, webhook)
        kinds = None if all_events else events or found.chosen_events
        ids = None if all_lists else _list_ids(transaction, account_id, lists) or found.chosen_lists
        choose_events(transaction, found, kinds, ids)
        row = _row(transaction, found, pending_events(transaction, account_id))
    print_row(row, as_json)


@group.command("rotate")
@click.argument("webhook")
@click.option("--secret-id", metavar="ID", help="Key id of the new secret; by default the next free one of k1, k2, …")
@click.option("--secret", help="The new secret, 32 bytes or more; generated and shown once by default.")
@account_option
@json_option
def rotate(webhook: str, secret_id: str | None, secret: str | None, account: str | None, as_json: bool) -> None:
    """Add a signing secret; the others also sign until they are removed."""
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        key_id, shown = rotate_secret(transaction, services().settings, found, secret_id, secret)
    print_row({"id": found.id, "url": found.url, "secret_id": key_id, "secret": shown}, as_json)


@group.command("remove-secret")
@click.argument("webhook")
@click.argument("secret_id")
@account_option
@json_option
def remove_secret_(webhook: str, secret_id: str, account: str | None, as_json: bool) -> None:
    """Remove a signing secret, once the receiver knows another one."""
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        remove_secret(transaction, found, secret_id)
    facts = {"id": found.id, "url": found.url, "secret_id": secret_id, "removed": True}
    print_done(f"removed secret {secret_id}", facts, as_json)


@group.command("delete")
@click.argument("webhook")
@account_option
@json_option
def delete(webhook: str, account: str | None, as_json: bool) -> None:
    """Delete a webhook with the events that wait for it."""
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        delete_webhook(transaction, found)
    print_done(f"deleted webhook {found.url}", {"id": found.id, "url": found.url, "deleted": True}, as_json)
