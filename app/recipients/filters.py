"""Filters of recipients, each in a form that an index answers (docs/querying.md#what-an-index-answers).

The indexes of single values are in the order of pages, so that these need no other form. Several values, or a range,
are found by `by_index_or_order`. Conditions that no index answers are left to `app.query.compile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, exists, false, func, or_, select, true
from sqlalchemy.orm import Session, aliased

from app.addresses import AccountAddress, address_forms
from app.db.index_hints import IndexedRows, by_ids_or_order, by_index_or_order, met_by_many
from app.db.models import QueueEntry, Recipient, RecipientLabel
from app.query import compile as compiled
from app.query.conditions import Alternative, Before, Between, Equals, FilterCondition, IsNull, Query
from app.query.fields import FilterType
from app.query.times import LAST_INSTANT
from app.recipients.conditions import entry_in_state, settled_as
from app.recipients.labels import metadata_label, tag_label
from app.recipients.states import STATES_SHOWN_AS_QUEUED, UNSETTLED_STATES, RecipientState

STATE_FILTER = "state"
EMAIL_KEY = func.lower(Recipient.email)
"""The email address as the index has it."""
INDEXED_COLUMNS: dict[str, tuple[Any, ColumnElement[bool]]] = {
    "uuid": (Recipient.uuid, true()),
    "email": (EMAIL_KEY, Recipient.email.is_not(None)),
    **{
        name: (getattr(Recipient, name), getattr(Recipient, name).is_not(None))
        for name in ("mobile", "contact_id", "list_id", "message_id")
    },
    "group_id": (Recipient.group_id, true()),
    "send_time": (Recipient.sent_time, Recipient.sent_time.is_not(None)),
}
"""Filter -> the first column of its index after the account, and the rows that the index has."""
COMMON_STATES = RecipientState.DELIVERED, RecipientState.SENT
"""The states of most messages."""
PAGE_ORDER: tuple[Any, Any] = (Recipient.creation_time, Recipient.id)
LABEL_ORDER: tuple[Any, Any] = (RecipientLabel.creation_time, RecipientLabel.recipient_id)
MAX_CLOCK_DIFFERENCE = timedelta(days=1)
"""More than the clocks of two machines of an installation ever differ."""


def sent_to(address: AccountAddress, spellings: Sequence[str] = ()) -> ColumnElement[bool]:
    """The condition on recipients of the address's account that their message went to it, or to one of the spellings,
    each as the index has it."""
    column, index_condition = INDEXED_COLUMNS[address.kind]
    return and_(index_condition, or_(*(column == form for form in (*address_forms(address.key), *spellings))))


def in_states(
    session: Session, account_id: int, states: Sequence[RecipientState], *, beside: Sequence[FilterCondition] = ()
) -> ColumnElement[bool]:
    """The condition on recipients that they are in one of these states now. An outcome is in the row of the recipient,
    any other state in its queue entry. `beside` are the other conditions that they meet."""
    if not states or len(states) == len(RecipientState):
        return true() if states else false()
    settled = [state for state in states if state not in UNSETTLED_STATES]
    waiting = [state for state in states if state in UNSETTLED_STATES]
    if len(settled) == 1 and not waiting:
        has_state = settled_as(settled[0])
        # SQLite would read all messages that arrived for those of one group.
        is_common = settled[0] in COMMON_STATES and any(map(_is_narrow, beside))
        return met_by_many(session, has_state) if is_common else has_state
    account_rows = select(Recipient.id.label("id")).where(Recipient.account_id == account_id)
    rows = account_rows.order_by(Recipient.creation_time.desc(), Recipient.id.desc())
    entries = select(QueueEntry.recipient_id.label("id")).where(QueueEntry.account_id == account_id)
    return by_ids_or_order(
        session,
        Recipient.id,
        or_(*map(settled_as, settled), *([_has_entry(waiting)] if waiting else [])),
        [
            *(rows.where(settled_as(state)) for state in settled),
            *(entries.where(entry_in_state(state)) for state in waiting),
        ],
    )


def _is_narrow(condition: FilterCondition) -> bool:
    """Whether an index finds the recipients that meet it, but for one of times."""
    is_label = condition.filter.type is FilterType.LABEL and condition.op != "ne"
    return is_label or (_has_index(condition) and condition.filter.name != "send_time")


def _has_index(condition: FilterCondition) -> bool:
    is_of_values = condition.op != "ne" and IsNull() not in condition.alternatives
    return is_of_values and condition.filter.name in INDEXED_COLUMNS


class IndexedConditions(NamedTuple):
    """Conditions on recipients: those that an index answers, in the form that it needs, and the others. `order` are the
    columns that order a page: creation time and id, of the label if one is asked for, in whose index they follow. There
    a condition on the time of creation is for the label, too."""

    formed: list[ColumnElement[bool]]
    others: tuple[FilterCondition, ...]
    order: tuple[Any, Any]


def answered_by_indexes(session: Session, account_id: int, conditions: Sequence[FilterCondition]) -> IndexedConditions:
    """The conditions in the form in which indexes answer them."""
    formed: list[ColumnElement[bool]] = []
    others: list[FilterCondition] = []
    order = PAGE_ORDER
    for condition in conditions:
        if condition.filter.name == STATE_FILTER:
            formed.append(in_states(session, account_id, states_of([condition]), beside=conditions))
        elif condition.filter.type is FilterType.LABEL:
            if order is PAGE_ORDER and len(condition.alternatives) == 1:
                formed += _has_row_of_label(account_id, condition)
                order = LABEL_ORDER
            else:
                formed.append(_in_labels(session, account_id, condition))
        elif _has_index(condition):
            formed.append(_indexed(session, account_id, condition))
        else:
            others.append(condition)
    if order is LABEL_ORDER:
        times = tuple(condition for condition in others if condition.filter.name == "creation_time")
        columns: dict[str, Any] = {"creation_time": RecipientLabel.creation_time}
        formed += compiled.where(Query(conditions=times), columns)
    return IndexedConditions(formed, tuple(others), order)


def _has_row_of_label(account_id: int, condition: FilterCondition) -> Iterator[ColumnElement[bool]]:
    """The conditions that join recipients with the rows of one label, from which a page in their order is read."""
    yield RecipientLabel.account_id == account_id
    yield RecipientLabel.label == _labels_of(condition)[0]
    yield RecipientLabel.recipient_id == Recipient.id


def _in_labels(session: Session, account_id: int, condition: FilterCondition) -> ColumnElement[bool]:
    """The condition on recipients that they have one of some labels: a few are looked up, as in `by_index_or_order`."""
    account_rows = select(RecipientLabel.recipient_id.label("id")).where(RecipientLabel.account_id == account_id)
    newest = account_rows.order_by(*(column.desc() for column in LABEL_ORDER))
    selects = [newest.where(RecipientLabel.label == label) for label in _labels_of(condition)]
    return (
        by_ids_or_order(session, Recipient.id, has_label(condition), selects)
        if len(selects) > 1
        else has_label(condition)
    )


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


def _indexed(session: Session, account_id: int, condition: FilterCondition) -> ColumnElement[bool]:
    name = condition.filter.name
    column, index_condition = INDEXED_COLUMNS[name]
    matching = and_(index_condition, *compiled.where(Query(conditions=(condition,)), {name: column}))
    is_single = len(condition.alternatives) == 1 and isinstance(condition.alternatives[0], Equals)
    if is_single and name != "send_time":
        return matching
    account_filter = Recipient.account_id == account_id
    matches = by_index_or_order(session, Recipient.id, account_filter, matching, [IndexedRows(matching, column)])
    return and_(matches, _created_before(condition)) if name == "send_time" else matches


def _created_before(condition: FilterCondition) -> ColumnElement[bool]:
    """What follows from the time of sending for that of creation: pages begin there, and not with recipients that were
    created later."""
    latest = max(map(_end, condition.alternatives), default=LAST_INSTANT)
    if latest > LAST_INSTANT - MAX_CLOCK_DIFFERENCE:
        return true()
    return Recipient.creation_time <= latest + MAX_CLOCK_DIFFERENCE


def _end(alternative: Alternative) -> datetime:
    match alternative:
        case Equals(datetime() as end) | Between(_, datetime() as end) | Before(datetime() as end):
            return end
    return LAST_INSTANT


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


def _has_entry(states: Sequence[RecipientState]) -> ColumnElement[bool]:
    entry_filter = QueueEntry.recipient_id == Recipient.id
    return exists().where(entry_filter, or_(*map(entry_in_state, states))).correlate(Recipient)
