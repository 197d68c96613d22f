"""Lookup of an account's rows by their id, and by their names or ids, as an operator types them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from app.db.expressions import in_json
from app.db.models import Automation, Group, List, Message
from app.db.public_ids import has_any_id, has_id
from app.errors import ServiceError
from app.ids import existing, id_in, shown_id

Named = TypeVar("Named", Automation, Group, List, Message)
Owned = TypeVar("Owned", bound=Any)
"""A model of rows that belong to an account."""


def find_with_id(session: Session, model: type[Owned], account_id: int | None, row_id: int, noun: str) -> Owned:
    """The account's row with that id, or that of any account for None. Raises `not_found`."""
    statement = select(model).where(model.id == row_id)
    if account_id is not None:
        statement = statement.where(model.account_id == account_id)
    row: Owned | None = session.scalars(statement).first()
    return existing(row, noun, row_id)


def find_by_name(session: Session, model: type[Named], account_id: int, name: str) -> Named | None:
    """The account's row with exactly that name, the oldest if there are several."""
    if "\0" in name:
        return None  # no column stores it, and PostgreSQL refuses to compare it
    statement = select(model).where(model.account_id == account_id, model.name == name).order_by(model.id)
    return session.scalars(statement.limit(1)).first()


def find_by_name_or_id(session: Session, model: type[Named], account_id: int, name_or_id: str, noun: str) -> Named:
    """The account's row with that name, else with that id. Raises `ServiceError` (`invalid_id`)."""
    row = find_by_name(session, model, account_id, name_or_id)
    if row is None and (row_id := id_in(name_or_id)) is not None:
        row = session.scalars(select(model).where(has_id(model, account_id, row_id))).first()
    if row is None:
        raise ServiceError("invalid_id", field=noun, detail=f"the account has no {noun} {name_or_id!r}")
    return row


def find_all_by_name_or_id(
    session: Session, model: type[Named], account_id: int, names_or_ids: Iterable[str]
) -> dict[str, Named]:
    """The account's rows with these names, else with these ids, by what names them; of several with one name the
    oldest. One select."""
    names = sorted(name for name in {*names_or_ids} if "\0" not in name)
    if not names:
        return {}
    ids = [row_id for name in names if (row_id := id_in(name)) is not None]
    is_named = and_(model.account_id == account_id, in_json(model.name, names))
    statement = select(model).where(or_(is_named, has_any_id(model, account_id, ids)) if ids else is_named)
    rows = session.scalars(statement.order_by(model.id.desc())).all()
    return {**{str(shown_id(row.id)): row for row in rows}, **{row.name: row for row in rows if row.name}}
