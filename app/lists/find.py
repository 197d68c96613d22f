"""Finding lists of an account with their fields: one list in one statement, several in two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Row, bindparam, select
from sqlalchemy.orm import Session

from app.db.models import List, ListField, table_of
from app.db.prepared import PreparedStatement
from app.ids import BIGGEST, existing
from app.lists.fields import ADDRESS_KEYS, FieldSpec, ListSpec

LIST_COLUMNS = tuple(column.label(f"list_{column.name}") for column in table_of(List).columns)
FIELD_COLUMNS = (
    ListField.id.label("field_id"),
    ListField.key.label("field_key"),
    ListField.name.label("field_name"),
    ListField.type.label("field_type"),
    ListField.options.label("field_options"),
)
FIELD_ORDER = (ListField.position, ListField.id)
LIST_WITH_FIELDS = PreparedStatement(
    select(*LIST_COLUMNS, *FIELD_COLUMNS)
    .select_from(List)
    .outerjoin(ListField, ListField.list_id == List.id)
    .where(
        List.account_id == bindparam("account_id", type_=BigInteger),
        List.id == bindparam("list_id", type_=BigInteger),
    )
    .order_by(*FIELD_ORDER)
)
"""A row per field, each with the columns of the list; a list without fields has one row, whose `field_id` is null."""


def get_list(session: Session, account_id: int, list_id: int) -> ListSpec:
    """The account's list with that id. Raises `not_found` (docs/requests.md#paths-and-ids)."""
    return existing(find_list(session, account_id, list_id), "list", list_id)


def find_list(session: Session, account_id: int, list_id: int) -> ListSpec | None:
    """The account's list with that id, or None."""
    rows = LIST_WITH_FIELDS.rows(session, account_id=account_id, list_id=min(list_id, BIGGEST))
    return list_of(rows) if rows else None


def list_of(rows: Sequence[Any]) -> ListSpec:
    """The list spec of rows with LIST_COLUMNS and FIELD_COLUMNS, a row per field."""
    return _spec(rows[0], [_field(row) for row in rows if row.field_id is not None])


def lists_by_id(session: Session, account_id: int, list_ids: Iterable[int]) -> dict[int, ListSpec]:
    """The account's lists with these ids, without those that do not exist."""
    wanted = [list_id for list_id in list_ids if list_id <= BIGGEST]
    if not wanted:
        return {}
    statement = select(*LIST_COLUMNS).where(List.account_id == account_id, List.id.in_(wanted))
    lists = session.execute(statement).all()
    by_list: defaultdict[int, list[FieldSpec]] = defaultdict(list)
    for row in _fields(session, [row.list_id for row in lists]):
        by_list[row.list_id].append(_field(row))
    return {row.list_id: _spec(row, by_list[row.list_id]) for row in lists}


def _fields(session: Session, list_ids: list[int]) -> Iterable[Row[Any]]:
    if not list_ids:
        return ()
    statement = select(ListField.list_id, *FIELD_COLUMNS).where(ListField.list_id.in_(list_ids)).order_by(*FIELD_ORDER)
    return session.execute(statement).all()


def _field(row: Row[Any]) -> FieldSpec:
    key = ADDRESS_KEYS.get(row.field_type, row.field_key)
    return FieldSpec(row.field_id, key, row.field_name, row.field_type, tuple(row.field_options))


def _spec(row: Row[Any], fields: list[FieldSpec]) -> ListSpec:
    return ListSpec(
        id=row.list_id,
        account_id=row.list_account_id,
        name=row.list_name,
        system=row.list_system,
        allow_duplicates=row.list_allow_duplicates,
        stop_words=tuple(row.list_stop_words),
        creation_time=row.list_creation_time,
        last_modified_time=row.list_last_modified_time,
        fields=tuple(fields),
    )
