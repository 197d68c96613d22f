"""Reading transactional groups (docs/endpoints.md#transactional-groups)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.addresses import MESSAGE_TYPES
from app.db.models import Group
from app.db.models.groups import RESULT_COUNTERS
from app.ids import existing
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_one, read_page

COUNTERS = ("sent", *RESULT_COUNTERS)
PROPERTIES = {
    "id": Property(Group.id),
    "type": Property(Group.type),
    "name": Property(Group.name),
    "creation_time": Property(Group.creation_time, as_timestamp),
    "last_sent_time": Property(Group.last_sent_time, as_timestamp),
    **{name: Property(getattr(Group, name)) for name in COUNTERS},
}
FILTERS = {
    "id": Filter("id", FilterType.INTEGER),
    "type": Filter("type", FilterType.ENUM, MESSAGE_TYPES),
    "name": Filter("name", FilterType.STRING),
    "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    "last_sent_time": Filter("last_sent_time", FilterType.TIMESTAMP),
    **{name: Filter(name, FilterType.INTEGER) for name in COUNTERS},
}


def group_path(group_id: int) -> str:
    return f"/v1/transactional-groups/{group_id}"


def _links(row: Row[Any]) -> dict[str, Any]:
    return {"self": {"href": group_path(row.id)}}


GROUPS = Shape(
    resource=Resource(
        name="transactional group",
        collection="transactional-groups",
        filters=FILTERS,
        fields=tuple(PROPERTIES),
    ),
    properties=PROPERTIES,
    keys=(Group.id,),
    links=_links,
    order=(Group.creation_time, Group.id),
)


def require_group(session: Session, account_id: int, group_id: int) -> None:
    """Raises `not_found` unless the account has the group."""
    found = session.execute(select(Group.id).where(Group.account_id == account_id, Group.id == group_id))
    existing(found.one_or_none(), "transactional group", group_id)


def page_groups(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's groups."""
    return read_page(session, GROUPS, query, Group.account_id == account_id)


def get_group(session: Session, account_id: int, group_id: int, query: Query) -> dict[str, Any]:
    """One group. Raises `not_found`."""
    found = read_one(session, GROUPS, query, {Group.account_id: account_id, Group.id: group_id})
    return existing(found, "transactional group", group_id)
