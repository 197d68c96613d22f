"""Finding lists of an account, always with their fields and always in two statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.db.models import List, ListField
from app.errors import ServiceError
from app.lists.fields import ADDRESS_KEYS, FieldSpec, ListSpec

LARGEST_ID = 2**63 - 1


def get_list(session: Session, account_id: int, list_id: int) -> ListSpec:
    """The account's list with that id. Raises `not_found` (decisions: 1.8)."""
    found = lists_by_id(session, account_id, [list_id])
    if list_id not in found:
        raise ServiceError("not_found", detail=f"There is no list {list_id}.")
    return found[list_id]


def lists_by_id(session: Session, account_id: int, list_ids: Iterable[int]) -> dict[int, ListSpec]:
    """The account's lists with these ids; what is not there is left out."""
    wanted = [list_id for list_id in list_ids if list_id <= LARGEST_ID]
    if not wanted:
        return {}
    statement = select(List.__table__).where(List.account_id == account_id, List.id.in_(wanted))
    lists = session.execute(statement).all()
    by_list: defaultdict[int, list[FieldSpec]] = defaultdict(list)
    for field in _fields(session, [row.id for row in lists]):
        key = ADDRESS_KEYS.get(field.type, field.key)
        by_list[field.list_id].append(FieldSpec(field.id, key, field.name, field.type, tuple(field.options)))
    return {row.id: _spec(row, by_list[row.id]) for row in lists}


def _fields(session: Session, list_ids: list[int]) -> Iterable[Row[tuple[ListField]]]:
    table = ListField.__table__
    statement = select(table).where(table.c.list_id.in_(list_ids)).order_by(table.c.position, table.c.id)
    return session.execute(statement).all() if list_ids else ()


def _spec(row: Row[tuple[List]], fields: list[FieldSpec]) -> ListSpec:
    return ListSpec(
        id=row.id,
        account_id=row.account_id,
        name=row.name,
        system=row.system,
        allow_duplicates=row.allow_duplicates,
        stop_words=tuple(row.stop_words),
        creation_time=row.creation_time,
        last_modified_time=row.last_modified_time,
        fields=tuple(fields),
    )
