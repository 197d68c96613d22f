"""`flask webhooks`: webhooks, their signing secrets and their delivery log."""

from __future__ import annotations

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.cli.base import (
    Group,
    Row,
    account_option,
    accounts_option,
    json_option,
    limit_option,
    print_done,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.db.models import Webhook
from app.events.replay import replay
from app.events.webhooks import (
    checked_url,
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

group = Group("webhooks", help="Webhooks: URLs that receive the account's events.")


def _row(session: Session, webhook: Webhook, pending: dict[int, int]) -> Row:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "secrets": [one.key_id for one in list_secrets(session, webhook)],
        "pending_events": pending.get(webhook.id, 0),
        "failures": webhook.failures,
        "dropped_events": webhook.dropped_events,
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
@account_option
@json_option
def create(url: str, secret_id: str | None, secret: str | None, account: str | None, as_json: bool) -> None:
    """Register a URL for events from now on."""
    signer = (secret_id or new_key_id([]), secret or new_secret())
    checked = checked_url(services().settings, url)
    with services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        made = create_webhook(transaction, services().settings, account_id, checked, [signer])
    print_row({"id": made.id, "url": made.url, "secret_id": signer[0], "secret": signer[1]}, as_json)


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


@group.command("replay")
@click.argument("webhook")
@click.option("--last", type=click.IntRange(1), required=True, metavar="N", help="Maximum number of events.")
@account_option
@json_option
def replay_(webhook: str, last: int, account: str | None, as_json: bool) -> None:
    """Send the last events that a webhook has accepted again, as far back as they are kept."""
    with services().database.write() as transaction:
        found = find_webhook(transaction, find_account(transaction, account).id, webhook)
        replayed = replay(transaction, found, last)
    print_done(f"{replayed} events wait again", {"id": found.id, "url": found.url, "replayed": replayed}, as_json)


@group.command("deliveries")
@click.argument("webhook")
@limit_option
@account_option
@json_option
def deliveries_(webhook: str, limit: int, account: str | None, as_json: bool) -> None:
    """Show the latest requests to a webhook and how they ended."""
    names = ("time", "batch_id", "events", "status", "outcome", "milliseconds", "detail")
    with services().database.read() as session:
        found = find_webhook(session, find_account(session, account).id, webhook)
        rows = [{name: getattr(one, name) for name in names} for one in deliveries(session, found, limit)]
    print_rows(rows, as_json)
