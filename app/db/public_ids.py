"""The ids of lists and messages as everybody outside names them (docs/testing.md#copies).

A test account's copies of them have the ids of their originals, negated. Here they are found and shown by those of the
originals, so that nothing else has to know of copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, func

from app.db.expressions import in_json
from app.ids import copied_id

LIST_ID = bindparam("list_id", type_=BigInteger)


def has_id(model: Any, account_id: Any, row_id: Any) -> ColumnElement[bool]:
    """The condition that it is the account's row with this id, as it is stored or as everybody outside names it: no
    account has both a copy and its original."""
    return and_(model.account_id == account_id, model.id.in_([row_id, copied_id(row_id)]))


def has_any_id(model: Any, account_id: int, ids: Iterable[int]) -> ColumnElement[bool]:
    """The condition that it is one of the account's rows with these ids, stored or public."""
    id_list = [*ids]
    return and_(model.account_id == account_id, in_json(model.id, [*id_list, *map(copied_id, id_list)]))


def public_id(column: Any) -> ColumnElement[Any]:
    """A column with the id of a list or message, as everybody outside sees it (`app.ids.shown_id`)."""
    return func.abs(column, type_=column.type)
