"""Events, and the log of requests to webhooks, as places."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlalchemy.orm import Session

from app.privacy.events import blank_events, blank_requests, events_of, requests_of
from app.privacy.person import Person
from app.privacy.place import Eraser, Pages, shown_value
from app.services import Services


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
