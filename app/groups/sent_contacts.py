"""The sent contacts of a message: one per recipient to whom a send that refers to the message has sent it
(docs/endpoints.md#sent-contacts)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func
from sqlalchemy.orm import Session

from app.db.index_hints import IndexedRows, by_index_or_order, planned_for_values
from app.db.models import Recipient
from app.db.public_ids import public_id
from app.lists.paths import contact_path, list_path
from app.query import compile as compiled
from app.query.conditions import IsNull, Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_page

PROPERTIES = {
    "contact_id": Property(Recipient.contact_id),
    "list_id": Property(public_id(Recipient.list_id)),
    "send_time": Property(Recipient.sent_time, as_timestamp),
    "report_id": Property(Recipient.group_id),
    "first_open_time": Property(Recipient.first_open_time, as_timestamp),
    "last_open_time": Property(Recipient.last_open_time, as_timestamp),
    "open_type": Property(Recipient.open_type),
}
FILTERS = {
    "contact_id": Filter("contact_id", FilterType.INTEGER),
    "list_id": Filter("list_id", FilterType.INTEGER),
    "send_time": Filter("send_time", FilterType.TIMESTAMP),
    "report_id": Filter("report_id", FilterType.INTEGER),
    "first_open_time": Filter("first_open_time", FilterType.TIMESTAMP),
    "last_open_time": Filter("last_open_time", FilterType.TIMESTAMP),
    "open_type": Filter("open_type", FilterType.ENUM, ("not_opened", "html", "text", "sms")),
}

OPEN_TIMES = ("first_open_time", "last_open_time")
"""Filters that only recipients who have opened the message match; they have a separate index."""


def _links(row: Row[Any]) -> dict[str, Any]:
    """A text message may have a recipient without a list, which has no contact either."""
    links = {}
    if row.list_id is not None:
        links["list"] = {"href": list_path(row.list_id)}
        if row.contact_id is not None:
            links["contact"] = {"href": contact_path(row.list_id, row.contact_id)}
    return links


SENT_CONTACTS = Shape(
    resource=Resource("sent contact", "sent-contacts", filters=FILTERS, fields=tuple(PROPERTIES), copied=("list_id",)),
    properties=PROPERTIES,
    keys=(Recipient.list_id, Recipient.contact_id),
    links=_links,
    # A cursor compares all of them, and a comparison with null is never true.
    order=(Recipient.sent_time, func.coalesce(Recipient.contact_id, 0), Recipient.id),
    filters={"list_id": Recipient.list_id},
)


def page_sent_contacts(session: Session, account_id: int, message_id: int, query: Query) -> Page:
    """A page of the sent contacts of the message, newest first."""
    sent = and_(Recipient.message_id == message_id, Recipient.sent_time.is_not(None))
    scope = (Recipient.account_id == account_id, sent)
    if not query.conditions:
        return read_page(session, SENT_CONTACTS, query, *scope)
    formed, others = _answered_by_indexes(session, sent, query)
    with planned_for_values(session):
        return read_page(session, SENT_CONTACTS, others, *scope, *formed)


def _answered_by_indexes(
    session: Session, sent: ColumnElement[bool], query: Query
) -> tuple[list[ColumnElement[bool]], Query]:
    """The conditions that an index answers, in the form that it needs (docs/querying.md#what-an-index-answers), and the
    others."""
    formed, others = [], []
    for condition in query.conditions:
        if condition.filter.name not in OPEN_TIMES or condition.op == "ne" or IsNull() in condition.alternatives:
            others.append(condition)
            continue
        alone = compiled.where(Query(conditions=(condition,)), SENT_CONTACTS.filter_columns)
        matching = and_(Recipient.first_open_time.is_not(None), *alone)
        formed.append(
            by_index_or_order(session, Recipient.id, sent, matching, [IndexedRows(matching, Recipient.first_open_time)])
        )
    return formed, replace(query, conditions=tuple(others))
