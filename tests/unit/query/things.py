"""Rows of the sample resource `sample.RESOURCE`, and queries of its collection."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Engine,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    exists,
    insert,
    not_,
    or_,
    select,
)

from app.db.types import BigId, Json, UtcDateTime
from app.query.compile import count, page, split_page, where

from .sample import Pair, parse

METADATA = MetaData()
THINGS = Table(
    "things",
    METADATA,
    Column("id", BigId, primary_key=True),
    Column("sent", Integer),
    Column("name", String),
    Column("email_key", String),
    Column("type", String),
    Column("is_active", Boolean),
    Column("unsubscribed", Boolean),
    Column("creation_time", UtcDateTime),
    Column("values", Json),
)
BLOCKED = Table("blocked", METADATA, Column("address", String, primary_key=True))


def _row(id_: int, creation_time: str, **columns: Any) -> dict[str, Any]:
    values = {key: columns.pop(key) for key in ("spend", "born", "visit") if key in columns}
    row = dict.fromkeys(THINGS.c.keys()) | {"unsubscribed": False, "values": values}
    return row | columns | {"id": id_, "creation_time": datetime.fromisoformat(creation_time)}


ROWS = [
    _row(1, "2026-01-30T23:59:59Z", sent=1, name="Smith, Jr", email_key="ann@example.com", type="email", is_active=True,
         spend=1.5, born="1990-01-01", visit="2026-05-03T23:59:59"),
    _row(2, "2026-01-31T00:00:00Z", sent=5, name="smith", email_key="bob@example.com", type="email", is_active=True,
         spend=5, born="1990-01-02", visit="2026-05-04"),
    _row(3, "2026-01-31T10:00:00Z", sent=10, name="Smith", type="sms", is_active=False, unsubscribed=True,
         spend=-2, born="1990-01-03", visit="2026-05-04T00:00:00"),
    _row(4, "2026-01-31T23:59:59Z", sent=10, name="", email_key="dee@example.com", type="sms", is_active=False,
         spend=1e300, born="9999-12-31", visit="2026-05-04T10:00:00"),
    _row(5, "2026-02-01T00:00:00Z"),
    _row(6, "2026-02-01T00:00:00Z", sent=2**31 - 1, name="ü%_\\", email_key="eve@example.com", type="email",
         is_active=True, spend=5.25, born="2000-02-29", visit="2026-05-05"),
]  # fmt: skip

VALUES = THINGS.c["values"]
COLUMNS: dict[str, ColumnElement[Any]] = {
    "id": THINGS.c.id,
    "sent": THINGS.c.sent,
    "name": THINGS.c.name,
    "email": THINGS.c.email_key,
    "type": THINGS.c.type,
    "is_active": THINGS.c.is_active,
    "blocked": or_(exists().where(BLOCKED.c.address == THINGS.c.email_key), THINGS.c.id == 5),
    "subscribed.email": not_(THINGS.c.unsubscribed),
    "creation_time": THINGS.c.creation_time,
    "spend": VALUES["spend"].as_float(),
    "born": VALUES["born"].as_string(),
    "visit": VALUES["visit"].as_string(),
}


def fill(engine: Engine) -> None:
    """Creates the tables and their rows."""
    METADATA.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(THINGS), ROWS)
        connection.execute(insert(BLOCKED), [{"address": "bob@example.com"}])


def statement(*pairs: Pair) -> Select[Any]:
    """The select of one page of things, newest first."""
    query = parse(*pairs)
    chosen = select(THINGS.c.id).where(*where(query, COLUMNS))
    return page(chosen, query, [THINGS.c.creation_time, THINGS.c.id])


def find_page(engine: Engine, *pairs: Pair) -> tuple[list[int], bool]:
    """The ids on the page in their order, and whether there is a next page."""
    with engine.connect() as connection:
        ids, has_next = split_page(connection.execute(statement(*pairs)).scalars().all(), parse(*pairs))
    return list(ids), has_next


def find(engine: Engine, *pairs: Pair) -> list[int]:
    """The ids on the page, ascending."""
    return sorted(find_page(engine, *pairs)[0])


def count_things(engine: Engine, *pairs: Pair) -> int:
    """The number of things that match."""
    ordered = select(THINGS.c.id).where(*where(parse(*pairs), COLUMNS)).order_by(THINGS.c.id)
    with engine.connect() as connection:
        return connection.execute(count(ordered)).scalar_one()
