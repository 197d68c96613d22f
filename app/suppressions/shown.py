"""Suppressions as the API shows them (docs/suppressions.md#the-list). An item has no path of its own: it is named by
the query of its address, its state and its list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS
from app.db.index_hints import planned_for_values
from app.db.prepared import read_rows
from app.ids import shown_id
from app.query.conditions import Equals, FilterCondition, IsNull, Query
from app.query.links import ends_beyond_end, is_beyond_end
from app.query.reader import Convert, Page, Property, Shape, as_timestamp, counted, page_columns, render_page
from app.suppressions.add import NewSuppression
from app.suppressions.entries import COLUMNS, ORDER, count_entries, query_by, select_page
from app.suppressions.filters import SUPPRESSIONS
from app.suppressions.states import UNSUBSCRIBED

PATH = "/v1/suppressions"
Redact = Callable[[str], str]
"""A text of another server without the names of this installation."""


def _shown_list(list_id: int | None, _zone: ZoneInfo | None) -> int | None:
    return shown_id(list_id)


def _links(row: Any) -> dict[str, Any]:
    kind = next(kind for kind in ADDRESS_KINDS if getattr(row, kind) is not None)
    list_id, query = shown_id(row.list_id), {"state": row.state, kind: getattr(row, kind)}
    if row.state == UNSUBSCRIBED:
        query["list_id"] = list_id or ""  # empty for the entry of the whole account
    links = {"self": {"href": f"{PATH}?{urlencode(query, quote_via=quote)}"}}
    if list_id is not None:
        links["list"] = {"href": f"/v1/lists/{list_id}"}
    if row.uuid is not None:
        links["recipient"] = {"href": f"/v1/transactional-sends/{row.uuid}"}
    return links


CONVERSIONS: dict[str, Convert] = {"list_id": _shown_list, "creation_time": as_timestamp}
SHAPE = Shape(
    resource=SUPPRESSIONS,
    properties={name: Property(COLUMNS[name], CONVERSIONS.get(name)) for name in SUPPRESSIONS.fields},
    keys=tuple(COLUMNS[name] for name in ("state", *ADDRESS_KINDS, "list_id", "uuid")),
    links=_links,
    order=ORDER,
)


def page_suppressions(session: Session, account_id: int, query: Query, redact: Redact) -> Page:
    """A page of the account's suppressions, the newest first."""
    if query.counts_only:
        return counted(count_entries(session, account_id, query))
    with planned_for_values(session):
        statement = select_page(session, account_id, query, page_columns(SHAPE, query))
        page = render_page(SHAPE, query, read_rows(session, statement))
    if is_beyond_end(query, len(page.rows)):
        page = replace(page, ends=ends_beyond_end(query, count_entries(session, account_id, query)))
    for item in page.items:
        if item.get("reply") is not None:
            item["reply"] = redact(item["reply"])
    return page


def get_suppression(session: Session, account_id: int, added: NewSuppression, redact: Redact) -> dict[str, Any]:
    """The entry that is there for what was to be added."""
    kind, key = added.address
    in_list = IsNull() if added.list_id is None else Equals(added.list_id)
    list_condition = FilterCondition(SUPPRESSIONS.filters["list_id"], "eq", (in_list,))
    query = Query(conditions=(*query_by(**{kind: key}, state=added.state).conditions, list_condition))
    (item,) = page_suppressions(session, account_id, query, redact).items
    return item
