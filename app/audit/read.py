"""Reading the audit log with the query language (docs/audit.md#reading)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from app.audit.actions import ACTIONS, OBJECTS
from app.audit.actor import ACTOR_KINDS
from app.db.models import AuditEntry
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
        filters={one.name: one for one in FILTERS},
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
