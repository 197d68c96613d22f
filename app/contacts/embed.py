"""Lists with their contacts embedded (`expand=contacts`): a fixed number of statements, however many lists there are.

These use cases belong to contacts, because contacts know lists, but lists do not know contacts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session, aliased

from app.contacts.read import contact_shape
from app.db.index_hints import in_subquery
from app.db.models import Contact, List
from app.lists.fields import ListSpec
from app.lists.find import get_list, lists_by_id
from app.lists.paths import contacts_path
from app.lists.read import page_lists, show_list
from app.query.conditions import Query
from app.query.links import envelope
from app.query.reader import Page, Shape, page_columns, render_page


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
