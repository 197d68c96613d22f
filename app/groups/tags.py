"""The counts of a tag, as clients see them (docs/tags.md#counts)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from app.errors import ServiceError
from app.groups.read import COUNTERS, counts_by_day
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource

DAYS = 30
"""Days that are shown, up to today."""
PROPERTIES = ("tag", *COUNTERS, "days")
TAG = Resource(
    name="tag",
    collection="",
    filters={name: Filter(name, FilterType.LABEL) for name in PROPERTIES},
    fields=PROPERTIES,
)


def tag_path(tag: str) -> str:
    """The path of a tag."""
    return f"/v1/tags/{quote(tag, safe='')}"


def get_tag(session: Session, account_id: int, tag: str, query: Query, moment: datetime) -> dict[str, Any]:
    """The counts of the tag by day, the newest first, and of all these days. Raises `not_found` for a tag of which
    nothing was counted then."""
    zone = query.zone or ZoneInfo("UTC")
    counts = counts_by_day(session, account_id, moment, DAYS, zone=zone, tag=tag) if "\x00" not in tag else {}
    totals = {name: sum(day_counts[name] for day_counts in counts.values()) for name in COUNTERS}
    days = [{"day": day.isoformat(), **counts[day]} for day in sorted(counts, reverse=True)]
    if not any(totals.values()):
        raise ServiceError("not_found", detail=f"Nothing was counted of this tag in the last {DAYS} days.")
    whole = {"tag": tag, **totals, "days": days}
    names = PROPERTIES if query.fields is None else query.fields
    properties = {name: value for name, value in whole.items() if name in names}
    return {**properties, "_links": {"self": {"href": tag_path(tag)}}}
