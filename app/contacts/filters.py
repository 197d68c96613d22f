"""Filters of contacts, each in a form that an index answers (docs/querying.md#what-an-index-answers).

A page is in the order of creation. Values that many contacts have are soon found in that order; values that few or none
have need a separate index, or the whole list is read. Conditions that no index answers are left to `app.query.compile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, false, literal, not_, or_, select, true
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind
from app.contacts.subscriptions import ADDRESS_COLUMNS, SUBSCRIBED_COLUMNS
from app.db.index_hints import MAX_ROWS_TO_SORT, IndexedRows, by_index_or_order, in_subquery, json_contains
from app.db.json_fields import json_date, json_number
from app.db.models import BlockedAddress, Contact
from app.lists.fields import RANGES, FieldSpec, ListSpec
from app.query import compile as compiled
from app.query.conditions import Alternative, Equals, FilterCondition, IsNull, Query
from app.query.times import on_stored_text

MAX_EXACT_INTEGER = 2**53
"""Up to this number a JSON integer and the float of a filter are equal."""
MAX_CONTAINED_VALUES = 100
"""Values of one condition that are looked up in the index of all values."""


def is_blocked(kind: AddressKind) -> ColumnElement[bool]:
    """Whether the account has blocked the contact's address."""
    statement = select(literal(1)).where(
        BlockedAddress.account_id == Contact.account_id,
        BlockedAddress.kind == kind,
        BlockedAddress.address == ADDRESS_COLUMNS[kind],
    )
    return statement.correlate(Contact).exists()


IS_BLOCKED: dict[AddressKind, ColumnElement[bool]] = {kind: is_blocked(kind) for kind in ADDRESS_KINDS}
SUBSCRIBED_FLAGS = SUBSCRIBED_COLUMNS.values()
SWITCHES: dict[str, tuple[Any, Any]] = {
    "is_active": (Contact.is_active, not_(Contact.is_active)),
    "double_opt_in": (Contact.double_opt_in, not_(Contact.double_opt_in)),
    "subscribed": (and_(*SUBSCRIBED_FLAGS), or_(*map(not_, SUBSCRIBED_FLAGS))),
    **{f"subscribed.{kind}": (column, not_(column)) for kind, column in SUBSCRIBED_COLUMNS.items()},
    "blocked": (or_(*IS_BLOCKED.values()), and_(*map(not_, IS_BLOCKED.values()))),
    **{f"blocked.{kind}": (blocked, not_(blocked)) for kind, blocked in IS_BLOCKED.items()},
}
"""Boolean filter -> the conditions for true and for false, written as in the partial indexes. None of the columns is
ever null."""
BLOCKED_KINDS: dict[str, Sequence[AddressKind]] = {
    "blocked": ADDRESS_KINDS,
    **{f"blocked.{kind}": (kind,) for kind in ADDRESS_KINDS},
}


def compared_value(field: FieldSpec) -> ColumnElement[Any]:
    """The value of a list field as the type that filters compare with."""
    match RANGES.get(field.value_type):
        case "number":
            return json_number(Contact.values, field.key)
        case "date":
            return json_date(Contact.values, field.key)
    text: ColumnElement[Any] = Contact.values[field.key].as_string()
    return text


def answered_by_indexes(
    session: Session, contact_list: ListSpec, conditions: Sequence[FilterCondition]
) -> tuple[list[ColumnElement[bool]], tuple[FilterCondition, ...]]:
    """The conditions that an index answers, in the form that it needs, and the others."""
    fields = {field.key: field for field in contact_list.value_fields}
    formed: list[ColumnElement[bool]] = []
    others: list[FilterCondition] = []
    for condition in conditions:
        formed_condition = _formed(session, contact_list, condition, fields.get(condition.filter.name))
        if formed_condition is None:
            others.append(condition)
        else:
            formed.append(formed_condition)
    return formed, tuple(others)


def _formed(
    session: Session, contact_list: ListSpec, condition: FilterCondition, field: FieldSpec | None
) -> ColumnElement[bool] | None:
    name = condition.filter.name
    if field is None and name in SWITCHES:
        return _switch(session, contact_list, condition)
    if condition.op == "ne" or IsNull() in condition.alternatives:
        return None
    if field is not None:
        contained = _contained(session, field, condition)
        return _in_range(session, contact_list, field, condition) if contained is None else contained
    return _modified(session, contact_list, condition) if name == "last_modified_time" else None


def _switch(session: Session, contact_list: ListSpec, condition: FilterCondition) -> ColumnElement[bool]:
    values = {alternative.value for alternative in condition.alternatives if isinstance(alternative, Equals)}
    states = {True, False} - values if condition.op == "ne" else values
    if len(states) != 1:
        return true() if states else false()
    (value,) = states
    if value and condition.filter.name in BLOCKED_KINDS:
        return _has_blocked_address(session, contact_list, condition.filter.name)
    on, off = SWITCHES[condition.filter.name]
    clause: ColumnElement[bool] = on if value else off
    return clause


def _has_blocked_address(session: Session, contact_list: ListSpec, name: str) -> ColumnElement[bool]:
    """By the addresses, while the account has blocked few. If it has blocked many, such contacts are soon found in the
    order of the page."""
    kinds = BLOCKED_KINDS[name]
    is_of_account = BlockedAddress.account_id == contact_list.account_id
    first = select(BlockedAddress.id).where(is_of_account, BlockedAddress.kind.in_(kinds)).limit(MAX_ROWS_TO_SORT + 1)
    if len(session.execute(first).all()) > MAX_ROWS_TO_SORT:
        return or_(*(IS_BLOCKED[kind] for kind in kinds))
    indexed = []
    for kind in kinds:
        addresses = select(BlockedAddress.address).where(is_of_account, BlockedAddress.kind == kind)
        column = ADDRESS_COLUMNS[kind]
        indexed.append(IndexedRows(in_subquery(session, column, addresses), column))
    has_blocked = or_(*(blocked.rows for blocked in indexed))
    return by_index_or_order(session, Contact.id, Contact.list_id == contact_list.id, has_blocked, indexed)


def _modified(session: Session, contact_list: ListSpec, condition: FilterCondition) -> ColumnElement[bool]:
    """A contact that was not modified since its creation is found by its creation time: so a new one costs no entry in
    the index of those that were."""
    matching = _where(condition, Contact.last_modified_time)
    created = and_(_where(condition, Contact.creation_time), matching)
    changed = and_(matching, Contact.last_modified_time != Contact.creation_time)
    indexed = [IndexedRows(changed, Contact.last_modified_time), IndexedRows(created, Contact.creation_time)]
    return by_index_or_order(session, Contact.id, Contact.list_id == contact_list.id, matching, indexed)


def _in_range(
    session: Session, contact_list: ListSpec, field: FieldSpec, condition: FilterCondition
) -> ColumnElement[bool] | None:
    """Answered by the index of the field, if it has one (app/db/field_indexes.py)."""
    if field.value_type not in RANGES:
        return None
    value = compared_value(field)
    matching = _where(condition, value)
    return by_index_or_order(
        session, Contact.id, Contact.list_id == contact_list.id, matching, [IndexedRows(matching, value)]
    )


def _where(condition: FilterCondition, column: Any) -> ColumnElement[bool]:
    (clause,) = compiled.where(Query(conditions=(condition,)), {condition.filter.name: column})
    return clause


def _contained(session: Session, field: FieldSpec, condition: FilterCondition) -> ColumnElement[bool] | None:
    """The condition that a field has one of the values and nothing else, for the index on all values."""
    alternatives: Sequence[Alternative] = condition.alternatives
    if RANGES.get(field.value_type) == "date":
        alternatives = [text for alternative in alternatives for text in on_stored_text(alternative)]
    values = [
        alternative.value
        for alternative in alternatives
        if isinstance(alternative, Equals) and _is_exact(alternative.value)
    ]
    if len(values) != len(alternatives) or not 0 < len(values) <= MAX_CONTAINED_VALUES:
        return None
    contained = [json_contains(session, Contact.values, {field.key: value}) for value in values]
    present = [condition_part for condition_part in contained if condition_part is not None]
    return or_(*present) if present else None


def _is_exact(value: object) -> bool:
    """Whether JSON and the filter agree about equality."""
    return isinstance(value, str) or (isinstance(value, float) and abs(value) < MAX_EXACT_INTEGER)
