"""Places that no index finds, whose texts the database looks through (docs/privacy.md#what-it-costs): events that name
a person, the log of requests to webhooks, and answers kept for idempotency keys.

Events wait until their webhook has accepted them, and are kept for a while to be sent again. What happened stays, with
ids: receivers learn of an outcome that they have not heard of yet. Addresses and words of the person go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Column, ColumnElement, Row, bindparam, or_, select, update
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.expressions import contains_any
from app.db.models import Event, IdempotencyRecord, Webhook, WebhookAttempt, table_of
from app.db.models.base import PLACE
from app.db.pages import matching_pages
from app.infrastructure.digests import keyed_digest
from app.privacy.person import Person
from app.privacy.place import Rows, delete_rows, emptied, place_of_rows, shown_row
from app.services import Services

PAYLOAD_KEYS_TO_KEEP = frozenset(
    {
        *("object", "event", "id", "timestamp", "automation_id", "step_id", "uuid", "group_id", "group_name"),
        *("report_id", "message_id", "message_type", "list_id", "contact_id", "is_temporary_bounce", "fail_reason"),
        *("is_machine", "test"),
    }
)
"""Fields of an event that stay: ids, and what is one of our words."""
ANSWER_KEYS_TO_KEEP = frozenset({"id", "list_id", "creation_time", "last_modified_time", "_links"})
"""Attributes of a contact or a suppression that stay in the answer that a repeated request gets; of the links those
without a query, which may have an address."""


def _events_of(session: Session, person: Person) -> Iterator[Rows]:
    """The events that name the person or one of the contacts, and have not been looked through."""
    events = table_of(Event).c
    contact_texts = [f'"contact_id":{contact_id}{end}' for contact_id in person.contact_ids for end in ",}"]
    columns = events.id, events.webhook_id, events.payload
    for scope in _webhook_scopes(session, person, events.webhook_id):
        unseen, order = scope & (events.id > person.after_event), (events.webhook_id, events.id)
        for rows in _search(session, columns, unseen, order, person.words, contact_texts=contact_texts):
            yield [row for row in rows if _is_about(person, orjson.loads(row.payload))]


def _is_about(person: Person, payload: Mapping[str, Any]) -> bool:
    """Whether an event is about the person: by an address, a contact, or a text that quotes the address. One that has
    nothing more of the person is not."""
    if PAYLOAD_KEYS_TO_KEEP.issuperset(payload):
        return False
    texts = (value for value in payload.values() if isinstance(value, str))
    return payload.get("contact_id") in person.contact_ids or any(map(person.is_named_in, texts))


def _blank_events(transaction: Transaction, _services: Services, _person: Person, events: Rows) -> int:
    """Removes what is the person's from the events, and the answers to the requests that had them."""
    columns, attempts = table_of(Event).c, table_of(WebhookAttempt).c
    chosen = columns.webhook_id == bindparam("webhook"), columns.id == bindparam("event")
    rows = [
        {"webhook": event.webhook_id, "event": event.id, "blanked": _kept_payload(event.payload)} for event in events
    ]
    statement = update(table_of(Event)).where(*chosen).values(payload=bindparam("blanked"))
    transaction.connection().execute(statement, rows)
    had_it = [
        (attempts.webhook_id == event.webhook_id)
        & (attempts.after_event < event.id)
        & (attempts.last_event >= event.id)
        for event in events
    ]
    blanked = update(table_of(WebhookAttempt)).where(or_(*had_it)).values(answer=None)
    transaction.connection().execute(blanked)
    return len(events)


def _requests_of(session: Session, person: Person) -> Iterator[Rows]:
    """The requests to webhooks whose answer or error names the person."""
    requests = table_of(WebhookAttempt).c
    columns = requests.id, requests.webhook_id, requests.time, requests.detail, requests.answer
    for scope in _webhook_scopes(session, person, requests.webhook_id):
        for rows in _search(session, columns, scope, (requests.webhook_id, requests.id), person.own_words):
            yield [row for row in rows if person.is_named_in(row.detail) or person.is_named_in(row.answer)]


def _blank_requests(transaction: Transaction, _services: Services, _person: Person, requests: Rows) -> int:
    """Removes the texts of the requests."""
    attempts = table_of(WebhookAttempt)
    chosen = attempts.c.id.in_([request.id for request in requests])
    blanked = update(attempts).where(chosen).values(emptied(WebhookAttempt, "webhook_requests"))
    transaction.connection().execute(blanked)
    return len(requests)


def _answers_of(session: Session, person: Person) -> Iterator[Rows]:
    """The answers that name the person, or whose key does."""
    answers = table_of(IdempotencyRecord).c
    columns = answers.id, answers.key, answers.creation_time, answers.body, answers.fingerprint
    contact_texts = [f'"id":{contact_id},' for contact_id in person.contact_ids]
    scope, order = answers.account_id == person.account_id, (answers.account_id, answers.key)
    for rows in _search(session, columns, scope, order, person.own_words, contact_texts=contact_texts):
        yield [row for row in rows if _is_of(person, row)]


def _is_of(person: Person, answer: Row[Any]) -> bool:
    named = person.is_named_in(answer.key) or person.is_named_in(answer.body)
    return named or _creates_one_of(person.contact_ids, answer.body)


def _creates_one_of(contact_ids: Sequence[int], body: str | None) -> bool:
    """Whether the creation of one of the contacts is answered, with more than is kept."""
    answer = orjson.loads(body) if body and body.startswith("{") else {}
    return "list_id" in answer and answer.get("id") in contact_ids and not ANSWER_KEYS_TO_KEEP.issuperset(answer)


def _blank_answers(transaction: Transaction, services: Services, person: Person, answers: Rows) -> int:
    """A repeated request gets the answer without what is the person's. A key that names the person goes with its
    record: the request would be carried out again."""
    records, secret_key = table_of(IdempotencyRecord), services.settings.secret_key
    gone = [answer.id for answer in answers if person.is_named_in(answer.key)]
    delete_rows(transaction, records.c.id, gone)
    for answer in answers:
        if answer.id not in gone:
            # The person's address may be all of the request that is not known: a plain hash would let it be guessed.
            fingerprint = keyed_digest(secret_key, answer.fingerprint)
            values = {"body": _kept_answer(answer.body), "fingerprint": fingerprint}
            transaction.connection().execute(update(records).where(records.c.id == answer.id).values(values))
    return len(answers)


def _kept_answer(document: str) -> str:
    answer = {name: value for name, value in orjson.loads(document).items() if name in ANSWER_KEYS_TO_KEEP}
    if "_links" in answer:
        answer["_links"] = {name: link for name, link in answer["_links"].items() if "?" not in link["href"]}
    return orjson.dumps(answer).decode()


def _kept_payload(document: str) -> str:
    payload = orjson.loads(document)
    return orjson.dumps({name: value for name, value in payload.items() if name in PAYLOAD_KEYS_TO_KEEP}).decode()


def _webhook_scopes(session: Session, person: Person, column: Any) -> list[ColumnElement[bool]]:
    """The rows of each webhook of the account."""
    webhooks = select(Webhook.id).where(Webhook.account_id == person.account_id).order_by(Webhook.id)
    return [column == webhook_id for webhook_id in session.scalars(webhooks).all()]


def _search(
    session: Session,
    columns: Sequence[Column[Any]],
    scope: ColumnElement[bool],
    order: Sequence[Column[Any]],
    words: Collection[str],
    *,
    contact_texts: Collection[str] = (),
) -> Iterator[Rows]:
    """The rows of the scope with one of the words in a column that is marked as personal, or with what names a contact
    there."""
    texts = [column for column in columns if column.info.get(PLACE)]
    named = (contains_any(session, column, words) for column in texts)
    contacts = (contains_any(session, column, contact_texts, fold=False) for column in texts)
    return matching_pages(session, select(*columns), scope, order, or_(*contacts, *named))


# As places.

SEARCHED_PLACES = (
    place_of_rows(
        "events",
        "events that wait for webhooks, or are kept to be sent again",
        _events_of,
        _blank_events,
        show=lambda row: {**shown_row(row), "payload": orjson.loads(row.payload)},
    ),
    place_of_rows(
        "webhook_requests",
        "what receivers of events have answered",
        _requests_of,
        _blank_requests,
        noun="answers of receivers",
    ),
    place_of_rows(
        "stored_answers",
        "answers kept for idempotency keys",
        _answers_of,
        _blank_answers,
        show=lambda row: shown_row(row, "fingerprint"),
    ),
)
