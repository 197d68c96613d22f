"""Filters of recipients, each in a form that an index answers (docs/querying.md#what-an-index-answers).

The indexes of single values are in the order of pages. Conditions that no index answers are left to
`app.query.compile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, or_, select, true
from sqlalchemy.orm import Session, aliased

from app.addresses import AccountAddress, address_forms
from app.db.index_hints import IndexedCondition, choose_index, led_by
from app.db.models import QueueEntry, Recipient, RecipientLabel
from app.query import compile as compiled
from app.query.conditions import (
    Alternative,
    Before,
    Between,
    Equals,
    FilterCondition,
    Query,
    is_any_value,
    is_of_one_value,
    is_of_values,
)
from app.query.fields import Filter, FilterType
from app.query.times import LAST_INSTANT
from app.query.times import beyond as bounded
from app.recipients.conditions import entry_in_state, settled_as
from app.recipients.labels import metadata_label, tag_label
from app.recipients.states import STATES_SHOWN_AS_QUEUED, UNSETTLED_STATES, RecipientState

STATE_FILTER = "state"
CREATION_TIME = Filter("creation_time", FilterType.TIMESTAMP)
EMAIL_KEY = func.lower(Recipient.email)
"""The email address as the index has it."""
INDEXED_COLUMNS: dict[str, tuple[Any, ColumnElement[bool]]] = {
    "uuid": (Recipient.uuid, true()),
    "email": (EMAIL_KEY, Recipient.email.is_not(None)),
    "group_id": (Recipient.group_id, true()),
    **{
        name: (getattr(Recipient, name), getattr(Recipient, name).is_not(None))
        for name in ("mobile", "contact_id", "message_id", "list_id")
    },
    "send_time": (Recipient.sent_time, Recipient.sent_time.is_not(None)),
}
"""Filter -> the first column of its index after the account, and the rows that the index has."""
COMMON_STATES = {RecipientState.DELIVERED, RecipientState.SENT}
"""The states of most messages."""
PAGE_ORDER: tuple[Any, Any] = (Recipient.creation_time, Recipient.id)
NEWEST = tuple(column.desc() for column in PAGE_ORDER)
LABEL_ORDER: tuple[Any, Any] = (RecipientLabel.creation_time, RecipientLabel.recipient_id)
MAX_CLOCK_DIFFERENCE = timedelta(days=1)
"""More than the clocks of two machines of an installation ever differ."""


def sent_to(address: AccountAddress, spellings: Sequence[str] = ()) -> ColumnElement[bool]:
    """The condition on recipients of the address's account that their message went to it, or to one of the spellings,
    each as the index has it."""
    column, index_condition = INDEXED_COLUMNS[address.kind]
    return and_(index_condition, or_(*(column == form for form in (*address_forms(address.key), *spellings))))


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelCondition(IndexedCondition):
    """That recipients have one label."""

    label: str


def in_states(account_id: int, states: Sequence[RecipientState]) -> IndexedCondition:
    """The condition on recipients that they are in one of these states now. An outcome is in the row of the recipient,
    any other state in its queue entry."""
    settled = [settled_as(state) for state in states if state not in UNSETTLED_STATES]
    waiting = [entry_in_state(state) for state in states if state in UNSETTLED_STATES]
    newest = ids_of(account_id).order_by(*NEWEST)
    entries = select(QueueEntry.recipient_id.label("id")).where(QueueEntry.account_id == account_id)
    entry = exists().where(QueueEntry.recipient_id == Recipient.id, or_(false(), *waiting)).correlate(Recipient)
    return IndexedCondition(
        or_(false(), *settled, *([entry] if waiting else [])),
        [*(newest.where(state) for state in settled), *(entries.where(state) for state in waiting)],
        leads=not waiting and len(settled) <= 1,
    )


def ids_of(account_id: int) -> Select[Any]:
    """Selects the ids of the account's recipients, each as `id`."""
    return select(Recipient.id.label("id")).where(Recipient.account_id == account_id)


class Beyond(NamedTuple):
    """The recipients behind a place, in the direction of reading."""

    moment: datetime
    """The creation time of the place."""
    ascending: bool


class IndexedConditions(NamedTuple):
    """Conditions on recipients: those that an index answers, in the form that it needs, and the others. `order` are the
    columns that order a page: creation time and id, of the label if one is asked for, in whose index they follow. There
    a condition on the time of creation is for the label, too."""

    formed: list[ColumnElement[bool]]
    others: tuple[FilterCondition, ...]
    order: tuple[Any, Any]


def answered_by_indexes(
    session: Session,
    account_id: int,
    states: Sequence[RecipientState],
    conditions: Sequence[FilterCondition],
    *further: IndexedCondition | ColumnElement[bool],
    beyond: Beyond | None = None,
    counts: bool = False,
) -> IndexedConditions:
    """That recipients are in one of the states and meet the conditions on anything else and further ones, in the form
    in which indexes answer it: for a page, or a part behind a place, or to count all of them. A further condition that
    no index answers is only checked."""
    sent = [condition for condition in conditions if _has_index(condition, "send_time")]
    conditions = (*conditions, *filter(None, map(_created_before, sent)))
    if beyond is not None:
        conditions = bounded(conditions, "creation_time", beyond.moment, ascending=beyond.ascending)
    indexed, others = _indexed(account_id, states, conditions)
    looked_for = [each for each in further if isinstance(each, IndexedCondition)]
    leading, formed = choose_index(session, Recipient.id, [*looked_for, *indexed], counts=counts)
    formed += [each for each in further if not isinstance(each, IndexedCondition)]
    if isinstance(leading, LabelCondition):
        times = tuple(condition for condition in others if condition.filter.name == "creation_time")
        columns: dict[str, Any] = {"creation_time": RecipientLabel.creation_time}
        formed += (*_joined(account_id, leading.label), *compiled.where(Query(conditions=times), columns))
        return IndexedConditions(formed, others, LABEL_ORDER)
    if leading is not None:
        formed.append(led_by(session, Recipient.id, leading))
    return IndexedConditions(formed, others, PAGE_ORDER)


def _indexed(
    account_id: int, states: Sequence[RecipientState], conditions: Sequence[FilterCondition]
) -> tuple[list[IndexedCondition], tuple[FilterCondition, ...]]:
    """What an index answers, from what probably fewest messages meet to what most meet, and the other conditions."""
    by_label = [condition for condition in conditions if condition.filter.type is FilterType.LABEL]
    by_column = [condition for name in INDEXED_COLUMNS for condition in conditions if _has_index(condition, name)]
    indexed = [
        *(_has_label(account_id, condition) for condition in by_label),
        *(_has_value(account_id, condition) for condition in by_column),
    ]
    if len(states) < len(RecipientState):
        indexed.insert(len(indexed) if COMMON_STATES.intersection(states) else 0, in_states(account_id, states))
    return indexed, tuple(condition for condition in conditions if condition not in by_label + by_column)


def _has_index(condition: FilterCondition, name: str) -> bool:
    """Whether the index of that filter answers the condition."""
    return condition.filter.name == name and (is_of_values(condition) or is_any_value(condition))


def _joined(account_id: int, label: str) -> Iterator[ColumnElement[bool]]:
    """The conditions that join recipients with the rows of the label, from which a page in their order is read."""
    yield RecipientLabel.account_id == account_id
    yield RecipientLabel.label == label
    yield RecipientLabel.recipient_id == Recipient.id


def _has_label(account_id: int, condition: FilterCondition) -> IndexedCondition:
    labels = _labels_of(condition)
    account_rows = select(RecipientLabel.recipient_id.label("id")).where(RecipientLabel.account_id == account_id)
    newest = account_rows.order_by(*(column.desc() for column in LABEL_ORDER))
    selects = [newest.where(RecipientLabel.label == label) for label in labels]
    if len(labels) == 1:
        return LabelCondition(has_label(condition), selects, leads=True, label=labels[0])
    return IndexedCondition(has_label(condition), selects, leads=False)


def has_label(condition: FilterCondition) -> ColumnElement[bool]:
    """The condition of a filter by labels, for recipients that are known: without the help of an index."""
    row: Any = aliased(RecipientLabel)
    matches = exists().where(row.recipient_id == Recipient.id, row.label.in_(_labels_of(condition)))
    return matches.correlate(Recipient)


def _labels_of(condition: FilterCondition) -> list[str]:
    """The labels of such a filter: tags, or an entry of the metadata."""
    values = [str(alternative.value) for alternative in condition.alternatives if isinstance(alternative, Equals)]
    if not condition.filter.is_keyed:
        return [tag_label(tag) for tag in values]
    _, _, key = condition.filter.name.partition(".")
    return [metadata_label(key, value) for value in values]


def _has_value(account_id: int, condition: FilterCondition) -> IndexedCondition:
    name = condition.filter.name
    column, index_condition = INDEXED_COLUMNS[name]
    matching = and_(index_condition, *compiled.where(Query(conditions=(condition,)), {name: column}))
    leads = is_of_one_value(condition) and name != "send_time"
    # In the order of the index that is to answer it: any other plan would have to sort.
    ids = ids_of(account_id).where(matching).order_by(*(NEWEST if leads else (column,)))
    return IndexedCondition(matching, [ids], leads, is_rare=leads and name == "uuid")


def _created_before(condition: FilterCondition) -> FilterCondition | None:
    """What follows from the time of sending for that of creation: pages begin there, and not with recipients that were
    created later."""
    latest = max(map(_end, condition.alternatives), default=LAST_INSTANT)
    if latest > LAST_INSTANT - MAX_CLOCK_DIFFERENCE:
        return None
    return FilterCondition(CREATION_TIME, "in", (Before(latest + MAX_CLOCK_DIFFERENCE),))


def _end(alternative: Alternative) -> datetime:
    match alternative:
        case Equals(datetime() as end) | Between(_, datetime() as end) | Before(datetime() as end):
            return end
    return LAST_INSTANT


def without_state(query: Query) -> tuple[FilterCondition, ...]:
    """The conditions of the query on anything else than the state."""
    return tuple(condition for condition in query.conditions if condition.filter.name != STATE_FILTER)


def states_of(conditions: Sequence[FilterCondition]) -> list[RecipientState]:
    """The states that meet all of the conditions on the state, which is any without one."""
    states = list(RecipientState)
    for condition in conditions:
        if condition.filter.name != STATE_FILTER:
            continue
        named: list[object] = [
            alternative.value for alternative in condition.alternatives if isinstance(alternative, Equals)
        ]
        if RecipientState.QUEUED in named:
            named += STATES_SHOWN_AS_QUEUED
        states = [state for state in states if (state in named) is (condition.op != "ne")]
    return states
