"""Common parts of all tables: names of constraints, ids, and the account that every row belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, cast

from sqlalchemy import ForeignKey, Index, MetaData, String, Table, TextClause, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.clock import this_second
from app.db.types import BigId, UtcDateTime

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


AUTOINCREMENT = {"sqlite_autoincrement": True}
"""No id is ever reused, on SQLite either."""


def partial_index(
    name: str, *columns: str | TextClause, where: str, sqlite_where: str | None = None, unique: bool = False
) -> Index:
    """An index of the rows that meet the condition. `sqlite_where` is the condition as SQLite writes it, where that
    differs."""
    sqlite = text(sqlite_where or where)
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=sqlite)


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar = {datetime: UtcDateTime}
    __table_args__: Any = AUTOINCREMENT


def table_of(model: type[Base]) -> Table:
    """The table of a model. Statements that write it bypass the ORM, which would look up each changed row among the
    objects of its session."""
    return cast(Table, model.__table__)


Identity = Annotated[int, mapped_column(BigId, primary_key=True, autoincrement=True)]
BigInt = Annotated[int, mapped_column(BigId)]
PLACE = "place"
"""Marks each column of text, bytes or JSON: the place of what is held about people that it belongs to
(docs/privacy.md#what-is-held-about-a-person), or None. A test asks for it."""
ADDRESS = "address"
"""Marks a column of addresses by which a person is found: their kind, `email` or `mobile`, or `KIND_COLUMN`."""
KIND_COLUMN = "kind"
"""The kind of each address is in the column of this name."""
CONFIDENTIAL = "confidential"
"""Marks a column whose values the audit log does not show: secrets, addresses and content."""
ENCRYPTED = "encrypted"
"""Marks a column that holds secrets."""


def personal(place: str, address: str | None = None) -> dict[str, Any]:
    """The mark of a column that holds something about the people whom messages go to. A nullable one is emptied when
    its person is forgotten, unless the row goes."""
    return {PLACE: place, ADDRESS: address}


IMPERSONAL = {PLACE: None}
"""The mark of a column that holds nothing about the people whom messages go to: what operators and integrators define,
names of our own, and ids. The senders of messages are among them (docs/privacy.md#what-is-not-removed)."""
Impersonal = Annotated[str, mapped_column(info=IMPERSONAL)]
"""Text that is `IMPERSONAL`."""
Confidential = Annotated[str, mapped_column(info={**IMPERSONAL, CONFIDENTIAL: True})]
"""Text that is `IMPERSONAL` and `CONFIDENTIAL`."""
Encrypted = Annotated[str, mapped_column(String, info={**IMPERSONAL, CONFIDENTIAL: True, ENCRYPTED: True})]
"""A secret under a key derived from SECRET_KEY, as `app.secret_keys.encrypt` returns it; `secrets rotate`
encrypts it anew."""
AccountId = Annotated[int, mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))]


class Timestamps:
    """The two times that resources show, cut to the second."""

    creation_time: Mapped[datetime]
    last_modified_time: Mapped[datetime]


def apply_changes(row: Base, attributes: Mapping[str, Any]) -> bool:
    """Sets the attributes that differ, and `last_modified_time` if there are any; returns whether there were."""
    has_changed = set_different(row, attributes)
    if has_changed and isinstance(row, Timestamps):
        row.last_modified_time = this_second()
    return has_changed


def set_different(row: Base, attributes: Mapping[str, Any]) -> bool:
    """Sets the attributes that differ; returns whether there were any."""
    different = {name: value for name, value in attributes.items() if getattr(row, name) != value}
    for name, value in different.items():
        setattr(row, name, value)
    return bool(different)
