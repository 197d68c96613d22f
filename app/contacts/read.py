"""Reading contacts (docs/contacts.md#attributes). The properties of a contact depend on its list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Row, and_, case, or_, select
from sqlalchemy.orm import Session, aliased

from app.contacts.counts import number_of_contacts
from app.contacts.filters import IS_BLOCKED, answered_by_indexes, compared_value
from app.db.index_hints import in_subquery, planned_for_values
from app.db.models import Contact, List
from app.db.public_ids import public_id
from app.errors import ServiceError
from app.ids import shown_id
from app.lists.fields import FieldSpec, ListSpec, ValueType
from app.lists.find import get_list, lists_by_id
from app.lists.paths import contact_path, contacts_path, list_path
from app.lists.read import page_lists, show_list
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.links import envelope
from app.query.reader import (
    Page,
    Property,
    Shape,
    as_timestamp,
    counted,
    page_columns,
    read_one,
    read_page,
    render_page,
    whole_renderer,
)

AnyContact = TypeVar("AnyContact")

FILTER_KINDS = {
    ValueType.DATE: FilterType.DATE,
    ValueType.DATE_OR_DATETIME: FilterType.DATETIME,
    ValueType.NUMBER: FilterType.FLOAT,
}
"""How values of list fields are compared; all others as strings."""


def _bits(email: Any, mobile: Any) -> ColumnElement[int]:
    """Two conditions as one number, because a property comes from one column."""
    return case((email, 1), else_=0) + case((mobile, 2), else_=0)


FLAGS_BY_BITS = tuple({"email": bool(bits & 1), "mobile": bool(bits & 2)} for bits in range(4))


def _by_kind(bits: int, _zone: ZoneInfo | None) -> dict[str, bool]:
    return FLAGS_BY_BITS[bits]


ATTRIBUTES: dict[str, Property] = {
    "id": Property(Contact.id),
    "list_id": Property(public_id(Contact.list_id)),
    "creation_time": Property(Contact.creation_time, as_timestamp),
    "last_modified_time": Property(Contact.last_modified_time, as_timestamp),
    "email": Property(Contact.email),
    "mobile": Property(Contact.mobile),
    "subscribed": Property(_bits(Contact.subscribed_email, Contact.subscribed_mobile), _by_kind),
    "blocked": Property(_bits(IS_BLOCKED["email"], IS_BLOCKED["mobile"]), _by_kind),
    "is_active": Property(Contact.is_active),
    "double_opt_in": Property(Contact.double_opt_in),
    "double_opt_in_time": Property(Contact.double_opt_in_time, as_timestamp),
}
SUPPRESSION_PARTS = ("subscribed.email", "subscribed.mobile", "blocked.email", "blocked.mobile")
"""Members of attributes that a query may request alone."""
ATTRIBUTE_FILTERS: dict[str, tuple[FilterType, Any]] = {
    "id": (FilterType.INTEGER, Contact.id),
    "email": (FilterType.EMAIL, Contact.email_key),
    "mobile": (FilterType.STRING, Contact.mobile),
    "creation_time": (FilterType.TIMESTAMP, Contact.creation_time),
    "last_modified_time": (FilterType.TIMESTAMP, Contact.last_modified_time),
    "is_active": (FilterType.BOOLEAN, Contact.is_active),
    "double_opt_in": (FilterType.BOOLEAN, Contact.double_opt_in),
    "double_opt_in_time": (FilterType.TIMESTAMP, Contact.double_opt_in_time),
    "subscribed.email": (FilterType.BOOLEAN, Contact.subscribed_email),
    "subscribed.mobile": (FilterType.BOOLEAN, Contact.subscribed_mobile),
    "subscribed": (FilterType.BOOLEAN, and_(Contact.subscribed_email, Contact.subscribed_mobile)),
    "blocked.email": (FilterType.BOOLEAN, IS_BLOCKED["email"]),
    "blocked.mobile": (FilterType.BOOLEAN, IS_BLOCKED["mobile"]),
    "blocked": (FilterType.BOOLEAN, or_(IS_BLOCKED["email"], IS_BLOCKED["mobile"])),
}
"""Filter name -> its type and what it compares. `subscribed` is true when no address is unsubscribed, `blocked` when
one is blocked (docs/contacts.md#blocked-addresses)."""


@lru_cache(maxsize=512)
def contact_shape(value_fields: tuple[FieldSpec, ...] = ()) -> Shape:
    """How contacts of a list with these fields are queried and shown: attributes, then one property per field."""
    values = {field.key: Property(Contact.values, _value_of(field.key)) for field in value_fields}
    filters = {name: Filter(name, kind) for name, (kind, _) in ATTRIBUTE_FILTERS.items()}
    filters |= {field.key: Filter(field.key, _filter_kind(field)) for field in value_fields}
    compared = {name: column for name, (_, column) in ATTRIBUTE_FILTERS.items()}
    compared |= {field.key: compared_value(field) for field in value_fields}
    properties = {**ATTRIBUTES, **values}
    return Shape(
        resource=Resource(
            name="contact", collection="contacts", filters=filters, fields=tuple(properties), parts=SUPPRESSION_PARTS
        ),
        properties=properties,
        keys=(Contact.id, Contact.list_id),
        links=_links,
        order=(Contact.creation_time, Contact.id),
        filters=compared,
    )


def page_contacts(session: Session, contact_list: ListSpec, query: Query) -> Page:
    """A page of the list's contacts. A filter may take a statement of its own, whatever it matches."""
    shape, in_list = contact_shape(contact_list.value_fields), Contact.list_id == contact_list.id
    if not query.conditions:
        if query.counts_only:
            return counted(number_of_contacts(session, contact_list.id))
        return read_page(session, shape, query, in_list)
    with planned_for_values(session):
        formed, others = answered_by_indexes(session, contact_list, query.conditions, counts=query.counts_only)
        return read_page(session, shape, replace(query, conditions=others), in_list, *formed)


def show_contact(contact_list: ListSpec, contact: Sequence[Any], query: Query) -> dict[str, Any]:
    """A contact of the list by its CONTACT_COLUMNS (app/contacts/request_path.py)."""
    return whole_renderer(contact_shape(contact_list.value_fields), query.fields, query.zone)(contact)


def get_contact(session: Session, contact_list: ListSpec, contact_id: int, query: Query) -> dict[str, Any]:
    """One contact of the list. Raises `not_found`."""
    shape = contact_shape(contact_list.value_fields)
    contact = read_one(session, shape, query, {Contact.list_id: contact_list.id, Contact.id: contact_id})
    return existing_contact(contact, contact_list, contact_id)


def existing_contact(contact: AnyContact | None, contact_list: ListSpec, contact_id: int) -> AnyContact:
    """What was found. Raises `not_found` where the list has no such contact."""
    if contact is None:
        raise ServiceError(
            "not_found", detail=f"There is no contact with the id {contact_id} in list {shown_id(contact_list.id)}."
        )
    return contact


def _links(row: Sequence[Any]) -> dict[str, Any]:
    contact_id, list_id, *_ = row
    return {"self": {"href": contact_path(list_id, contact_id)}, "list": {"href": list_path(list_id)}}


def _value_of(key: str) -> Callable[[Mapping[str, Any], ZoneInfo | None], Any]:
    """The value of one field, null if there is none; dates and times of list fields are never shifted."""
    return lambda values, _zone: values.get(key)


def _filter_kind(field: FieldSpec) -> FilterType:
    return FILTER_KINDS.get(field.value_type, FilterType.STRING)


# Lists with their contacts embedded (`expand=contacts`): a fixed number of statements, however many lists there are.
#
# These use cases belong to contacts, because contacts know lists, but lists do not know contacts.


def page_lists_with_contacts(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's lists; `expand=contacts` costs two further statements."""
    page = page_lists(session, account_id, query)
    if "contacts" in query.expand and page.rows:
        lists = lists_by_id(session, account_id, [row.id for row in page.rows])
        contacts = _contacts_of(session, lists.values(), query)
        for row, item in zip(page.rows, page.items, strict=True):
            item["_embedded"] = {"contacts": contacts[row.id]}
    return page


def show_list_with_contacts(session: Session, account_id: int, list_id: int, query: Query) -> dict[str, Any]:
    """One list, with its contacts if `expand` names them. Raises `not_found`."""
    body = show_list(session, account_id, list_id, query)
    if "contacts" in query.expand:
        contact_list = get_list(session, account_id, list_id)
        body["_embedded"] = {"contacts": _contacts_of(session, [contact_list], query)[list_id]}
    return body


def _contacts_of(session: Session, lists: Collection[ListSpec], outer: Query) -> dict[int, Any]:
    """List id -> the envelope of the first default page of its contacts: one statement for all lists. Times are in the
    zone of the outer query, also on the further pages that its links lead to."""
    zone = outer.zone
    query = Query(zone=zone, pairs=(("_tz", zone.key),) if zone else (), cursors=outer.cursors)
    shapes = {contact_list.id: contact_shape(contact_list.value_fields) for contact_list in lists}
    by_list: dict[int, list[Row[Any]]] = {list_id: [] for list_id in shapes}
    for row in _newest(session, shapes, query) if shapes else ():
        by_list[row.list_id].append(row)
    return {list_id: _envelope(shapes[list_id], list_id, rows, query) for list_id, rows in by_list.items()}


def _newest(session: Session, shapes: dict[int, Shape], query: Query) -> Collection[Row[Any]]:
    """The newest contacts of each list, up to the page's limit and one more, by the index that serves one list."""
    # Shapes differ only in their list fields, which all come from the last column: the widest fits every list.
    widest = max(shapes.values(), key=lambda shape: len(shape.properties))
    inner = aliased(Contact)
    newest = (
        select(inner.id)
        .where(inner.list_id == List.id)
        .order_by(inner.creation_time.desc(), inner.id.desc())
        .limit(query.limit + 1)
        .correlate(List)
    )
    statement = (
        page_columns(widest, query)
        .join(List, in_subquery(session, Contact.id, newest))
        .where(List.id.in_(shapes))
        .order_by(*(column.desc() for column in widest.order))
    )
    return session.execute(statement).all()


def _envelope(shape: Shape, list_id: int, rows: list[Row[Any]], query: Query) -> dict[str, Any]:
    path = contacts_path(list_id)
    page = render_page(shape, query, rows)
    cursors = query.cursors and query.cursors.at(path, shape.resource)
    body = envelope(path, replace(query, cursors=cursors), page.ends)
    body["_embedded"] = {"contacts": page.items}
    return body
