"""The filters of suppressions, each in a form that an index answers if there is one
(docs/querying.md#what-an-index-answers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, String, and_, case, false, func, literal, not_, null, or_, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, NormalizedAddress, all_forms
from app.db.address_forms import PREFIX, find_digests
from app.db.expressions import has_part, in_json
from app.db.index_hints import IndexedCondition, answered_together
from app.db.models import BlockedAddress, Unsubscriber
from app.db.types import BigId
from app.query import compile as compiled
from app.query.conditions import Equals, FilterCondition, IsNull, Query
from app.query.fields import Filter, FilterType, Resource
from app.suppressions.states import BLOCKED, STATES, UNSUBSCRIBED

Model = type[Unsubscriber | BlockedAddress]
MODELS: dict[str, Model] = {UNSUBSCRIBED: Unsubscriber, BLOCKED: BlockedAddress}
"""State -> its table."""
SUPPRESSIONS = Resource(
    name="suppression",
    collection="suppressions",
    filters={
        **{kind: Filter(kind, FilterType.EMAIL if kind == "email" else FilterType.STRING) for kind in ADDRESS_KINDS},
        "state": Filter("state", FilterType.ENUM, STATES),
        "list_id": Filter("list_id", FilterType.INTEGER),
        "reason": Filter("reason", FilterType.STRING),
        "uuid": Filter("uuid", FilterType.UUID),
        "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    },
    fields=("state", "email", "mobile", "list_id", "reason", "reply", "uuid", "creation_time"),
    copied=("list_id",),
)
"""What is unsubscribed or blocked; only the latter has a reason and a reply, and only the former may have a list."""
CONSOLE_SUPPRESSIONS = replace(
    SUPPRESSIONS, filters={**SUPPRESSIONS.filters, "reply": Filter("reply", FilterType.STRING)}
)
"""With a filter by a part of the reply, for people and bulk actions. No index answers it."""
INDEXED = {UNSUBSCRIBED: ("list_id", "uuid"), BLOCKED: ("reason", "uuid")}
"""State -> the columns that begin an index of its table."""


def columns_of(state: str) -> Mapping[str, ColumnElement[Any]]:
    """What there is of an entry, by name: the same of both tables."""
    model, is_blocked = MODELS[state], state == BLOCKED
    no_text: ColumnElement[Any] = sql_cast(null(), String)
    return {
        "state": literal(state, String),
        "rank": literal(STATES.index(state), BigId),
        "id": model.id.expression,
        "kind": model.kind.expression,
        "address": model.address.expression,
        **{kind: case((model.kind == kind, model.address)) for kind in ADDRESS_KINDS},
        "list_id": sql_cast(null(), BigId) if is_blocked else Unsubscriber.list_id.expression,
        "reason": BlockedAddress.reason.expression if is_blocked else no_text,
        "reply": BlockedAddress.reply.expression if is_blocked else no_text,
        "uuid": model.uuid.expression,
        "creation_time": model.creation_time.expression,
    }


def states_of(query: Query) -> Sequence[str]:
    """The states that meet all conditions on the state."""
    states: Sequence[str] = STATES
    for condition in query.conditions:
        if condition.filter.name == "state":
            named = {alternative.value for alternative in condition.alternatives if isinstance(alternative, Equals)}
            states = [state for state in states if (state in named) is (condition.op != "ne")]
    return states


def is_listed(state: str, account_id: int) -> tuple[ColumnElement[bool], ...]:
    """The account's entries without those of forgotten people, of which a digest is kept that is of no use elsewhere
    (docs/privacy.md#what-is-kept)."""
    model = MODELS[state]
    return model.account_id == account_id, ~model.address.startswith(PREFIX)


def matching(
    session: Session, account_id: int, state: str, query: Query, *, counts: bool = False
) -> list[ColumnElement[bool]]:
    """The conditions of the query on the entries with that state, beside those on the state, for a page or to count all
    entries."""
    plain: list[ColumnElement[bool]] = []
    indexed: list[IndexedCondition] = []
    for condition in query.conditions:
        formed = _formed(session, account_id, state, condition)
        if isinstance(formed, IndexedCondition):
            indexed.append(formed)
        elif formed is not None:
            plain.append(formed)
    return [*plain, *answered_together(session, MODELS[state].id, indexed, counts=counts)]


def _formed(
    session: Session, account_id: int, state: str, condition: FilterCondition
) -> IndexedCondition | ColumnElement[bool] | None:
    name = condition.filter.name
    if name == "state":
        return None
    if name == "reply":
        return quoting(condition) if state == BLOCKED else false()
    if name in ADDRESS_KINDS and condition.op != "ne":
        return _by_address(session, account_id, state, condition)
    column = columns_of(state)[name]
    matches = and_(*compiled.where(Query(conditions=(condition,)), {name: column}))
    if condition.op == "ne" or name not in INDEXED[state]:
        return matches
    is_single = len(condition.alternatives) == 1 and isinstance(condition.alternatives[0], Equals | IsNull)
    return _indexed(account_id, state, matches, None if is_single else column)


def _indexed(account_id: int, state: str, matches: ColumnElement[bool], column: Any) -> IndexedCondition:
    """By the index of that column; without one, by an index that has the order of pages."""
    model = MODELS[state]
    order = (column,) if column is not None else (model.creation_time.desc(), model.id.desc())
    ids = select(model.id.label("id")).where(model.account_id == account_id, matches).order_by(*order)
    return IndexedCondition(matches, [ids], leads=column is None)


def _by_address(session: Session, account_id: int, state: str, condition: FilterCondition) -> IndexedCondition:
    """By addresses in all forms in which they may be stored: also digests, where forgotten people are listed."""
    kind, model = condition.filter.name, MODELS[state]
    if IsNull() in condition.alternatives:
        (other_kind,) = {*ADDRESS_KINDS} - {kind}
        return _indexed(account_id, state, model.kind == other_kind, model.address)
    addresses = [
        NormalizedAddress("email" if kind == "email" else "mobile", str(alternative.value))
        for alternative in condition.alternatives
        if isinstance(alternative, Equals)
    ]
    stored = [*all_forms(address.key for address in addresses), *find_digests(session, addresses)]
    found_by = _indexed(account_id, state, and_(model.kind == kind, in_json(model.address, stored)), model.address)
    return replace(found_by, leads=True, is_rare=True)


def quoting(condition: FilterCondition) -> ColumnElement[bool]:
    """The entries whose reply contains the text of the filter, without regard to case: a reply names ids and times that
    differ from address to address."""
    reply, clauses = BlockedAddress.reply, list[ColumnElement[bool]]([false()])
    for alternative in condition.alternatives:
        if isinstance(alternative, IsNull):
            clauses.append(reply.is_(None))
        elif isinstance(alternative, Equals) and alternative.value:
            clauses.append(has_part(reply, str(alternative.value)))
    return not_(func.coalesce(or_(*clauses), false())) if condition.op == "ne" else or_(*clauses)
