"""The search of messages: what it understands beside the filters of the API, and what its table says of each message
(docs/console-messages.md#messages).

A text is looked for as the whole name of a group or of a stored message first, which indexes answer, and otherwise
within the newest messages alone: what a search costs does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, String, and_, bindparam, exists, false, func, not_, or_, select
from sqlalchemy.orm import Session

from app.clock import now
from app.console.queries import NUMBER_SEPARATORS, Pairs, address_filter
from app.db.expressions import has_part, in_json, json_array
from app.db.index_hints import IndexedCondition
from app.db.models import Automation, Group, List, Message, QueueEntry, Recipient, Send, SendPause
from app.db.prepared import PreparedStatement
from app.db.public_ids import has_id
from app.ids import UUID, id_in
from app.query.conditions import Equals, FilterCondition, Query
from app.query.fields import Filter, FilterType, Resource
from app.query.parameters import parameter_error
from app.query.reader import Page
from app.recipients.collection import OPERATOR_RECIPIENTS, page_recipients
from app.recipients.conditions import IS_READY
from app.recipients.filters import STATE_FILTER, ids_of, in_states, states_of
from app.recipients.read import Viewer
from app.recipients.reply_meanings import meaning_of
from app.recipients.states import SHOWN_STATES, STATES_SHOWN_AS_QUEUED, RecipientState

TEXT_FILTER = "text"
"""The filter by a text in the address, the subject, or the name of the group or the stored message."""
DEFERRED = "deferred"
"""The state of a queued message whose next attempt is not due yet."""
CONSOLE_STATES = (
    *(RecipientState.SCHEDULED, RecipientState.QUEUED, DEFERRED, *STATES_SHOWN_AS_QUEUED),
    *(state for state in SHOWN_STATES if state not in (RecipientState.SCHEDULED, RecipientState.QUEUED)),
)
"""The states that the console shows to whoever sees contacts. As a filter, `queued` includes the three behind it."""
MAX_SEARCHED = 10_000
"""The newest messages in which a text is looked for that is no whole name."""
MAX_FOUND = 1000
"""How many of them are shown at most."""
LONGEST_NUMBER = 15
SHORTEST_NUMBER = 7
"""Digits of a text that is taken for a whole mobile number."""


def resource_for(viewer: Viewer) -> Resource:
    """The recipients with the filters of the console."""
    states = CONSOLE_STATES if viewer.sees_contacts else SHOWN_STATES
    console_filters = {
        STATE_FILTER: Filter(STATE_FILTER, FilterType.ENUM, states),
        TEXT_FILTER: Filter(TEXT_FILTER, FilterType.STRING),
    }
    return replace(OPERATOR_RECIPIENTS, filters={**OPERATOR_RECIPIENTS.filters, **console_filters})


def text_filter(text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for: a uuid, a whole address, or any other text."""
    if UUID.fullmatch(text):
        return "uuid", text
    local, at, domain = text.partition("@")
    is_email = bool(at and local) and "." in domain and not set(text) & set(" ,;")
    digits = text.translate(NUMBER_SEPARATORS)
    is_number = digits.isascii() and digits.isdigit() and SHORTEST_NUMBER <= len(digits) <= LONGEST_NUMBER
    return address_filter(text) if is_email or is_number else (TEXT_FILTER, text)


@dataclass(frozen=True, slots=True)
class TextMeaning:
    """What a text was taken for: the names of groups and stored messages that it is, or a part of something."""

    text: str
    groups: Sequence[int]
    messages: Sequence[int]

    @property
    def is_part(self) -> bool:
        """Whether the text is looked for within the newest messages."""
        return not self.groups and not self.messages


def understand(session: Session, account_id: int, text: str) -> TextMeaning:
    """What the text means in the account: two lookups by name. No name has a NUL, which PostgreSQL refuses."""
    if "\0" in text:
        return TextMeaning(text, (), ())
    groups = select(Group.id).where(Group.account_id == account_id, Group.name == text)
    messages = select(Message.id).where(Message.account_id == account_id, Message.name == text)
    return TextMeaning(text, session.scalars(groups).all(), session.scalars(messages.limit(MAX_FOUND)).all())


FILTERED_NOUNS: Mapping[str, tuple[str, Any]] = {
    "group_id": ("group", Group),
    "message_id": ("stored message", Message),
    "list_id": ("list", List),
}
"""Filters that the field does not write, with the nouns that they are about."""


def filtered_by(session: Session, account_id: int, pairs: Pairs) -> list[str]:
    """What such a query is limited to, by name: of an id that the account does not have, the id."""
    named = []
    for name, (noun, model) in FILTERED_NOUNS.items():
        row_id = id_in(dict(pairs).get(name, ""))
        if row_id is not None:
            row = session.scalars(select(model).where(has_id(model, account_id, row_id))).first()
            named.append(f"{noun} “{row.name or row_id}”" if row else f"{noun} {row_id}")
    return named


def page_messages(session: Session, account_id: int, query: Query, viewer: Viewer) -> Page:
    """A page of the account's messages, the newest first, for a query of `resource_for`. Raises
    `parameter_not_available` for more than one text, each of which would be looked for in all of the newest."""
    texts = [condition for condition in query.conditions if condition.filter.name == TEXT_FILTER]
    if len(texts) > 1 or any(len(condition.alternatives) > 1 for condition in texts):
        raise parameter_error("parameter_not_available", TEXT_FILTER, "text: this page looks for one text at a time.")
    formed_here = [condition for condition in query.conditions if _is_formed_here(condition)]
    others = tuple(condition for condition in query.conditions if condition not in formed_here)
    formed = [_condition_of(session, account_id, condition, viewer) for condition in formed_here]
    return page_recipients(session, account_id, replace(query, conditions=others), viewer, *formed)


def _is_formed_here(condition: FilterCondition) -> bool:
    return condition.filter.name == TEXT_FILTER or Equals(DEFERRED) in condition.alternatives


def _condition_of(
    session: Session, account_id: int, condition: FilterCondition, viewer: Viewer
) -> IndexedCondition | ColumnElement[bool]:
    """In the form in which it is looked for; a negation, which no index answers, is only checked."""
    if condition.filter.name == TEXT_FILTER:
        texts = [str(equals.value) for equals in condition.alternatives if isinstance(equals, Equals)]
        alternatives = [_has_text(session, account_id, understand(session, account_id, text), viewer) for text in texts]
    else:
        rest = tuple(value for value in condition.alternatives if value != Equals(DEFERRED))
        states = states_of([replace(condition, op="in", alternatives=rest)]) if rest else []
        alternatives = [_is_deferred(account_id), in_states(account_id, states)]
    matching = or_(false(), *(alternative.condition for alternative in alternatives))
    if condition.op == "ne":
        return not_(matching)
    id_selects = [select for alternative in alternatives for select in alternative.id_selects]
    return IndexedCondition(matching, id_selects, leads=False)


def _is_deferred(account_id: int) -> IndexedCondition:
    is_later = and_(IS_READY, QueueEntry.ready_time > now())
    entries = select(QueueEntry.recipient_id.label("id")).where(QueueEntry.account_id == account_id, is_later)
    entry = exists().where(QueueEntry.recipient_id == Recipient.id, is_later).correlate(Recipient)
    return IndexedCondition(entry, [entries], leads=False)


def _has_text(session: Session, account_id: int, meaning: TextMeaning, viewer: Viewer) -> IndexedCondition:
    if meaning.is_part:
        has_text = in_json(Recipient.id, _ids_with(session, account_id, meaning.text, viewer))
        return IndexedCondition(has_text, [ids_of(account_id).where(has_text)], leads=False)
    named = [
        (and_(column.is_not(None), in_json(column, ids)), column)
        for column, ids in ((Recipient.group_id, meaning.groups), (Recipient.message_id, meaning.messages))
        if ids
    ]
    id_selects = [ids_of(account_id).where(rows).order_by(column) for rows, column in named]
    return IndexedCondition(or_(false(), *(rows for rows, _ in named)), id_selects, leads=False)


def _ids_with(session: Session, account_id: int, text: str, viewer: Viewer) -> Sequence[int]:
    """The newest messages that have the text somewhere; who does not see contacts finds names alone."""
    newest = (
        select(Recipient.id, Recipient.send_id, Recipient.message_id, Recipient.email, Recipient.mobile)
        .where(Recipient.account_id == account_id)
        .order_by(Recipient.creation_time.desc(), Recipient.id.desc())
        .limit(MAX_SEARCHED)
        .subquery()
    )
    personal = (newest.c.email, newest.c.mobile, Send.subject) if viewer.sees_contacts else ()
    matches = (
        select(newest.c.id)
        .join(Send, Send.id == newest.c.send_id)
        .outerjoin(Message, Message.id == newest.c.message_id)
        .where(or_(*(has_part(column, text) for column in (*personal, Send.group_name, Message.name))))
        .order_by(newest.c.id.desc())
        .limit(MAX_FOUND)
    )
    return session.scalars(matches).all()


# What the table says of each message beside its properties.


def rows_of(
    session: Session, account_id: int, items: Sequence[Mapping[str, Any]], viewer: Viewer
) -> list[dict[str, Any]]:
    """The account's messages of a page with the `subject` and the names of the `group`, `message` and `automation` of
    each, its `shown_state` with `until` or `since` when, and the `meaning` of its reason: one statement."""
    values = {"account_id": account_id, "ids": json_array([item["id"] for item in items])}
    rows = {row.id: row for row in _about_messages().rows(session, **values)}
    return [{**item, **_described(item, rows.get(item["id"]), viewer, now())} for item in items]


@lru_cache(maxsize=1)
def _about_messages() -> PreparedStatement:
    columns: dict[str, Any] = {
        "subject": Send.subject,
        "group": func.nullif(Send.group_name, ""),
        "message": Message.name,
        "automation": Automation.name,
        "entry_state": QueueEntry.state,
        "ready_time": QueueEntry.ready_time,
        "pause_time": SendPause.creation_time,
    }
    ids = bindparam("ids", type_=String)
    rows = (
        select(Recipient.id, *(column.label(name) for name, column in columns.items()))
        .join(Send, Send.id == Recipient.send_id)
        .outerjoin(Message, Message.id == Recipient.message_id)
        .outerjoin(Automation, Automation.id == Send.automation_id)
        .outerjoin(QueueEntry, QueueEntry.recipient_id == Recipient.id)
        .outerjoin(SendPause, SendPause.id == QueueEntry.pause_id)
    )
    return PreparedStatement(rows.where(Recipient.account_id == bindparam("account_id"), in_json(Recipient.id, ids)))


def _described(item: Mapping[str, Any], row: Any, viewer: Viewer, moment: datetime) -> dict[str, Any]:
    state, until, since = item["state"], None, None
    if viewer.sees_contacts and row is not None:
        if row.entry_state in STATES_SHOWN_AS_QUEUED:
            state, since = row.entry_state, row.pause_time
        elif row.entry_state == RecipientState.QUEUED and row.ready_time > moment:
            state, until = DEFERRED, row.ready_time
        elif row.entry_state == RecipientState.SCHEDULED:
            until = row.ready_time
    reason = item["reason"]
    return {
        **{name: getattr(row, name, None) for name in ("group", "message", "automation")},
        "subject": row.subject if viewer.sees_contacts and row is not None else None,
        "shown_state": state,
        "until": until,
        "since": since,
        "meaning": meaning_of(reason) if reason else "",
    }
