"""The sent contacts of a message: one per recipient to whom a send that refers to the message has sent it
(docs/endpoints.md#sent-contacts)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, select
from sqlalchemy.orm import Session

from app.db.index_hints import IndexedCondition, answered_together, planned_for_values
from app.db.models import Recipient
from app.db.public_ids import public_id
from app.lists.paths import contact_path, list_path
from app.query import compile as compiled
from app.query.conditions import FilterCondition, Query, is_of_one_value, is_of_values
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
    indexed = [condition for condition in query.conditions if _has_index(condition)]
    others = tuple(condition for condition in query.conditions if condition not in indexed)
    with planned_for_values(session):
        conditions = [_indexed(sent, condition) for condition in indexed]
        formed = answered_together(session, Recipient.id, conditions, counts=query.counts_only)
        return read_page(session, SENT_CONTACTS, replace(query, conditions=others), *scope, *formed)


def _has_index(condition: FilterCondition) -> bool:
    """Whether the condition has an index of its own, beside that of the order."""
    return is_of_values(condition) and condition.filter.name != "send_time"


def _indexed(sent: ColumnElement[bool], condition: FilterCondition) -> IndexedCondition:
    """In the form that its index needs (docs/querying.md#what-an-index-answers). The indexes of sent contacts begin
    with the message, so the ids are selected without the account, which the page checks."""
    name = condition.filter.name
    column: Any = SENT_CONTACTS.filter_columns[name]
    matching = and_(*compiled.where(Query(conditions=(condition,)), {name: column}))
    if name in OPEN_TIMES:
        column, matching = Recipient.first_open_time, and_(Recipient.first_open_time.is_not(None), matching)
    leads = is_of_one_value(condition) and name not in OPEN_TIMES
    order = Recipient.sent_time.desc() if leads else column
    ids = select(Recipient.id.label("id")).where(sent, matching).order_by(order)
    return IndexedCondition(matching, [ids], leads)
