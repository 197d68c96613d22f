"""What a form offers to be chosen by its name: lists and groups of an account."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.db.public_ids import has_any_id
from app.ids import shown_id

MAX_OFFERED = 200
"""Names that a form offers."""


class Offer(NamedTuple):
    """A row that can be chosen, with its id as everybody outside sees it."""

    id: int
    name: str | None

    @property
    def label(self) -> str:
        """What people read in place of the id."""
        return self.name or f"unnamed ({self.id})"


def newest(session: Session, model: Any, account_id: int, *conditions: ColumnElement[bool]) -> Sequence[Offer]:
    """The newest rows of the account, up to `MAX_OFFERED`: one statement."""
    rows = select(model.id, model.name).where(model.account_id == account_id, *conditions)
    order = model.creation_time.desc(), model.id.desc()
    return [Offer(shown_id(row.id), row.name) for row in session.execute(rows.order_by(*order).limit(MAX_OFFERED))]


def chosen(session: Session, model: Any, account_id: int, ids: Collection[int]) -> Sequence[Offer]:
    """The account's rows with these ids: one statement."""
    if not ids:
        return []
    rows = select(model.id, model.name).where(has_any_id(model, account_id, ids))
    return [Offer(shown_id(row.id), row.name) for row in session.execute(rows)]
