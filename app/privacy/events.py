"""Events that name a person, and the log of requests to webhooks.

Events wait until their webhook has accepted them, and are kept for a while to be sent again. What happened stays, with
ids: receivers learn of an outcome that they have not heard of yet. Addresses and words of the person go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson
from sqlalchemy import bindparam, or_, select, update
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.expressions import contains_any
from app.db.models import Event, Webhook, WebhookAttempt, table_of
from app.db.pages import matching_pages
from app.privacy.person import Person
from app.privacy.place import Eraser, Pages, shown_value
from app.services import Services

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
        """The payload of the event without what is the person's."""
        return orjson.dumps({name: value for name, value in self.payload.items() if name in KEPT}).decode()


class Request(NamedTuple):
    """A request to a webhook with texts that the person may stand in."""

    id: int
    webhook_id: int
    time: Any
    detail: str | None
    answer: str | None


def events_of(session: Session, person: Person) -> Iterator[list[EventOfPerson]]:
    """The events that name the person or one of the contacts, page by page. They have no index but that of their
    webhook: the database looks through all of the account that have not been looked through."""
    of_contacts = [f'"contact_id":{one}{end}' for one in person.contact_ids for end in ",}"]
    matches = or_(
        contains_any(session, Event.payload, of_contacts, fold=False),
        contains_any(session, Event.payload, person.words),
    )
    for webhook_id in _webhooks(session, person):
        columns: tuple[Any, ...] = (Event.id, Event.payload)
        order = Event.webhook_id, Event.id
        of_webhook = (Event.webhook_id == webhook_id) & (Event.id > person.after_event)
        for rows in matching_pages(session, select(*columns), of_webhook, order, matches):
            found = [_parsed(row.id, webhook_id, row.payload) for row in rows]
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
    """The requests whose answer or error names the person, page by page; they are looked through likewise."""
    attempt = WebhookAttempt
    columns: tuple[Any, ...] = (attempt.id, attempt.time, attempt.detail, attempt.answer)
    matches = or_(*(contains_any(session, text, person.own_words) for text in (attempt.detail, attempt.answer)))
    for webhook_id in _webhooks(session, person):
        order = attempt.webhook_id, attempt.id
        for rows in matching_pages(session, select(*columns), attempt.webhook_id == webhook_id, order, matches):
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


def _parsed(event_id: int, webhook_id: int, payload: str) -> EventOfPerson:
    return EventOfPerson(event_id, webhook_id, orjson.loads(payload))


def _is_about(person: Person, payload: Mapping[str, Any]) -> bool:
    """Whether an event is about the person: by an address, a contact, or a text that quotes the address."""
    if payload.get("contact_id") in person.contact_ids:
        return True
    return any(person.is_named_in(value) for value in payload.values() if isinstance(value, str))


# Events, and the log of requests to webhooks, as places.


def read_events(_services: Services, session: Session, person: Person) -> Pages:
    """The events that name the person."""
    for page in events_of(session, person):
        yield [{"id": one.id, "webhook_id": one.webhook_id, "payload": dict(one.payload)} for one in page]


def erase_events(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Leaves of them what happened, with ids."""
    erased = 0
    with eraser.services.database.read() as session:
        for page in events_of(session, person):
            eraser.take(len(page), partial(blank_events, events=page))
            erased += len(page)
    return {"events": erased}


def read_requests(_services: Services, session: Session, person: Person) -> Pages:
    """The requests whose texts name the person."""
    for page in requests_of(session, person):
        yield [{name: shown_value(value) for name, value in one._asdict().items()} for one in page]


def erase_requests(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Removes the texts."""
    erased = 0
    with eraser.services.database.read() as session:
        for page in requests_of(session, person):
            eraser.take(len(page), partial(blank_requests, requests=page))
            erased += len(page)
    return {"answers of receivers": erased}
