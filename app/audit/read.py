"""Reading the audit log with the query language (docs/audit.md#reading)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.audit.actor import ACTOR_KINDS, Actor, ActorKind, name_of_person
from app.audit.record import ACTIONS, OBJECTS
from app.db.expressions import in_json
from app.db.models import AuditEntry, ConsolePerson
from app.db.pages import pages_of
from app.query import compile as compiled
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Property, Shape, as_timestamp, columns, renderer

PROPERTIES: dict[str, Property] = {
    "id": Property(AuditEntry.id),
    "time": Property(AuditEntry.time, as_timestamp),
    "account_id": Property(AuditEntry.account_id),
    "action": Property(AuditEntry.action),
    "object": Property(AuditEntry.object),
    "object_id": Property(AuditEntry.object_id),
    "object_name": Property(AuditEntry.object_name),
    "address_digest": Property(AuditEntry.address_digest),
    "actor_kind": Property(AuditEntry.actor_kind),
    "actor": Property(AuditEntry.actor),
    "key_id": Property(AuditEntry.key_id),
    "source": Property(AuditEntry.source),
    "via": Property(AuditEntry.via),
    "request_id": Property(AuditEntry.request_id),
    "changes": Property(AuditEntry.changes),
    "counts": Property(AuditEntry.counts),
}
FILTERS = (
    Filter("time", FilterType.TIMESTAMP),
    Filter("action", FilterType.ENUM, ACTIONS),
    Filter("object", FilterType.ENUM, OBJECTS),
    Filter("actor_kind", FilterType.ENUM, ACTOR_KINDS),
    *(Filter(name, FilterType.INTEGER) for name in ("id", "account_id", "key_id")),
    *(
        Filter(name, FilterType.STRING)
        for name in ("object_id", "object_name", "address_digest", "actor", "source", "via", "request_id")
    ),
)
AUDIT_ENTRIES = Shape(
    resource=Resource(
        name="audit entry",
        collection="audit_entries",
        filters={filter_.name: filter_ for filter_ in FILTERS},
        fields=tuple(PROPERTIES),
    ),
    properties=PROPERTIES,
    keys=(AuditEntry.id,),
    links=lambda _: {},
    order=(AuditEntry.time, AuditEntry.id),
)


def entries_in_order(session: Session, query: Query, *scope: ColumnElement[bool]) -> Iterator[Sequence[dict[str, Any]]]:
    """All entries that match, in the order of their ids, a page at a time."""
    conditions = [*scope, *compiled.where(query, AUDIT_ENTRIES.filter_columns)]
    show = renderer(AUDIT_ENTRIES, query)
    for page in pages_of(session, columns(AUDIT_ENTRIES, query).where(*conditions), (AuditEntry.id,)):
        yield [show(row) for row in page]


@dataclass(frozen=True, slots=True)
class ActOnAddress:
    """What was done to an address, by whom."""

    time: datetime
    action: str
    changes: Sequence[dict[str, Any]]
    actor: Actor


def acts_on_address(session: Session, account_id: int, digests: Sequence[str], limit: int) -> list[ActOnAddress]:
    """The latest acts of adding or removing suppressions of the address with these keyed hashes."""
    is_of_address = AuditEntry.account_id == account_id, in_json(AuditEntry.address_digest, digests)
    latest = select(AuditEntry).where(*is_of_address, AuditEntry.object == "suppression")
    entries = session.scalars(latest.order_by(AuditEntry.time.desc(), AuditEntry.id.desc()).limit(limit))
    return [ActOnAddress(entry.time, entry.action, entry.changes, _actor(entry)) for entry in entries]


def _actor(entry: AuditEntry) -> Actor:
    return Actor(cast("ActorKind", entry.actor_kind), entry.actor, entry.source, entry.via, entry.request_id)


def with_names_of_people(session: Session, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries, in which the present name of each person who has signed in by OpenID Connect stands before the
    number (docs/audit.md#actors). Whoever is forgotten has only the number."""
    actors = {item["actor"] for item in items if item.get("actor_kind") == "person"}
    ids = [int(number) for actor in actors if (number := actor.rpartition(" ")[2]).isdecimal()]
    people = select(ConsolePerson.id, ConsolePerson.name).where(in_json(ConsolePerson.id, ids))
    names = {row.id: row.name for row in session.execute(people)} if ids else {}
    labels = {name_of_person(id_): f"{name} ({name_of_person(id_)})" for id_, name in names.items() if name}
    return [{**item, "actor": labels.get(item["actor"], item["actor"])} if "actor" in item else item for item in items]


def last_entry(session: Session, action: str) -> AuditEntry | None:
    """The latest entry of an action."""
    entries = select(AuditEntry).where(AuditEntry.action == action)
    return session.scalars(entries.order_by(AuditEntry.id.desc()).limit(1)).first()
