"""Webhooks with their secrets, as programs set them up (docs/management.md#webhooks)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.accounts.testing import refreshed_test_account
from app.db.database import Transaction
from app.db.models import Account, Webhook, WebhookSecret
from app.db.models.webhooks import UNCHECKED_BAR
from app.errors import ServiceError
from app.events.batch_contents import waiting_events
from app.events.redeliver import send_test
from app.events.webhooks import (
    check_again,
    choose_events,
    delete_webhook,
    find_secret,
    new_key_id,
    new_secret,
    remove_secret,
    rotate_secret,
    set_secrets,
    well_formed_url,
)
from app.management.noun import (
    CreatedRow,
    Details,
    Item,
    ManagedNoun,
    Manager,
    Values,
    is_of_test_account,
    list_ids,
    managed_accounts,
    shape_of,
)
from app.network_checks.ask import ask
from app.network_checks.webhooks import register_webhook
from app.query.fields import FilterType
from app.query.reader import Property, as_timestamp

SECRET_ATTRIBUTES = ("id", "secret")
PROPERTIES = {
    "id": Property(Webhook.id),
    "url": Property(Webhook.url),
    "events": Property(Webhook.chosen_events),
    "list_ids": Property(Webhook.chosen_lists),
    "test": Property(is_of_test_account(Webhook)),
    # Replaced by the rows of the secrets.
    "secrets": Property(Webhook.id),
    "is_checked": Property(func.coalesce(Webhook.barred == UNCHECKED_BAR, False)),
    "refusal": Property(func.nullif(Webhook.barred, UNCHECKED_BAR)),
    "waiting_events": Property(waiting_events()),
    "dropped_events": Property(Webhook.dropped_events),
    "failures": Property(Webhook.failures),
    "failing_since": Property(Webhook.failing_since, as_timestamp),
    "creation_time": Property(Webhook.creation_time, as_timestamp),
}
FILTERS = {
    "id": FilterType.INTEGER,
    "url": FilterType.STRING,
    "test": FilterType.BOOLEAN,
    "creation_time": FilterType.TIMESTAMP,
}


def _secrets(
    session: Session, manager: Manager, webhook_ids: Sequence[int], zone: ZoneInfo | None
) -> Mapping[int, Item]:
    """The secrets of each webhook by their ids, oldest first, without what signs."""
    is_managed = WebhookSecret.account_id.in_(managed_accounts(manager.account_id))
    has_webhook = is_managed, WebhookSecret.webhook_id.in_(webhook_ids)
    secrets: dict[int, list[Item]] = {webhook_id: [] for webhook_id in webhook_ids}
    for row in session.scalars(select(WebhookSecret).where(*has_webhook).order_by(WebhookSecret.id)):
        secrets[row.webhook_id].append({"id": row.key_id, "creation_time": as_timestamp(row.creation_time, zone)})
    return {webhook_id: {"secrets": items} for webhook_id, items in secrets.items()}


def create(transaction: Transaction, manager: Manager, values: Values) -> CreatedRow:
    """Registers a URL. Without secrets it gets one, which is shown once. A worker looks up where its host leads before
    anything is sent there. Raises `invalid_url`, `conflict` for a URL that is registered, `invalid_id` for another
    account's list, and what `set_secrets` and `choose_events` raise."""
    account_id = manager.account_id
    if values.get("test"):
        account_id = refreshed_test_account(transaction, transaction.get_one(Account, account_id)).id
    url = well_formed_url(manager.services.settings, values["url"])
    given = [(secret["id"], secret["secret"]) for secret in values.get("secrets", [])]
    signers = given or [(new_key_id([]), new_secret())]
    try:
        row = register_webhook(transaction, manager.services, account_id, url, signers[:1])
    except ServiceError as error:
        raise error.within("secrets", 0) if error.errors[0].field in SECRET_ATTRIBUTES else error from None
    _set_secrets(transaction, manager, row, values)
    _choose(transaction, row, values)
    (key_id, secret), *_ = signers
    return CreatedRow(row, {} if given else {"generated_secret": {"id": key_id, "secret": secret}})


def update(transaction: Transaction, manager: Manager, row: Webhook, values: Values) -> None:
    """Changes what a webhook receives from now on, and adds or replaces secrets by their ids. Raises what
    `choose_events` and `set_secrets` raise."""
    _set_secrets(transaction, manager, row, values)
    _choose(transaction, row, values)


def _set_secrets(transaction: Transaction, manager: Manager, row: Webhook, values: Values) -> None:
    given = [(secret["id"], secret["secret"]) for secret in values.get("secrets", [])]
    set_secrets(transaction, manager.services.settings, row, given)


def _choose(transaction: Transaction, row: Webhook, values: Values) -> None:
    lists = values.get("list_ids", row.chosen_lists)
    if values.get("list_ids"):
        lists = list_ids(transaction, row.account_id, lists, "list_ids")
    choose_events(transaction, row, values.get("events", row.chosen_events), lists)


def delete(transaction: Transaction, _manager: Manager, row: Webhook) -> None:
    """Deletes a webhook with its secrets. Its waiting events are not sent."""
    delete_webhook(transaction, row)


def rotate(transaction: Transaction, manager: Manager, row: Webhook, values: Values) -> CreatedRow:
    """Adds a secret, by default a new one, which is shown once. The others sign until they are removed. Raises what
    `rotate_secret` raises."""
    key_id, secret = rotate_secret(transaction, manager.services.settings, row, values.get("id"), values.get("secret"))
    return CreatedRow(row, {} if "secret" in values else {"generated_secret": {"id": key_id, "secret": secret}})


def require_secret(session: Session, row: Webhook, key_id: str) -> None:
    """Raises `not_found` for a secret that the webhook does not have."""
    with _secret_in_path():
        find_secret(session, row, key_id)


def remove(transaction: Transaction, row: Webhook, key_id: str) -> None:
    """Removes a secret. Raises `not_found` for one that the webhook does not have, and `conflict` for the only one."""
    with _secret_in_path():
        remove_secret(transaction, row, key_id)


@contextmanager
def _secret_in_path() -> Iterator[None]:
    """Raises `not_found` in place of `invalid_id`."""
    try:
        yield
    except ServiceError as error:
        if error.code != "invalid_id":
            raise
        raise ServiceError("not_found", detail=error.errors[0].detail) from None


def test(transaction: Transaction, _manager: Manager, row: Webhook, _values: Values) -> None:
    """Sends a webhook a test event, behind those that wait."""
    send_test(transaction, row)


def check(transaction: Transaction, manager: Manager, row: Webhook, _values: Values) -> None:
    """Has a worker look up once more where the host of a webhook leads that was refused. Raises `conflict` for one that
    was accepted, and for an account with too many checks under way."""
    check_again(row)
    ask(transaction, manager.services, "webhook", row.account_id, row.id)


SHAPE = shape_of(Webhook, "webhook", "webhooks", PROPERTIES, FILTERS)
WEBHOOKS = ManagedNoun(
    model=Webhook,
    shape=SHAPE,
    whole=SHAPE,
    details=(Details(("secrets",), _secrets),),
    create=create,
    most=100,
    update=update,
    delete=delete,
    has_tests=True,
    shows_secrets=True,
)
