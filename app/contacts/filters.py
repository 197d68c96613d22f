"""Filters of contacts, each in a form that an index answers (docs/querying.md#what-an-index-answers).

A page is in the order of creation. Values that many contacts have are soon found in that order; values that few or none
have need a separate index, or the whole list is read. Conditions that no index answers are left to `app.query.compile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, literal, not_, or_, select, true
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind
from app.contacts.subscriptions import ADDRESS_COLUMNS, SUBSCRIBED_COLUMNS
from app.db.index_hints import MAX_ROWS_TO_SORT, IndexedCondition, answered_together, in_subquery, json_contains
from app.db.json_fields import json_date, json_number
from app.db.models import BlockedAddress, Contact
from app.lists.fields import RANGES, FieldSpec, ListSpec
from app.query import compile as compiled
from app.query.conditions import (
    Alternative,
    Equals,
    FilterCondition,
    Query,
    is_any_value,
    is_of_one_value,
    is_of_values,
)
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
LOOKED_UP: dict[str, Any] = {"id": Contact.id, "email": Contact.email_key, "mobile": Contact.mobile}
"""Filters of which one value usually has few contacts."""
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
    session: Session, contact_list: ListSpec, conditions: Sequence[FilterCondition], *, counts: bool = False
) -> tuple[list[ColumnElement[bool]], tuple[FilterCondition, ...]]:
    """The conditions that an index answers, in the form that it needs for a page or to count all contacts, and the
    others."""
    fields = {field.key: field for field in contact_list.value_fields}
    plain: list[ColumnElement[bool]] = []
    indexed: list[IndexedCondition] = []
    others: list[FilterCondition] = []
    # Those that probably fewest contacts meet come first; not every field has an index.
    rarest = sorted(conditions, key=lambda each: (each.filter.name in fields, each.filter.name not in LOOKED_UP))
    for condition in rarest:
        formed = _formed(session, contact_list, condition, fields.get(condition.filter.name))
        if formed is None:
            others.append(condition)
        elif isinstance(formed, IndexedCondition):
            indexed.append(formed)
        else:
            plain.append(formed)
    return [*plain, *answered_together(session, Contact.id, indexed, counts=counts)], tuple(others)


def _formed(
    session: Session, contact_list: ListSpec, condition: FilterCondition, field: FieldSpec | None
) -> IndexedCondition | ColumnElement[bool] | None:
    name = condition.filter.name
    if field is None and name in SWITCHES:
        return _switch(session, contact_list, condition)
    if field is None and name == "double_opt_in_time" and (is_any_value(condition) or is_of_values(condition)):
        return _found_by(contact_list, _where(condition, Contact.double_opt_in_time), Contact.double_opt_in_time)
    if not is_of_values(condition):
        return None
    if field is not None:
        contained = _contained(session, field, condition)
        return _in_range(contact_list, field, condition) if contained is None else contained
    if name in LOOKED_UP:
        return _looked_up(contact_list, condition)
    return _modified(contact_list, condition) if name == "last_modified_time" else None


def _found_by(contact_list: ListSpec, matching: ColumnElement[bool], column: Any) -> IndexedCondition:
    """By an index of that column, which has not the order of pages."""
    return IndexedCondition(matching, [_ids_of(contact_list).where(matching).order_by(column)], leads=False)


def _ids_of(contact_list: ListSpec) -> Select[Any]:
    return select(Contact.id.label("id")).where(Contact.list_id == contact_list.id)


def _switch(
    session: Session, contact_list: ListSpec, condition: FilterCondition
) -> IndexedCondition | ColumnElement[bool]:
    values = {alternative.value for alternative in condition.alternatives if isinstance(alternative, Equals)}
    states = {True, False} - values if condition.op == "ne" else values
    if len(states) != 1:
        return true() if states else false()
    (value,) = states
    if value and condition.filter.name in BLOCKED_KINDS:
        return _has_blocked_address(session, contact_list, condition.filter.name)
    on, off = SWITCHES[condition.filter.name]
    clause: ColumnElement[bool] = on if value else off
    if condition.filter.name in BLOCKED_KINDS or value is not (condition.filter.name == "double_opt_in"):
        return clause
    newest = Contact.creation_time.desc(), Contact.id.desc()
    return IndexedCondition(clause, [_ids_of(contact_list).where(clause).order_by(*newest)], leads=True)


def _has_blocked_address(session: Session, contact_list: ListSpec, name: str) -> IndexedCondition | ColumnElement[bool]:
    """By the addresses, while the account has blocked few. If it has blocked many, such contacts are soon found in the
    order of the page."""
    kinds = BLOCKED_KINDS[name]
    is_of_account = BlockedAddress.account_id == contact_list.account_id
    first = select(BlockedAddress.id).where(is_of_account, BlockedAddress.kind.in_(kinds)).limit(MAX_ROWS_TO_SORT + 1)
    if len(session.execute(first).all()) > MAX_ROWS_TO_SORT:
        return or_(*(IS_BLOCKED[kind] for kind in kinds))
    clauses, id_selects = [], []
    for kind in kinds:
        addresses = select(BlockedAddress.address).where(is_of_account, BlockedAddress.kind == kind)
        column = ADDRESS_COLUMNS[kind]
        clauses.append(in_subquery(session, column, addresses))
        id_selects.append(_ids_of(contact_list).where(clauses[-1]).order_by(column))
    return IndexedCondition(or_(*clauses), id_selects, leads=False)


def _looked_up(contact_list: ListSpec, condition: FilterCondition) -> IndexedCondition | None:
    """An id has at most one contact, but many may share an address. A range may have all."""
    column = LOOKED_UP[condition.filter.name]
    found_by = _found_by(contact_list, _where(condition, column), column)
    if column is not Contact.id:
        return found_by
    if is_of_one_value(condition):
        return replace(found_by, leads=True, is_rare=True)
    return found_by if all(isinstance(alternative, Equals) for alternative in condition.alternatives) else None


def _modified(contact_list: ListSpec, condition: FilterCondition) -> IndexedCondition:
    """A contact that was not modified since its creation is found by its creation time: so a new one costs no entry in
    the index of those that were."""
    matching = _where(condition, Contact.last_modified_time)
    created = and_(_where(condition, Contact.creation_time), matching)
    changed = and_(matching, Contact.last_modified_time != Contact.creation_time)
    indexed = (changed, Contact.last_modified_time), (created, Contact.creation_time)
    id_selects = [_ids_of(contact_list).where(rows).order_by(column) for rows, column in indexed]
    return IndexedCondition(matching, id_selects, leads=False)


def _in_range(contact_list: ListSpec, field: FieldSpec, condition: FilterCondition) -> IndexedCondition | None:
    """Answered by the index of the field, if it has one (app/db/field_indexes.py)."""
    if field.value_type not in RANGES:
        return None
    value = compared_value(field)
    return _found_by(contact_list, _where(condition, value), value)


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
