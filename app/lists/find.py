"""Finding lists of an account with their fields, in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import BigInteger, bindparam, select
from sqlalchemy.orm import Session, aliased

from app.db.expressions import json_rows
from app.db.models import Account, List, ListField, table_of
from app.db.prepared import PreparedStatement
from app.db.public_ids import LIST_ID, has_id
from app.ids import BIGGEST, existing, shown_id
from app.lists.fields import ADDRESS_KEYS, FieldSpec, ListSpec

OFFERED_COLUMNS = ("offered", "offered_name", "offered_description")
"""Columns that a list spec does without. They are for the preferences page alone."""
LIST_COLUMNS = tuple(
    column.label(f"list_{column.name}") for column in table_of(List).columns if column.name not in OFFERED_COLUMNS
)
FIELDS_OF_LIST = (
    select(
        json_rows(*(ListField.position, ListField.id, ListField.key, ListField.name, ListField.type, ListField.options))
    )
    .where(ListField.list_id == List.id)
    .scalar_subquery()
    .label("list_fields")
)
_OWNER = aliased(Account)
HAS_DIGESTS = select(_OWNER.has_digests).where(_OWNER.id == List.account_id).scalar_subquery().label("list_has_digests")
LIST_WITH_FIELDS_COLUMNS = (*LIST_COLUMNS, FIELDS_OF_LIST, HAS_DIGESTS)
LIST_WITH_FIELDS = PreparedStatement(
    select(*LIST_WITH_FIELDS_COLUMNS).where(has_id(List, bindparam("account_id", type_=BigInteger), LIST_ID))
)


def get_list(session: Session, account_id: int, list_id: int) -> ListSpec:
    """The account's list with that id. Raises `not_found` (docs/requests.md#paths-and-ids)."""
    return existing(find_list(session, account_id, list_id), "list", shown_id(list_id))


def find_list(session: Session, account_id: int, list_id: int) -> ListSpec | None:
    """The account's list with that id, as it is stored or as everybody outside names it, or None."""
    row = LIST_WITH_FIELDS.row(session, account_id=account_id, list_id=min(list_id, BIGGEST))
    return list_of(row) if row is not None else None


def list_of(row: Any) -> ListSpec:
    """The list spec of a row with LIST_WITH_FIELDS_COLUMNS."""
    attributes = (
        *(row.list_id, row.list_account_id, row.list_name, row.list_system, row.list_allow_duplicates),
        *(tuple(row.list_stop_words), row.list_creation_time, row.list_last_modified_time),
    )
    return _cached_list(attributes, row.list_fields, row.list_has_automations, bool(row.list_has_digests))


def lists_by_id(session: Session, account_id: int, list_ids: Iterable[int]) -> dict[int, ListSpec]:
    """The account's lists with these ids, without those that do not exist."""
    valid_ids = [list_id for list_id in list_ids if list_id <= BIGGEST]
    if not valid_ids:
        return {}
    statement = select(*LIST_WITH_FIELDS_COLUMNS).where(List.account_id == account_id, List.id.in_(valid_ids))
    return {row.list_id: list_of(row) for row in session.execute(statement)}


@lru_cache(maxsize=512)
def _cached_list(attributes: tuple[Any, ...], fields: str | None, has_automations: bool, has_digests: bool) -> ListSpec:
    """The list spec with these attributes, in its order, and these FIELDS_OF_LIST. Made once for each state of a list:
    to make it costs more than to read it."""
    in_order = sorted(orjson.loads(fields or "[]"))
    values = (*attributes, tuple(_field(*field) for _, *field in in_order), has_automations, has_digests)
    return ListSpec(*values)


def _field(id_: int, key: str, name: str, type_: str, options: Sequence[str]) -> FieldSpec:
    return FieldSpec(id_, ADDRESS_KEYS.get(type_, key), name, type_, tuple(options))
