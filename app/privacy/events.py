"""Events that name a person, and the log of requests to webhooks.

Events wait until their webhook has accepted them, and are kept for a while to be sent again. What happened stays, with
ids: receivers learn of an outcome that they have not heard of yet. Addresses and words of the person go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import bindparam, or_, select, update
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.models import Event, Webhook, WebhookAttempt, table_of
from app.privacy.person import Person

PAGE = 1000
KEPT = frozenset(
    {
        *("object", "event", "id", "timestamp", "automation_id", "step_id", "uuid", "group_id", "group_name"),
        *("report_id", "message_id", "message_type", "list_id", "contact_id", "is_temporary_bounce", "fail_reason"),
        *("is_machine", "test"),
    }
)
"""Fields of an event that stay: ids, and what is one of our words."""


class EventOfPerson(NamedTuple):
    """An event for one webhook."""

    id: int
    webhook_id: int
    payload: Mapping[str, Any]

    @property
    def is_blank(self) -> bool:
        """Whether nothing in it is the person's any more."""
        return KEPT.issuperset(self.payload)

    @property
    def blanked(self) -> str:
        """Its payload without what is the person's."""
        return orjson.dumps({name: value for name, value in self.payload.items() if name in KEPT}).decode()


class Request(NamedTuple):
    """A request to a webhook with texts that the person may stand in."""

    id: int
    webhook_id: int
    time: Any
    detail: str | None
    answer: str | None


def events_of(session: Session, person: Person) -> Iterator[list[EventOfPerson]]:
    """The events that name the person, page by page: they have no index but that of their webhook, so all of the
    account are read."""
    for webhook_id in _webhooks(session, person):
        last = 0
        while rows := _page(session, Event.payload, webhook_id, last):
            last = rows[-1].id
            found = [_parsed(row.id, webhook_id, row.payload) for row in rows if _may_name(person, row.payload)]
            if mine := [one for one in found if _is_about(person, one.payload) and not one.is_blank]:
                yield mine


def blank_events(transaction: Transaction, events: Sequence[EventOfPerson]) -> None:
    """Removes what is the person's from the events, and the answers to the requests that had them."""
    columns = table_of(Event).c
    chosen = columns.webhook_id == bindparam("of_webhook"), columns.id == bindparam("event")
    rows = [{"of_webhook": one.webhook_id, "event": one.id, "blanked": one.blanked} for one in events]
    statement = update(table_of(Event)).where(*chosen).values(payload=bindparam("blanked"))
    transaction.connection().execute(statement, rows)
    attempts = table_of(WebhookAttempt).c
    had_it = [
        (attempts.webhook_id == one.webhook_id) & (attempts.after_event < one.id) & (attempts.last_event >= one.id)
        for one in events
    ]
    blanked = update(table_of(WebhookAttempt)).where(or_(*had_it)).values(answer=None)
    transaction.connection().execute(blanked)


def requests_of(session: Session, person: Person) -> Iterator[list[Request]]:
    """The requests whose answer or error names the person, page by page."""
    texts = WebhookAttempt.time, WebhookAttempt.detail, WebhookAttempt.answer
    for webhook_id in _webhooks(session, person):
        last = 0
        while rows := _page(session, texts, webhook_id, last):
            last = rows[-1].id
            named = (row for row in rows if person.is_named_in(row.detail) or person.is_named_in(row.answer))
            if found := [Request(row.id, webhook_id, row.time, row.detail, row.answer) for row in named]:
                yield found


def blank_requests(transaction: Transaction, requests: Sequence[Request]) -> None:
    """Removes the texts of the requests."""
    columns = table_of(WebhookAttempt).c
    statement = update(table_of(WebhookAttempt)).where(columns.id.in_([one.id for one in requests]))
    transaction.connection().execute(statement.values(detail=None, answer=None))


def _webhooks(session: Session, person: Person) -> Sequence[int]:
    return session.scalars(select(Webhook.id).where(Webhook.account_id == person.account_id).order_by(Webhook.id)).all()


def _page(session: Session, columns: Any, webhook_id: int, last: int) -> Sequence[Any]:
    model = Event if columns is Event.payload else WebhookAttempt
    selected = (columns,) if columns is Event.payload else columns
    statement = select(model.id, *selected).where(model.webhook_id == webhook_id, model.id > last)
    return session.execute(statement.order_by(model.webhook_id, model.id).limit(PAGE)).all()


def _may_name(person: Person, payload: str) -> bool:
    lower = payload.lower()
    return any(needle in lower for needle in person.needles)


def _parsed(event_id: int, webhook_id: int, payload: str) -> EventOfPerson:
    return EventOfPerson(event_id, webhook_id, orjson.loads(payload))


def _is_about(person: Person, payload: Mapping[str, Any]) -> bool:
    """Its address, or that of one of the contacts, or a text that quotes the address."""
    if payload.get("contact_id") in person.contact_ids:
        return True
    return any(person.is_named_in(value) for value in payload.values() if isinstance(value, str))
