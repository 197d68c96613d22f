"""Reading lists for the API, without their contacts (`app.contacts.read` adds those)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.db.models import List
from app.db.public_ids import has_id, public_id
from app.ids import existing, shown_id
from app.lists.paths import contacts_path, list_path
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_one, read_page

KINDS = {
    "id": FilterType.INTEGER,
    "name": FilterType.STRING,
    "creation_time": FilterType.TIMESTAMP,
    "last_modified_time": FilterType.TIMESTAMP,
}
PROPERTIES = {
    "id": Property(public_id(List.id)),
    "name": Property(List.name),
    "creation_time": Property(List.creation_time, as_timestamp),
    "last_modified_time": Property(List.last_modified_time, as_timestamp),
}


def _links(row: Row[Any]) -> dict[str, Any]:
    return {"self": {"href": list_path(row.id)}, "contacts": {"href": contacts_path(row.id)}}


LISTS = Shape(
    resource=Resource(
        name="list",
        collection="lists",
        filters={name: Filter(name, kind) for name, kind in KINDS.items()},
        fields=tuple(PROPERTIES),
        expands=("contacts",),
        copied=("id",),
    ),
    properties=PROPERTIES,
    keys=(List.id,),
    links=_links,
    order=(List.creation_time, List.id),
    filters={"id": List.id},
)
WITH_COPIES = replace(LISTS, order=(List.creation_time, PROPERTIES["id"].column))
"""The lists of a test account, in the order of the ids that they are shown with. No index has that order."""


def page_lists(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's lists."""
    return read_page(session, WITH_COPIES if query.is_test else LISTS, query, List.account_id == account_id)


def require_list(session: Session, account_id: int, list_id: int) -> int:
    """The stored id of the account's list with this id in a path. Raises `not_found`."""
    stored_id = session.scalars(select(List.id).where(has_id(List, account_id, list_id)))
    return existing(stored_id.one_or_none(), "list", list_id)


def show_list(session: Session, account_id: int, list_id: int, query: Query) -> dict[str, Any]:
    """One list. Raises `not_found`."""
    contact_list = read_one(session, LISTS, query, {List.account_id: account_id, List.id: list_id})
    return existing(contact_list, "list", shown_id(list_id))
