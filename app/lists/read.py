"""Reading lists (specification: List, Endpoints Lists)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.contacts.embed import contacts_of_lists
from app.db.models import List
from app.errors import ServiceError
from app.lists.find import get_list, lists_by_id
from app.lists.paths import contacts_path, list_path
from app.query.conditions import Query
from app.query.fields import Filter, Kind, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_one, read_page

KINDS = {
    "id": Kind.INTEGER,
    "name": Kind.STRING,
    "creation_time": Kind.TIMESTAMP,
    "last_modified_time": Kind.TIMESTAMP,
}
PROPERTIES = {
    "id": Property(List.id),
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
    ),
    properties=PROPERTIES,
    keys=(List.id,),
    links=_links,
    order_by=(List.creation_time.desc(), List.id.desc()),
)


def page_lists(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's lists; `expand=contacts` costs three further statements, however many lists there are."""
    page = read_page(session, LISTS, query, List.account_id == account_id)
    if "contacts" in query.expand and page.rows:
        lists = lists_by_id(session, account_id, [row.id for row in page.rows])
        contacts = contacts_of_lists(session, lists.values(), query.zone)
        for row, item in zip(page.rows, page.items, strict=True):
            item["_embedded"] = {"contacts": contacts[row.id]}
    return page


def require_list(session: Session, account_id: int, list_id: int) -> None:
    """Raises `not_found` unless the account has the list."""
    found = session.execute(select(List.id).where(List.account_id == account_id, List.id == list_id))
    if found.one_or_none() is None:
        raise ServiceError("not_found", detail=f"There is no list {list_id}.")


def show_list(session: Session, account_id: int, list_id: int, query: Query) -> dict[str, Any]:
    """One list, with its contacts where `expand` asks. Raises `not_found`."""
    found = read_one(session, LISTS, query, {List.account_id: account_id, List.id: list_id})
    if found is None:
        raise ServiceError("not_found", detail=f"There is no list {list_id}.")
    if "contacts" in query.expand:
        lst = get_list(session, account_id, list_id)
        found["_embedded"] = {"contacts": contacts_of_lists(session, [lst], query.zone)[list_id]}
    return found
