"""Lookup of an account's row by its name, else its id, as an operator types it."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import Automation, Group, List, Message
from app.errors import ServiceError
from app.ids import copied_id, id_in

Named = TypeVar("Named", Automation, Group, List, Message)


def find_by_name(session: Session, model: type[Named], account_id: int, name: str) -> Named | None:
    """The account's row with exactly that name, the oldest if there are several."""
    if "\0" in name:
        return None  # no column stores it, and PostgreSQL refuses to compare it
    statement = select(model).where(model.account_id == account_id, model.name == name).order_by(model.id)
    return session.scalars(statement.limit(1)).first()


def find_by_name_or_id(session: Session, model: type[Named], account_id: int, wanted: str, noun: str) -> Named:
    """The account's row with that name, else with that id. Raises `ServiceError` (`invalid_id`)."""
    row = find_by_name(session, model, account_id, wanted)
    if row is None and (row_id := id_in(wanted)) is not None:
        ids = (row_id, copied_id(row_id))  # In a test account the list or message may be a copy.
        row = session.scalars(select(model).where(model.account_id == account_id, model.id.in_(ids))).first()
    if row is None:
        raise ServiceError("invalid_id", field=noun, detail=f"the account has no {noun} {wanted!r}")
    return row
