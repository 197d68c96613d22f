"""The collection of an account's bulk actions, the newest first."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.db.models import BulkAction
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_page

STATES = ("waiting", "running", "done", "cancelled", "failed")
PROPERTIES = {
    **{name: Property(getattr(BulkAction, name)) for name in ("id", "action", "query", "state", "asked_by")},
    **{name: Property(getattr(BulkAction, name)) for name in ("messages", "done", "left_out")},
    **{name: Property(getattr(BulkAction, name), as_timestamp) for name in ("creation_time", "due_time", "end_time")},
}
FILTERS = (
    Filter("id", FilterType.INTEGER),
    Filter("state", FilterType.ENUM, STATES),
    Filter("asked_by", FilterType.STRING),
    Filter("creation_time", FilterType.TIMESTAMP),
)
BULK_ACTIONS = Shape(
    resource=Resource(
        name="bulk action",
        collection="bulk_actions",
        filters={filter_.name: filter_ for filter_ in FILTERS},
        fields=tuple(PROPERTIES),
    ),
    properties=PROPERTIES,
    keys=(BulkAction.id,),
    links=lambda _: {},
    order=(BulkAction.creation_time, BulkAction.id),
)


def page_actions(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's bulk actions."""
    return read_page(session, BULK_ACTIONS, query, BulkAction.account_id == account_id)
