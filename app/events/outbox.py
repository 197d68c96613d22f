"""The outbox: events are rows of the transaction that makes the change, so neither exists without the other.

No worker is woken from here. Batches of a webhook are seconds apart (docs/webhooks.md#batches), so the scheduler's look
for due webhooks, twice a second, is soon enough; and code that only writes rows needs neither Redis nor the process's
services.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import or_, select

from app.db.bulk import insert_rows
from app.db.commit_order import mark_writer
from app.db.database import Transaction
from app.db.models import Account, Event, EventRotation, Webhook
from app.db.models.webhooks import UNCHECKED
from app.errors import ServiceError
from app.events.payloads import Payload

# Which events a webhook receives: all, or those of some kinds and lists (docs/webhooks.md#choosing-events). Pure.

KINDS = {
    "contact": ("created", "updated", "deleted"),
    "recipient": ("sent", "bounced", "failed", "opened", "clicked", "acknowledged"),
    "sms": ("received",),
    "webhook": ("failing",),
}
"""Object -> its events, as they may be chosen. Events that name their webhook themselves are not chosen."""
FAILING = "webhook.failing"
"""Only webhooks that name it receive it: it is about the service, and no event of the API."""
NAMES = tuple(f"{object_}.{event}" for object_, events in KINDS.items() for event in events)


class Choice(NamedTuple):
    """None means all but those of the object `webhook`. An event without a list is of none, so a choice of lists leaves
    it out."""

    events: Sequence[str] | None = None
    lists: Sequence[int] | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.events is None and self.lists is None

    def accepts(self, payload: Payload) -> bool:
        """Whether the webhook receives the event."""
        if self.lists is not None and payload.get("list_id") not in self.lists:
            return False
        return self.events is None or f"{payload['object']}.{payload['event']}" in self.events


def event_names(wanted: Iterable[str]) -> list[str]:
    """The names of events, in their order, of names and of objects, which stand for all of theirs.

    Raises `ServiceError` (`invalid_string`) for any other word.
    """
    chosen: set[str] = set()
    for word in wanted:
        found = [name for name in NAMES if word in (name, name.partition(".")[0])]
        if not found:
            known = ", ".join((*KINDS, *NAMES))
            raise ServiceError("invalid_string", field="events", detail=f"there is no event {word!r}; known: {known}")
        chosen.update(found)
    return [name for name in NAMES if name in chosen]


TEST_MARK = {"test": True}
"""What events of a test account carry besides (docs/testing.md#events)."""


def record(transaction: Transaction, account_id: int, payloads: Sequence[Payload]) -> None:
    """Writes the events, in their order, for every webhook that the account has now, but for those that were
    refused (docs/webhooks.md)."""
    record_many(transaction, {account_id: payloads})


def record_many(transaction: Transaction, payloads_by_account: Mapping[int, Iterable[Payload]]) -> None:
    """The same for the events of several accounts; one select and one insert in all.

    The payloads of an account without webhooks are not read.
    """
    accounts = [account_id for account_id, payloads in payloads_by_account.items() if payloads]
    if not accounts:
        return
    rows: list[dict[str, Any]] = []
    slot, webhooks, tests = _mark_and_find_webhooks(transaction, accounts)
    for account_id, choices in webhooks.items():
        mark = TEST_MARK if account_id in tests else {}
        events = [(payload, _text(payload, mark)) for payload in payloads_by_account[account_id]]
        for webhook_id, choice in choices.items():
            rows += [
                {"account_id": account_id, "webhook_id": webhook_id, "payload": text}
                for payload, text in events
                if choice.is_all or choice.accepts(payload)
            ]
    insert_rows(transaction, Event, rows, {"slot": slot})


def record_for_webhooks(
    transaction: Transaction, account_id: int, payloads: Mapping[int, Sequence[Payload]]
) -> Collection[int]:
    """Writes events for single webhooks of an account, by their ids, whatever they chose; returns those that it
    has."""
    slot, webhooks, tests = _mark_and_find_webhooks(transaction, [account_id])
    mark = TEST_MARK if account_id in tests else {}
    found = payloads.keys() & webhooks.get(account_id, {}).keys()
    rows = [
        {"account_id": account_id, "webhook_id": webhook_id, "payload": _text(payload, mark)}
        for webhook_id in sorted(found)
        for payload in payloads[webhook_id]
    ]
    insert_rows(transaction, Event, rows, {"slot": slot})
    return found


def _text(payload: Payload, mark: Payload) -> str:
    return orjson.dumps({**payload, **mark} if mark else payload).decode()


def _mark_and_find_webhooks(
    transaction: Transaction, account_ids: Sequence[int]
) -> tuple[int, dict[int, dict[int, Choice]], set[int]]:
    """The slot that events are written to, the webhooks of each account that has any, with what they chose, and which
    of these accounts are test accounts.

    Marks the transaction as one that writes events of these accounts, which must be done before ids are drawn for them
    (app/db/commit_order.py). A webhook may be deleted meanwhile: its events are not read then.
    """
    slot = select(EventRotation.slot).scalar_subquery()
    chosen = Webhook.chosen_events, Webhook.chosen_lists
    is_test = select(Account.test_of.is_not(None)).where(Account.id == Webhook.account_id).scalar_subquery()
    statement = select(Webhook.account_id, Webhook.id, *chosen, slot, is_test, mark_writer(Webhook.account_id))
    # What happens while a webhook is checked is sent to it once it is accepted.
    not_refused = or_(Webhook.barred.is_(None), Webhook.barred == UNCHECKED)
    of_accounts = statement.where(Webhook.account_id.in_(account_ids), not_refused)
    found = transaction.execute(of_accounts.order_by(Webhook.id)).all()
    webhooks: dict[int, dict[int, Choice]] = {}
    for account_id, webhook_id, events, lists, *_ in found:
        webhooks.setdefault(account_id, {})[webhook_id] = Choice(events, lists)
    return (found[0][4] if found else 0), webhooks, {row[0] for row in found if row[5]}
