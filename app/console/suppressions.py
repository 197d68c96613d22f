"""Suppressions: searching what is unsubscribed or blocked, one entry with what made it, adding and removing one
(docs/console-contents.md#suppressions).

Unsubscribed and blocked addresses are two tables. A page is read from each in the order of its index, and the two are
merged, so that it costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, cast

from sqlalchemy import ColumnElement, String, and_, case, false, literal, null, or_, select, tuple_
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from app.addresses import (
    ADDRESS_KINDS,
    AccountAddress,
    AddressKind,
    NormalizedAddress,
    address_forms,
    normalize_address,
)
from app.audit.actor import Actor
from app.audit.read import acts_on_address
from app.clock import timestamp
from app.console.queries import SearchPage, SearchRequest, older_query
from app.db.address_forms import PREFIX, find_digests
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.index_hints import planned_for_values
from app.db.lookup import find_by_name_or_id
from app.db.models import BlockedAddress, List, Recipient, RecipientStep, Unsubscriber
from app.errors import ServiceError
from app.ids import shown_id
from app.infrastructure.digests import address_digests
from app.query import compile as compiled
from app.query.conditions import Equals, FilterCondition, Query
from app.query.cursors import Position
from app.recipients.filters import sent_to
from app.recipients.timeline import TimelineStep
from app.secret_keys import SecretKeys
from app.suppressions.acts import (
    add_blocked,
    add_unsubscribed,
    address_of,
    checked_reason,
    checked_state,
    remove_blocked,
    remove_unsubscribed,
)
from app.suppressions.filters import BLOCKED, STATES, SUPPRESSIONS, UNSUBSCRIBED, quoting

PATH = "/console/suppressions"
Model = type[Unsubscriber | BlockedAddress]
MODELS: dict[str, Model] = {UNSUBSCRIBED: Unsubscriber, BLOCKED: BlockedAddress}
"""State -> its table."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """An entry: `address` is None for a forgotten person, and `stored_list_id` and `list_name` are for one of all
    lists; `reason` and `reply` are those of a block."""

    state: str
    id: int
    kind: str
    address: str | None
    creation_time: datetime
    stored_list_id: int | None
    list_name: str | None
    reason: str | None
    reply: str | None

    @property
    def list_id(self) -> int | None:
        """The id of the list as everybody outside sees it."""
        return shown_id(self.stored_list_id)

    @property
    def path(self) -> str:
        """The path of the suppression's page."""
        return f"{PATH}/{self.state}/{self.id}"


def search(search_request: SearchRequest) -> SearchPage:
    """The account's entries that match, the newest first: two statements. Raises the errors of the query."""
    query, limit, account_id = search_request.query(PATH, SUPPRESSIONS), search_request.limit, search_request.account_id
    with planned_for_values(search_request.session):
        entries = (_entries(search_request.session, account_id, state, query, limit + 1) for state in STATES)
        suppressions = sorted(chain.from_iterable(entries), key=_order, reverse=True)
    position = Position(_order(suppressions[limit - 1])) if len(suppressions) > limit else None
    return SearchPage(suppressions[:limit], older_query(query.cursors, search_request.pairs, position))


def _order(suppression: Suppression) -> tuple[datetime, int, int]:
    return suppression.creation_time, STATES.index(suppression.state), suppression.id


def _entries(session: Session, account_id: int, state: str, query: Query, limit: int) -> Iterator[Suppression]:
    model = MODELS[state]
    conditions = [model.account_id == account_id]
    for condition in query.conditions:
        conditions += _matching(session, model, state, condition)
    if query.position is not None:
        conditions.append(_before(model, state, query.position))
    newest = _selected(state).where(*conditions).order_by(model.creation_time.desc(), model.id.desc())
    yield from (_suppression(state, row) for row in session.execute(newest.limit(limit)))


def _before(model: Model, state: str, position: Position) -> ColumnElement[bool]:
    """What comes behind the position: entries of one time are in the order of the tables, then of their ids."""
    moment, rank, entry_id = position.item
    time, own_rank = model.creation_time, STATES.index(state)
    at = literal(moment, time.type)
    if own_rank == rank:
        return tuple_(time, model.id) < tuple_(at, literal(entry_id, model.id.type))
    return time <= at if [own_rank, rank] == [0, 1] else time < at


def _matching(session: Session, model: Model, state: str, condition: FilterCondition) -> list[ColumnElement[bool]]:
    name = condition.filter.name
    if name == "reply":
        return [quoting(condition) if state == BLOCKED else false()]
    if name not in ADDRESS_KINDS:
        columns: dict[str, ColumnElement[Any]] = {
            "state": literal(state),
            "creation_time": model.creation_time.expression,
        }
        columns["reason"] = BlockedAddress.reason.expression if state == BLOCKED else sql_cast(null(), String)
        return compiled.where(Query(conditions=(condition,)), columns)
    given = [
        NormalizedAddress(name, str(alternative.value))
        for alternative in condition.alternatives
        if isinstance(alternative, Equals)
    ]
    if condition.op == "ne" or len(given) < len(condition.alternatives):
        column = case((model.kind == name, model.address))
        return compiled.where(Query(conditions=(condition,)), {name: column})
    # A forgotten address stands there as its digest.
    stored = [*(address.key for address in given), *find_digests(session, given)]
    return [model.kind == name, in_json(model.address, stored)]


def _selected(state: str) -> Any:
    if state == BLOCKED:
        blocked = BlockedAddress
        return select(
            blocked.id,
            blocked.kind,
            blocked.address,
            blocked.creation_time,
            null(),
            null(),
            blocked.reason,
            blocked.reply,
        )
    entry = Unsubscriber
    columns = select(entry.id, entry.kind, entry.address, entry.creation_time, entry.list_id, List.name, null(), null())
    return columns.outerjoin(List, List.id == entry.list_id)


def _suppression(state: str, row: Any) -> Suppression:
    entry_id, kind, address, moment, *others = row
    shown_address = None if address.startswith(PREFIX) else address
    return Suppression(state, entry_id, kind, shown_address, moment, *others)


def suppressions_of(
    session: Session, account_id: int, list_id: int | None, addresses: Collection[NormalizedAddress]
) -> Sequence[Suppression]:
    """What keeps messages of the list from the addresses, or for None messages without a list: two statements."""
    suppressions: list[Suppression] = []
    for state, model in MODELS.items():
        has_address = or_(
            *(and_(model.kind == address.kind, model.address.in_(address_forms(address.key))) for address in addresses)
        )
        entries = _selected(state).where(model.account_id == account_id, has_address)
        if state == UNSUBSCRIBED:
            entries = entries.where(or_(Unsubscriber.list_id.is_(None), Unsubscriber.list_id == list_id))
        suppressions += [_suppression(state, row) for row in session.execute(entries.order_by(model.id))]
    return suppressions


def words_of(suppression: Suppression) -> str:
    """Since when the address is suppressed, and why, in a sentence."""
    address, since = suppression.address or "This address", timestamp(suppression.creation_time)
    if suppression.state == BLOCKED:
        return f"{address} has been blocked since {since}: {suppression.reason}."
    where = "all lists" if suppression.stored_list_id is None else f"the list {suppression.list_name}"
    return f"{address} has been unsubscribed from {where} since {since}."


@dataclass(frozen=True, slots=True)
class Removal:
    """How people speak of removing an entry: the verb, what to think of before, and what is said afterwards."""

    verb: str
    advice: str
    done: str


REMOVALS = {
    BLOCKED: Removal(
        "Unblock",
        "New messages are sent to it. If its mailbox does not exist, they bounce again.",
        "The address was unblocked.",
    ),
    UNSUBSCRIBED: Removal(
        "Resubscribe",
        "The person has unsubscribed. Do this only if they have asked for it.",
        "The address was resubscribed.",
    ),
}
"""State -> its removal."""


def find_suppression(session: Session, account_id: int | None, state: str, entry_id: int) -> tuple[int, Suppression]:
    """The account's entry, or that of any account for None, with the id of its account. Raises `not_found`."""
    if state not in MODELS:
        raise ServiceError("not_found")
    model = MODELS[state]
    statement = _selected(state).add_columns(model.account_id).where(model.id == entry_id)
    row = session.execute(statement if account_id is None else statement.where(model.account_id == account_id)).first()
    if row is None:
        raise ServiceError("not_found", detail="There is no such suppression; it may have been removed.")
    return row.account_id, _suppression(state, row[:-1])


# What made a suppression, as far as it is kept: the message whose bounce, report or link did, and who did it by hand
# (docs/console-contents.md#suppressions).

CAUSING_STEPS = {
    BLOCKED: (TimelineStep.BOUNCED, TimelineStep.COMPLAINED),
    UNSUBSCRIBED: (TimelineStep.UNSUBSCRIBED, TimelineStep.COMPLAINED),
}
"""State -> the steps of a message after which an address has it."""
STEP_WORDS = {
    TimelineStep.BOUNCED: "the message bounced",
    TimelineStep.COMPLAINED: "the message was reported as spam",
    TimelineStep.UNSUBSCRIBED: "the recipient of the message unsubscribed",
}
"""Step of a message that caused a suppression -> what happened."""
ACT_WORDS: Mapping[str, Mapping[str, str]] = {
    "suppression.added": {BLOCKED: "blocked", UNSUBSCRIBED: "unsubscribed"},
    "suppression.removed": {BLOCKED: "unblocked", UNSUBSCRIBED: "resubscribed"},
}
"""Act of the audit log and its state -> what somebody has done to the address."""
MAX_MESSAGES, MAX_STEPS, MAX_ACTS = 20, 5, 5
"""The newest messages that are looked at, and what is shown of their steps and of the audit log."""
MAX_GAP = timedelta(minutes=1)
"""More than a suppression and the step that it follows from are ever apart."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that happened: the step of a message with its `uuid` and the reply, or an act of somebody."""

    time: datetime
    words: str
    uuid: str | None = None
    reply: str | None = None
    actor: Actor | None = None


def causes(session: Session, secret_keys: SecretKeys, account_id: int, suppression: Suppression) -> Sequence[Cause]:
    """What is known of the address, the latest first: three statements. Nothing of a forgotten one."""
    if suppression.address is None:
        return ()
    address = normalize_address(cast("AddressKind", suppression.kind), suppression.address)
    steps_and_acts = [
        *_steps(session, AccountAddress(account_id, *address), suppression),
        *_acts(session, secret_keys, account_id, address),
    ]
    return sorted(steps_and_acts, key=lambda cause: cause.time, reverse=True)


def _steps(session: Session, address: AccountAddress, suppression: Suppression) -> Iterator[Cause]:
    before = suppression.creation_time + MAX_GAP
    messages = select(Recipient.id, Recipient.uuid).where(
        Recipient.account_id == address.account_id, sent_to(address), Recipient.creation_time <= before
    )
    newest = messages.order_by(Recipient.creation_time.desc(), Recipient.id.desc()).limit(MAX_MESSAGES)
    uuids = {row.id: row.uuid for row in session.execute(newest)}
    if not uuids:
        return
    steps = (
        select(RecipientStep)
        .where(in_json(RecipientStep.recipient_id, list(uuids)), RecipientStep.time <= before)
        .where(RecipientStep.step.in_(CAUSING_STEPS[suppression.state]))
    )
    for step in session.scalars(steps.order_by(RecipientStep.id.desc()).limit(MAX_STEPS)):
        yield Cause(step.time, STEP_WORDS[TimelineStep(step.step)], uuids[step.recipient_id], step.detail)


def _acts(session: Session, secret_keys: SecretKeys, account_id: int, address: NormalizedAddress) -> Iterator[Cause]:
    for entry in acts_on_address(session, account_id, address_digests(secret_keys, address), MAX_ACTS):
        state = next((str(change.get("new")) for change in entry.changes if change["field"] == "state"), "")
        yield Cause(entry.time, ACT_WORDS[entry.action].get(state, "changed"), actor=entry.actor)


# Adding and removing one, as the command line does.


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """What the form says: an address, a state, a list by its name or id, and the reason of a block. The last two may
    be empty."""

    address: str
    state: str
    list: str = ""
    reason: str = ""


def add_suppression(transaction: Transaction, secret_key: str, account_id: int, new: NewSuppression) -> None:
    """Blocks the address, or unsubscribes it from the list, or account-wide without one. Raises the errors of the
    form."""
    address, state = address_of(new.address), checked_state(new.state)
    if state == BLOCKED:
        if new.list:
            raise ServiceError(
                "unexpected_field", field="list", detail="A block applies to all lists. Leave the list out."
            )
        add_blocked(transaction, secret_key, account_id, address, checked_reason(new.reason))
        return
    list_id = find_by_name_or_id(transaction, List, account_id, new.list, "list").id if new.list else None
    add_unsubscribed(transaction, secret_key, account_id, address, list_id)


def remove_suppression(transaction: Transaction, secret_key: str, account_id: int, suppression: Suppression) -> None:
    """Unblocks the address, or resubscribes it: to the list of the entry, and account-wide. Raises `conflict` for a
    forgotten one."""
    if suppression.address is None:
        raise ServiceError("conflict", detail="The address was forgotten. To change its state, add it again.")
    address = normalize_address(cast("AddressKind", suppression.kind), suppression.address)
    if suppression.state == BLOCKED:
        remove_blocked(transaction, secret_key, account_id, address)
    else:
        remove_unsubscribed(transaction, secret_key, account_id, address, suppression.stored_list_id)
