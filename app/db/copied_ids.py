"""The ids of lists and messages in a test account, whose copies have those of their originals, negated
(docs/testing.md#copies)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, bindparam, func, select
from sqlalchemy.orm import Session

from app.db.models import List, Message
from app.db.prepared import PreparedStatement
from app.ids import BIGGEST, copied_id

NO_ID = 0


def shown(column: Any) -> ColumnElement[Any]:
    """A column with the id of a list or message, as everybody outside sees it (`app.ids.shown_id`)."""
    return func.abs(column, type_=column.type)


def _copy(model: type[List] | type[Message], parameter: str) -> ColumnElement[Any]:
    is_copy = (
        model.account_id == bindparam("account_id", type_=BigInteger),
        model.id == bindparam(parameter, type_=BigInteger),
    )
    return select(model.id).where(*is_copy).scalar_subquery().label(parameter)


COPIES = PreparedStatement(select(_copy(List, "list_id"), _copy(Message, "message_id")))


def stored_ids(
    session: Session, account_id: int, *, list_id: int | None = None, message_id: int | None = None
) -> tuple[int | None, int | None]:
    """The ids in the database of the list and the message that a client of a test account names, by those of the
    originals. One of which there is no copy stays as it is. One select."""
    wanted = {"list_id": _id_of_copy(list_id), "message_id": _id_of_copy(message_id)}
    row = COPIES.row(session, account_id=account_id, **wanted)
    return row.list_id or _own(list_id), row.message_id or _own(message_id)


def _id_of_copy(original_id: int | None) -> int:
    return copied_id(original_id) if original_id is not None and 0 < original_id <= BIGGEST else NO_ID


def _own(row_id: int | None) -> int | None:
    """Without the ids that only the database knows."""
    return row_id if row_id is None else max(NO_ID, row_id)
