"""The send queue account by account, as claims take from it in turn, pauses, and what waits for its next try
(docs/console-messages.md#queues).

Bounded: of each account it reads so many entries at most, in the order of the index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Row, ScalarSelect, Select, String, bindparam, func, select, union_all
from sqlalchemy.orm import Session, aliased

from app.accounts.find import find_account
from app.addresses import domain_of
from app.db.database import Transaction
from app.db.due import look_at_all
from app.db.expressions import between_ids, in_json, json_array
from app.db.models import Account, Contact, DomainBackoff, QueueEntry, Recipient, RecipientStep
from app.db.prepared import PreparedStatement
from app.db.queue import PRIORITIES, QUEUED, SEND_QUEUE
from app.errors import ServiceError
from app.ids import existing
from app.infrastructure.redis_client import SENDS
from app.recipients.conditions import IS_READY, IS_SENDING
from app.recipients.timeline import TimelineStep
from app.routing.transports import find_transport, update_transport
from app.sends.pauses.pause import find_pause_by_id, pause, resume, subject_of
from app.sends.queue_begin import QueueBegin
from app.services import Services

PATH = "/console/queues"
MAX_ACCOUNTS = 50
"""Accounts that the page shows: those whose oldest message has been due for longest."""
MAX_COUNT = 1000
"""Messages of an account, a priority and a state that are counted; more are shown as at least so many."""
MAX_IN_FLIGHT = 10_000
"""Messages in flight that are looked at."""


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Messages of an account; a number may be the least that there are."""

    number: int

    @property
    def is_least(self) -> bool:
        """Whether there may be more."""
        return self.number >= MAX_COUNT


@dataclass(frozen=True, slots=True)
class Turn:
    """An account that claims take from: what is due of each priority and since when, what is in flight, and what is
    due later."""

    account_id: int
    name: str
    high: MessageCount
    normal: MessageCount
    later: MessageCount
    in_flight: int
    due_since: datetime | None

    @property
    def due(self) -> MessageCount:
        """What is due of both priorities."""
        return MessageCount(self.high.number + self.normal.number)


@dataclass(frozen=True, slots=True)
class Turns:
    """The accounts in turn, those that have waited longest first, and how many there are with those that are not
    shown."""

    turns: Sequence[Turn]
    accounts: int


def turns_of_all(session: Session, begin: QueueBegin, moment: datetime) -> Turns:
    """Every account that has messages due: three statements, the first of which reads a few entries per account."""
    due_entries = look_at_all(SEND_QUEUE, session, moment)
    since = {
        account_id: min(entry.due_time for entry in account_entries.values())
        for account_id, account_entries in due_entries.items()
    }
    first = sorted(since, key=lambda account_id: (since[account_id], account_id))[:MAX_ACCOUNTS]
    return Turns(_turns(session, first, begin, moment), len(since))


def turn_of(session: Session, account: Account, begin: QueueBegin, moment: datetime) -> Turn:
    """One account: two statements."""
    (turn,) = _turns(session, [account.id], begin, moment)
    return turn


def _turns(session: Session, account_ids: Sequence[int], begin: QueueBegin, moment: datetime) -> Sequence[Turn]:
    """The turns of the accounts, in the order of the ids."""
    in_flight = _in_flight(session, account_ids, begin)
    values = {"moment": moment, "account_ids": json_array(account_ids)}
    rows = {row.id: row for row in _turns_statement().rows(session, **values)}
    turns = []
    for account_id in account_ids:
        if (row := rows.get(account_id)) is None:
            continue  # deleted, with entries that the cleaning removes
        since = min((due_time for due_time in (row.first_high, row.first_normal) if due_time is not None), default=None)
        later = MessageCount(row.later_high + row.later_normal)
        numbers = MessageCount(row.high), MessageCount(row.normal), later, in_flight.get(account_id, 0)
        turns.append(Turn(row.id, row.name, *numbers, since))
    return turns


@lru_cache(maxsize=1)
def _turns_statement() -> PreparedStatement:
    columns = (
        *(_number(priority, later=False).label(priority) for priority in PRIORITIES),
        *(_number(priority, later=True).label(f"later_{priority}") for priority in PRIORITIES),
        *(_first_due(priority).label(f"first_{priority}") for priority in PRIORITIES),
    )
    account_ids = bindparam("account_ids", type_=String)
    return PreparedStatement(select(Account.id, Account.name, *columns).where(in_json(Account.id, account_ids)))


def _entries(priority: str, *, later: bool) -> Select[Any]:
    """The entries of the account of the statement around it, in the order of their index."""
    entry = aliased(QueueEntry)
    moment = bindparam("moment", type_=entry.due_time.type)
    is_due = entry.due_time > moment if later else entry.due_time <= moment
    account_filter = entry.state == QUEUED, entry.account_id == Account.id, entry.priority == PRIORITIES[priority]
    entries = select(entry.due_time).where(*account_filter, is_due).order_by(entry.due_time, entry.recipient_id)
    return entries.correlate(Account)


def _number(priority: str, *, later: bool) -> ScalarSelect[int]:
    entries = _entries(priority, later=later).limit(MAX_COUNT)
    return select(func.count()).select_from(entries.subquery()).scalar_subquery()


def _first_due(priority: str) -> ScalarSelect[Any]:
    """Since when the oldest message of the priority has been due: of the account of the statement around it."""
    return _entries(priority, later=False).limit(1).scalar_subquery()


def _in_flight(session: Session, account_ids: Collection[int], begin: QueueBegin) -> Mapping[int, int]:
    """Account -> how many of its messages are claimed."""
    entry = QueueEntry
    leased = select(entry.account_id).where(IS_SENDING, entry.lease_time >= begin.lease)
    some = leased.order_by(entry.lease_time).limit(MAX_IN_FLIGHT).subquery()
    counted = select(some.c.account_id, func.count()).where(in_json(some.c.account_id, account_ids))
    return {row[0]: row[1] for row in session.execute(counted.group_by(some.c.account_id))}


def switch_transport(transaction: Transaction, services: Services, name: str, *, enabled: bool) -> None:
    """Enables a transport, or disables it. Raises `ServiceError` (`invalid_id`) for one that has no row."""
    transport = find_transport(transaction, name)
    update_transport(transaction, services.settings.secret_keys, transport, {"enabled": enabled})
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))


# Pausing an account, a list or a domain in the console, and going on, as `sends pause` and `sends resume` do
# (docs/console-messages.md#queues).

KINDS = {"account": "All messages of the account", "list": "Messages to a list", "domain": "Mail to a domain"}
"""Kind -> its name in the form."""


@dataclass(frozen=True, slots=True)
class PauseForm:
    """What the form says; `of` is the list or the domain, and `account` the account that an operator names."""

    kind: str = ""
    of: str = ""
    reason: str = ""
    account: str = ""


NO_PAUSE = PauseForm()


def add_pause(transaction: Transaction, account_id: int | None, form: PauseForm) -> int:
    """Pauses it for the account; without an id for the one that the form names, and if it names none, for all; returns
    the id of the pause. Raises what `subject_of` and `pause` raise, and `invalid_string` for a form that says two
    things."""
    if form.kind not in KINDS:
        raise ServiceError("invalid_string", detail="Choose what to pause: an account, a list or a domain.")
    if form.kind == "account" and form.of:
        detail = f"To pause all messages of the account, leave out {form.of}. Otherwise, choose a list or a domain."
        raise ServiceError("invalid_string", detail=detail)
    if form.kind != "account" and not form.of:
        raise ServiceError("not_empty", detail=f"Enter the {form.kind}.")
    account: Account | None = None
    if account_id is not None:
        account = existing(transaction.get(Account, account_id), "account", account_id)
    elif form.account or form.kind != "domain":
        account = _named_account(transaction, form.account)
    list_name, domain = (form.of if form.kind == kind else None for kind in ("list", "domain"))
    return pause(transaction, subject_of(transaction, account, list_=list_name, domain=domain), form.reason).id


def end_pause(transaction: Transaction, services: Services, account_id: int | None, pause_id: int) -> None:
    """Goes on with what the account has paused, or any account for None. Raises `not_found`."""
    pause_row = find_pause_by_id(transaction, account_id, pause_id)
    if pause_row is None:
        raise ServiceError("not_found")
    resume(transaction, pause_row)
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))


def _named_account(transaction: Transaction, name: str) -> Account:
    if not name:
        raise ServiceError("not_empty", detail="Enter the account.")
    return find_account(transaction, name)


# Messages that wait for their next try, by the domain to which they go, and the domain back-offs
# (docs/console-messages.md#queues).
#
# Bounded: it reads those that are tried next, and the steps of their attempts.

MAX_DEFERRED = 200
"""Messages that are looked at: those that are tried next."""
MAX_BACKOFFS = 50
TEXT_MESSAGES = "text messages"
"""Stands for the domain of text messages."""
NO_ADDRESS = "no address"
"""Stands for the domain of a contact that is gone."""
Entry = Row[int, datetime]
"""Recipient and due time."""
Address = Row[int, str, str | None, str | None]
"""Recipient, type, address, and that of the contact."""
Attempt = Row[int, int, str | None, str | None]
"""Step, recipient, detail and note."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Deferred messages to one domain. `reason` is what the latest of their attempts met, and `note` what operators
    see in its place; both are None while none of them was attempted."""

    domain: str
    messages: int
    next_try: datetime
    last_try: datetime
    reason: str | None
    note: str | None


def deferred_by_domain(session: Session, account_id: int | None, moment: datetime) -> Sequence[Destination]:
    """The destinations of the account, or of all for None, the most messages first: three statements."""
    entries = session.execute(_next_tried(account_id, moment)).all()
    ids = [entry.recipient_id for entry in entries]
    domains, tried = _domains(session, ids), _last_attempts(session, ids)
    by_domain: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.recipient_id in domains:
            by_domain[domains[entry.recipient_id]].append(entry)
    destinations = [_destination(domain, domain_entries, tried) for domain, domain_entries in by_domain.items()]
    return sorted(destinations, key=lambda destination: (-destination.messages, destination.domain))


def _next_tried(account_id: int | None, moment: datetime) -> Select[int, datetime]:
    entry = QueueEntry
    columns = entry.recipient_id, entry.due_time
    if account_id is None:
        later = select(*columns).where(IS_READY, entry.ready_time > moment, entry.due_time > moment)
        return later.order_by(entry.ready_time).limit(MAX_DEFERRED)
    # By the index in which the entries of an account are in order, of each priority by itself.
    account_entries = select(*columns).where(
        entry.state == QUEUED, entry.account_id == account_id, entry.due_time > moment
    )
    each = [
        select(
            account_entries.where(entry.priority == priority)
            .order_by(entry.due_time, entry.recipient_id)
            .limit(MAX_DEFERRED)
            .subquery()
        )
        for priority in PRIORITIES.values()
    ]
    both = union_all(*each).subquery()
    return select(both.c.recipient_id, both.c.due_time).order_by(both.c.due_time).limit(MAX_DEFERRED)


def _domains(session: Session, ids: Sequence[int]) -> Mapping[int, str]:
    """Id of a recipient -> where its message goes; an address that the send left out is that of its contact."""
    columns = Recipient.id, Recipient.type, Recipient.email, Contact.email.label("of_contact")
    with_contacts = select(*columns).outerjoin(Contact, Contact.id == Recipient.contact_id)
    rows = session.execute(with_contacts.where(in_json(Recipient.id, ids), between_ids(Recipient.id, ids)))
    return {row.id: _domain(row) for row in rows}


def _domain(row: Address) -> str:
    if row.type == "sms":
        return TEXT_MESSAGES
    address = row.email or row.of_contact
    return domain_of(address) if address else NO_ADDRESS


def _last_attempts(session: Session, ids: Sequence[int]) -> Mapping[int, Attempt]:
    """Id of a recipient -> the step of its last attempt."""
    step = RecipientStep
    columns = step.id, step.recipient_id, step.detail, step.note
    attempt_filter = in_json(step.recipient_id, ids), between_ids(step.recipient_id, ids)
    rows = select(*columns).where(*attempt_filter, step.step == TimelineStep.DEFERRED).order_by(step.id)
    return {row.recipient_id: row for row in session.execute(rows)}


def _destination(domain: str, entries: Sequence[Entry], tried: Mapping[int, Attempt]) -> Destination:
    steps = [tried[entry.recipient_id] for entry in entries if entry.recipient_id in tried]
    last = max(steps, key=lambda step: step.id, default=None)
    times = [entry.due_time for entry in entries]
    reason = None if last is None else last.detail
    note = reason if last is None else last.note or reason
    return Destination(domain, len(entries), min(times), max(times), reason, note)


def backoffs(session: Session, account_id: int | None, moment: datetime) -> Sequence[Row[str, str, str, int, datetime]]:
    """The back-offs of the account, or of all for None, those that end first: account, sender's domain, domain, number
    of deferrals and end. One statement."""
    backoff = DomainBackoff
    columns = Account.name, backoff.sender_domain, backoff.domain, backoff.failures, backoff.until_time
    rows = select(*columns).join(Account, Account.id == backoff.account_id).where(backoff.until_time > moment)
    if account_id is not None:
        rows = rows.where(backoff.account_id == account_id)
    return session.execute(rows.order_by(backoff.until_time).limit(MAX_BACKOFFS)).all()
