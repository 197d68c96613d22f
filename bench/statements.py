"""The cost of a statement in each form that app/db offers: `python -m bench.statements [--sqlite]`.

The figures are microseconds of this process for one row, without those of the PostgreSQL server: medians of seven
rounds, in which the forms take turns. A read selects one row by a unique column, a write has 1,000 rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from sqlalchemy import String, bindparam, insert, select, update
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bulk import BulkUpdate, insert_rows
from app.db.database import Database
from app.db.models import Account, SoftBounces, table_of
from app.db.prepared import PreparedStatement
from bench.stack import stack

ROUNDS = 7
READS = 500
ROWS = 1000

TABLE = table_of(SoftBounces)
ACCOUNT = select(Account.id, Account.name, Account.creation_time, Account.time_zone)
ACCOUNT_BY_NAME = ACCOUNT.where(Account.name == bindparam("name", type_=String))
PREPARED_ACCOUNT = PreparedStatement(ACCOUNT_BY_NAME)
NEW_COUNT = BulkUpdate(
    {"row": TABLE.c.id.type, "more": TABLE.c.bounces.type},
    lambda row: update(TABLE).where(TABLE.c.id == row["row"]).values(bounces=row["more"]),
)


def read_object(session: Session) -> None:
    session.expunge_all()
    session.scalars(select(Account).where(Account.name == "bench")).one()


def read_built_anew(session: Session) -> None:
    session.connection().execute(ACCOUNT.where(Account.name == "bench")).one()


def read_built_once(session: Session) -> None:
    session.connection().execute(ACCOUNT_BY_NAME, {"name": "bench"}).one()


def read_prepared(session: Session) -> None:
    PREPARED_ACCOUNT.row(session, name="bench")


def insert_objects(session: Session) -> None:
    session.add_all([SoftBounces(**row) for row in _rows()])
    session.flush()


def insert_core(session: Session) -> None:
    session.connection().execute(insert(TABLE), _rows())


def insert_bulk(session: Session) -> None:
    insert_rows(session, SoftBounces, _rows())


def update_each(session: Session) -> None:
    """The ids are those of the rows that `insert_bulk` has just written."""
    statement = update(TABLE).where(TABLE.c.id == bindparam("row")).values(bounces=bindparam("more"))
    session.connection().execute(statement, [{"row": row, "more": 2} for row in session.info["ids"]])


def update_bulk(session: Session) -> None:
    NEW_COUNT.run(session, [{"row": row, "more": 2} for row in session.info["ids"]])


Form = Callable[[Session], None]
READING_FORMS: Mapping[str, Form] = {
    "select, PreparedStatement": read_prepared,
    "select, Core, built once": read_built_once,
    "select, Core, built anew": read_built_anew,
    "select, ORM object": read_object,
}
WRITING_FORMS: Mapping[str, Form] = {
    "insert, insert_rows": insert_bulk,
    "insert, Core": insert_core,
    "insert, ORM objects": insert_objects,
    "update, BulkUpdate": update_bulk,
    "update, Core, executemany": update_each,
}


class _Undo(Exception):
    """Rolls a transaction back."""


def _rows() -> list[dict[str, Any]]:
    common = {"account_id": 1, "kind": "email", "bounces": 1}
    return [{**common, "address": f"{number}@example.com"} for number in range(ROWS)]


def _time_of_read(database: Database, form: Form) -> float:
    with database.read() as session:
        began = time.process_time()
        for _ in range(READS):
            form(session)
        return (time.process_time() - began) / READS


def _time_of_write(database: Database, form: Form) -> float:
    spent = 0.0
    try:
        with database.write() as transaction:
            if form in (update_each, update_bulk):
                insert_bulk(transaction)
                transaction.info["ids"] = transaction.connection().execute(select(TABLE.c.id)).scalars().all()
            began = time.process_time()
            form(transaction)
            spent = time.process_time() - began
            raise _Undo
    except _Undo:
        return spent / ROWS


def measure(database: Database) -> dict[str, float]:
    """Form -> its median, in microseconds per row."""
    times_by_form: dict[str, list[float]] = {name: [] for name in (*READING_FORMS, *WRITING_FORMS)}
    for _ in range(ROUNDS):
        for name, form in READING_FORMS.items():
            times_by_form[name].append(_time_of_read(database, form))
        for name, form in WRITING_FORMS.items():
            times_by_form[name].append(_time_of_write(database, form))
    return {name: median(times) * 1e6 for name, times in times_by_form.items()}


def main(arguments: list[str]) -> None:
    with stack(postgresql="--sqlite" not in arguments) as parts:
        database = parts.services.database
        with database.write() as transaction:
            transaction.add(Account(id=1, name="bench", creation_time=now(), last_modified_time=now()))
        for name, microseconds in measure(database).items():
            print(f"{name:28} {microseconds:8.1f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
