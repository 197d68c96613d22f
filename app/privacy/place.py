"""A place where something about people is held, and what erasing it needs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, CursorResult, Row, delete, false, select
from sqlalchemy.orm import Session

from app.clock import timestamp
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Base, table_of
from app.db.models.base import ADDRESS, KIND_COLUMN, PLACE
from app.db.remains import mark_remains
from app.db.write_turns import WriteTurns
from app.privacy.person import Person
from app.services import Services

Result = TypeVar("Result")
Shown = dict[str, Any]
"""A row as it is handed out: what JSON can hold."""
Pages = Iterator[list[Shown]]
Rows = Sequence[Row[Any]]
Find = Callable[[Session, Person], Iterable[Rows]]
"""Finds what is there of a person, page by page."""
Remove = Callable[[Transaction, Services, Person, Rows], int]
"""Removes one page of it; returns how much that was."""


@dataclass(frozen=True, slots=True)
class Eraser:
    """What erasing needs: transactions of one job, between which others write."""

    services: Services
    turns: WriteTurns

    def take(self, rows: int, work: Callable[..., Result], *arguments: Any) -> Result:
        """Runs work that removes so many rows in a transaction of its own, and leaves it to the maintenance to clean
        the files of the database."""

        def marked(transaction: Transaction) -> Result:
            mark_remains(transaction)
            return work(transaction, *arguments)

        return self.turns.take(rows, marked)


@dataclass(frozen=True, slots=True)
class Place:
    """A place of personal data. `read` hands out what is there of a person, `erase` removes it in short transactions
    and returns the number of what it has removed, by noun; it does not write where nothing is. The columns of the
    place are marked with its name (`app.db.models.base.personal`)."""

    name: str
    holds: str
    read: Callable[[Services, Session, Person], Pages]
    erase: Callable[[Eraser, Person], Mapping[str, int]]


def shown_row(row: Row[Any], *hidden: str) -> Shown:
    """The columns of a row, without those that are hidden and those of its place among pages."""
    columns = row._asdict().items()
    return {name: _json_value(value) for name, value in columns if name not in hidden and not name.startswith("place_")}


def _json_value(value: Any) -> Any:
    """A value for JSON: times as the API writes them, bytes in base64."""
    if isinstance(value, datetime):
        return timestamp(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def place_of_rows(
    name: str,
    holds: str,
    find: Find,
    remove: Remove,
    *,
    noun: str = "",
    show: Callable[[Row[Any]], Shown] = shown_row,
    prepare: Callable[[Eraser, Person], object] = lambda *_: None,
) -> Place:
    """A place whose pages are each removed in one transaction. `noun` is what its rows are called, if that is not its
    name; `prepare` is called before a page is removed."""

    def read(_services: Services, session: Session, person: Person) -> Pages:
        return ([show(row) for row in rows] for rows in find(session, person) if rows)

    def erase(eraser: Eraser, person: Person) -> Mapping[str, int]:
        erased = 0
        with eraser.services.database.read() as session:
            for rows in filter(None, find(session, person)):
                prepare(eraser, person)
                erased += eraser.take(len(rows), remove, eraser.services, person, rows)
        return {noun or name.replace("_", " "): erased}

    return Place(name, holds, read, erase)


def place_of_addresses(name: str, holds: str, model: type[Base], *columns: str, noun: str = "") -> Place:
    """A place of rows that are found by their address, and deleted. `columns` are what is handed out of them."""

    def find(session: Session, person: Person) -> Iterable[Rows]:
        yield rows_with_address(session, person, model, *columns)

    def remove(transaction: Transaction, _services: Services, _person: Person, rows: Rows) -> int:
        return delete_rows(transaction, table_of(model).c.id, [row.id for row in rows])

    return place_of_rows(name, holds, find, remove, noun=noun)


def rows_with_address(session: Session, person: Person, model: type[Base], *columns: str) -> Rows:
    """The named columns of the rows that have the person's address."""
    table = table_of(model)
    statement = select(*(table.c[name] for name in columns)).where(*with_address(model, person))
    return session.execute(statement.order_by(table.c.id)).all()


def with_address(
    model: type[Base], person: Person, written: Collection[str] | None = None
) -> list[ColumnElement[bool]]:
    """The conditions on rows of a model that a column, which is marked as such, has the person's address, as it is
    written or in one of its forms: an index answers them. No row meets them if the model has no addresses of that
    kind."""
    columns, forms = table_of(model).c, person.forms if written is None else written
    marked = {column.info.get(ADDRESS): column for column in columns}
    kind_conditions = [columns.kind == person.kind] if KIND_COLUMN in marked else []
    address = marked.get(KIND_COLUMN, marked.get(person.kind))
    return (
        [false()]
        if address is None
        else [columns.account_id == person.account_id, *kind_conditions, address.in_(forms)]
    )


def emptied(model: type[Base], place: str) -> dict[str, None]:
    """The nullable columns of a model that are marked with the place, as they are once their person is forgotten."""
    columns = table_of(model).columns
    return {column.name: None for column in columns if column.nullable and column.info.get(PLACE) == place}


def delete_rows(transaction: Transaction, column: Column[Any], values: Collection[int]) -> int:
    """Deletes the rows whose column has one of the values; returns how many there were."""
    statement = delete(column.table).where(in_json(column, values))
    deleted: CursorResult[Any] = transaction.connection().execute(statement)
    return deleted.rowcount
