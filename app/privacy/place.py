"""A place where something about people is held, and what erasing it needs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Row
from sqlalchemy.orm import Session

from app.clock import timestamp
from app.db.database import Transaction
from app.db.remains import mark_remains
from app.db.write_turns import WriteTurns
from app.privacy.person import Person
from app.services import Services

Result = TypeVar("Result")
Shown = dict[str, Any]
"""A row as it is handed out: what JSON can hold."""
Pages = Iterator[list[Shown]]


@dataclass(frozen=True, slots=True)
class Eraser:
    """What erasing needs: transactions of one job, between which others write."""

    services: Services
    turns: WriteTurns

    def take(self, rows: int, work: Callable[[Transaction], Result]) -> Result:
        """Runs work that removes so many rows in a transaction of its own, and leaves it to the maintenance to clean
        the files of the database."""

        def marked(transaction: Transaction) -> Result:
            mark_remains(transaction)
            return work(transaction)

        return self.turns.take(rows, marked)


@dataclass(frozen=True, slots=True)
class Place:
    """A place of personal data. `read` hands out what is there of a person, `erase` removes it in short transactions
    and returns the number of what it has removed, by noun. `columns` are those of the tables that it covers, `files`
    those outside of the database."""

    name: str
    holds: str
    columns: Mapping[str, tuple[str, ...]]
    read: Callable[[Services, Session, Person], Pages]
    erase: Callable[[Eraser, Person], Mapping[str, int]]
    files: str = ""
    is_searched: bool = False
    """No index finds its rows: they are looked through, and `erase` writes only where it finds some."""


def shown_rows(rows: Iterable[Row[Any]], *hidden: str) -> list[Shown]:
    """The columns of rows, without those that are hidden."""
    return [{name: shown_value(value) for name, value in row._mapping.items() if name not in hidden} for row in rows]


def shown_value(value: Any) -> Any:
    """A value for JSON: times as the API writes them, bytes in base64."""
    if isinstance(value, datetime):
        return timestamp(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def one_page(rows: list[Shown]) -> Pages:
    """The rows as a page, or no page."""
    if rows:
        yield rows
