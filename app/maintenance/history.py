"""The months of the history: begun in a range of ids of their own, shown, and dropped
(docs/decisions/019-history-in-ranges.md)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import UnaryExpression, delete, func, select
from sqlalchemy.orm import Session

from app.audit.record import Act, record_at_once
from app.clock import now
from app.db import history_ranges
from app.db.database import Database
from app.db.expressions import in_json
from app.db.history_ranges import IdRange, RangeInUse, TableInUse
from app.db.models import Recipient, RecipientLabel, Send
from app.errors import ServiceError
from app.services import Services

logger = logging.getLogger(__name__)

MONTH = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])")
MONTH_TOLERANCE = timedelta(hours=1)
"""A range that begins or ends so shortly after the turn of a month counts with the month that it is meant for."""
CHUNK = 1000
"""Sends deleted in one transaction."""
NEWEST_FIRST = (Recipient.id.desc(),)


class StoredMonths(NamedTuple):
    """A range with rows: those of the month `last`, and of all from `first` on where a range has several months."""

    first: str
    last: str
    ids: IdRange

    def __str__(self) -> str:
        return self.last if self.first == self.last else f"{self.first} to {self.last}"


def stored_months(session: Session) -> list[StoredMonths]:
    """The ranges that have rows, the oldest first."""
    return [stored for id_range in history_ranges.id_ranges(session) if (stored := _months_of(session, id_range))]


def prepare(database: Database) -> None:
    """Makes ranges ahead, and begins the next one if the current one began in an earlier month."""
    try:
        history_ranges.make_ranges_ahead(database)
        with database.read() as session:
            current = history_ranges.range_of_new_ids(session)
            stored = _months_of(session, current) if current else None
        if stored and stored.first < _month(now()):
            history_ranges.begin_range(database, stored.ids)
            logger.info("started a new range of the history", extra={"first_id": stored.ids.end})
    except TableInUse as error:
        logger.warning("cannot prepare the ranges of the history: %s", error)


def find_month(session: Session, month: str) -> StoredMonths:
    """The range in which the month is stored; of two, the one that ends with it. Raises `ServiceError`
    (`invalid_id`)."""
    if not MONTH.fullmatch(month):
        raise _refused(f"{month!r} is not a month of the form 2026-03")
    containing = [stored for stored in stored_months(session) if stored.first <= month <= stored.last]
    if not containing:
        raise _refused(f"nothing is stored of {month}")
    return min(containing, key=lambda stored: stored.last)


def require_month(session: Session, month: str) -> StoredMonths:
    """The range whose last month that is, to be dropped. Raises `ServiceError` (`invalid_id`) also for a month that is
    not past, or that cannot be dropped by itself."""
    if MONTH.fullmatch(month) and month >= _month(now()):
        raise _refused(f"{month} is not over yet")
    stored = find_month(session, month)
    if stored.last != month:
        raise _refused(f"{month} is stored together with {stored}: drop-month {stored.last} drops all of them")
    return stored


def drop_month(services: Services, month: str) -> StoredMonths:
    """Drops the recipients of a past month, with their timelines. Raises `ServiceError` (`invalid_id`)."""
    with services.database.read() as session:
        stored = require_month(session, month)
    act = Act("history.dropped", object_id=str(stored), counts={"recipients": stored.ids.rows})
    record_at_once(services.database, act)
    # Nothing may have been sent since the month ended; what comes next must not go into a range that is dropped. On
    # SQLite, the range ends with the last recipient of the month.
    prepare(services.database)
    try:
        history_ranges.drop_range(services.database, stored.ids)
    except RangeInUse as error:
        raise _refused(f"{stored} cannot be dropped: {error}") from error
    except TableInUse as error:
        raise _refused(f"{stored} cannot be dropped now: {error}") from error
    return stored


def drop_before(services: Services, limit: datetime) -> int:
    """Drops the ranges all of whose recipients are from before the limit, and past ones without any; returns their
    number. One that is in use is left until the next time."""
    dropped = 0
    with services.database.read() as session:
        current = history_ranges.range_of_new_ids(session)
        past = [
            id_range
            for id_range in history_ranges.id_ranges(session)
            if current is not None and id_range.end <= current.first
        ]
        old = [
            id_range
            for id_range in past
            if (newest := _time(session, id_range, NEWEST_FIRST)) is None or newest < limit
        ]
    for id_range in old:
        if services.stopping.is_set():
            break
        try:
            history_ranges.drop_range(services.database, id_range)
            dropped += 1
            logger.info("dropped a range of the history", extra={"first_id": id_range.first, "rows": id_range.rows})
        except (RangeInUse, TableInUse) as error:
            logger.warning("cannot drop a range of the history now: %s", error)
    return dropped


def delete_sends_before_history(services: Services) -> int:
    """Deletes sends that are older than all recipients, with their contents, links and attachments, in chunks: those
    whose recipients were dropped. Returns their number."""
    return _delete_before(services, Send.id, Recipient.send_id)


def delete_labels_before_history(services: Services) -> int:
    """Deletes the labels of recipients that were dropped, which are older than all others. Returns their number."""
    return _delete_before(services, RecipientLabel.recipient_id, Recipient.id)


def _delete_before(services: Services, key: Any, history_key: Any) -> int:
    """Deletes the rows, in chunks, whose key is before the least one that recipients have."""
    oldest = select(func.min(history_key)).scalar_subquery()
    chunk = select(key).where(key < oldest).order_by(key).limit(CHUNK)
    total, deleted = 0, CHUNK
    while deleted == CHUNK and not services.stopping.is_set():
        with services.database.write() as transaction:
            ids = list(transaction.scalars(chunk))
            if ids:
                transaction.connection().execute(delete(key.class_).where(in_json(key, ids)))
        deleted = len(ids)
        total += deleted
    return total


def _months_of(session: Session, ids: IdRange) -> StoredMonths | None:
    """None for a range without rows."""
    times = [_time(session, ids, [Recipient.id.asc()]), _time(session, ids, NEWEST_FIRST)]
    if times[0] is None or times[1] is None:
        return None
    first, last = _month(times[0] + MONTH_TOLERANCE), _month(times[1] - MONTH_TOLERANCE)
    if first > last:
        first = last = _month(times[1])
    return StoredMonths(first, last, ids)


def _time(session: Session, ids: IdRange, order: Iterable[UnaryExpression[int]]) -> datetime | None:
    """When the first recipient in that order was accepted."""
    rows = select(Recipient.creation_time).where(Recipient.id >= ids.first, Recipient.id < ids.end)
    return session.scalars(rows.order_by(*order).limit(1)).first()


def _month(moment: datetime) -> str:
    return moment.strftime("%Y-%m")


def _refused(detail: str) -> ServiceError:
    return ServiceError("invalid_id", field="month", detail=detail)
