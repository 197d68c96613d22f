"""The send queue account by account, as claims take from it in turn (docs/console.md#queues).

Bounded: of each account it reads so many entries at most, in the order of the index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ScalarSelect, Select, func, select
from sqlalchemy.orm import Session, aliased

from app.accounts.find import find_account
from app.db.database import Transaction
from app.db.due import look_at_all
from app.db.expressions import in_json
from app.db.models import Account, QueueEntry
from app.db.queue import PRIORITIES, QUEUED, SEND_QUEUE
from app.errors import ServiceError
from app.ids import existing
from app.infrastructure.redis_client import SENDS
from app.recipients.conditions import IS_SENDING
from app.routing.transports import find_transport, update_transport
from app.sends.pauses.pause import find_pause_by_id, pause, resume, subject_of
from app.sends.queue_begin import QueueBegin
from app.services import Services

PATH = "/console/queues"
MOST = 50
"""Accounts that the page shows: those whose oldest message has been due for longest."""
MOST_COUNTED = 1000
"""Messages of an account, a priority and a state that are counted; more are shown as at least so many."""
MOST_IN_FLIGHT = 10_000
"""Messages in flight that are looked at."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages of an account; a number may be the least that there are."""

    number: int

    @property
    def is_least(self) -> bool:
        """Whether there may be more."""
        return self.number >= MOST_COUNTED


@dataclass(frozen=True, slots=True)
class Turn:
    """An account that claims take from: what is due of each priority and since when, what is in flight, and what is
    due later."""

    account_id: int
    name: str
    high: Waiting
    normal: Waiting
    later: Waiting
    in_flight: int
    due_since: datetime | None

    @property
    def due(self) -> Waiting:
        """What is due of both."""
        return Waiting(self.high.number + self.normal.number)


@dataclass(frozen=True, slots=True)
class Turns:
    """The accounts in turn, those that have waited longest first, and how many there are with those that are not
    shown."""

    shown: Sequence[Turn]
    accounts: int


def turns_of_all(session: Session, begin: QueueBegin, moment: datetime) -> Turns:
    """Every account that has messages due: three statements, the first of which reads a few entries per account."""
    found = look_at_all(SEND_QUEUE, session, moment)
    since = {account_id: min(one.due_time for one in own.values()) for account_id, own in found.items()}
    first = sorted(since, key=lambda account_id: (since[account_id], account_id))[:MOST]
    return Turns(_turns(session, first, begin, moment), len(since))


def turn_of(session: Session, account: Account, begin: QueueBegin, moment: datetime) -> Turn:
    """One account: two statements."""
    (found,) = _turns(session, [account.id], begin, moment)
    return found


def _turns(session: Session, account_ids: Sequence[int], begin: QueueBegin, moment: datetime) -> Sequence[Turn]:
    """In the order of the ids."""
    in_flight = _in_flight(session, account_ids, begin)
    columns = (
        *(_number(priority, moment, later=False).label(priority) for priority in PRIORITIES),
        *(_number(priority, moment, later=True).label(f"later_{priority}") for priority in PRIORITIES),
        *(first_due(priority, moment).label(f"first_{priority}") for priority in PRIORITIES),
    )
    wanted = select(Account.id, Account.name, *columns).where(in_json(Account.id, account_ids))
    rows = {row.id: row for row in session.execute(wanted)}
    found = []
    for account_id in account_ids:
        if (row := rows.get(account_id)) is None:
            continue  # deleted, with entries that the cleaning removes
        since = min((one for one in (row.first_high, row.first_normal) if one is not None), default=None)
        later = Waiting(row.later_high + row.later_normal)
        of_account = Waiting(row.high), Waiting(row.normal), later, in_flight.get(account_id, 0)
        found.append(Turn(row.id, row.name, *of_account, since))
    return found


def _entries(priority: str, moment: datetime, *, later: bool) -> Select[Any]:
    """The entries of the account of the statement around it, in the order of their index."""
    entry = aliased(QueueEntry)
    is_due = entry.due_time > moment if later else entry.due_time <= moment
    of_account = entry.state == QUEUED, entry.account_id == Account.id, entry.priority == PRIORITIES[priority]
    entries = select(entry.due_time).where(*of_account, is_due).order_by(entry.due_time, entry.recipient_id)
    return entries.correlate(Account)


def _number(priority: str, moment: datetime, *, later: bool) -> ScalarSelect[int]:
    entries = _entries(priority, moment, later=later).limit(MOST_COUNTED)
    return select(func.count()).select_from(entries.subquery()).scalar_subquery()


def first_due(priority: str, moment: datetime) -> ScalarSelect[Any]:
    """Since when the oldest message of the priority has been due: of the account of the statement around it."""
    return _entries(priority, moment, later=False).limit(1).scalar_subquery()


def _in_flight(session: Session, account_ids: Collection[int], begin: QueueBegin) -> Mapping[int, int]:
    """Account -> how many of its messages are claimed."""
    entry = QueueEntry
    leased = select(entry.account_id).where(IS_SENDING, entry.lease_time >= begin.lease)
    some = leased.order_by(entry.lease_time).limit(MOST_IN_FLIGHT).subquery()
    counted = select(some.c.account_id, func.count()).where(in_json(some.c.account_id, account_ids))
    return {row[0]: row[1] for row in session.execute(counted.group_by(some.c.account_id))}


def switch_transport(transaction: Transaction, services: Services, name: str, *, enabled: bool) -> None:
    """Pauses a transport, or lets it go on. Raises `ServiceError` (`invalid_id`) for one that has no row."""
    transport = find_transport(transaction, name)
    update_transport(transaction, services.settings.secret_keys, transport, {"enabled": enabled})
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))


# Pausing an account, a list or a domain in the console, and going on, as `sends pause` and `sends resume` do
# (docs/console.md#queues).

KINDS = {"account": "Everything of the account", "list": "What is sent to a list", "domain": "Mail to a domain"}
"""Kind -> its name in the form."""


@dataclass(frozen=True, slots=True)
class PauseForm:
    """What the form says; `of` is the list or the domain, and `account` the account that an operator names."""

    kind: str = ""
    of: str = ""
    reason: str = ""
    account: str = ""


NO_PAUSE = PauseForm()


def add_pause(transaction: Transaction, account_id: int | None, form: PauseForm) -> None:
    """Pauses it for the account; without an id for the one that the form names, and if it names none, for all. Raises
    what `subject_of` and `pause` raise, and `invalid_string` for a form that says two things."""
    if form.kind not in KINDS:
        raise ServiceError("invalid_string", field="kind", detail="Say what to pause: an account, a list or a domain.")
    if form.kind == "account" and form.of:
        detail = f"Everything of the account, or only {form.of}? Leave the field empty, or choose a list or a domain."
        raise ServiceError("invalid_string", field="of", detail=detail)
    if form.kind != "account" and not form.of:
        raise ServiceError("not_empty", field="of", detail=f"Name the {form.kind}.")
    account: Account | None = None
    if account_id is not None:
        account = existing(transaction.get(Account, account_id), "account", account_id)
    elif form.account or form.kind != "domain":
        account = _named(transaction, form.account)
    of_list, of_domain = (form.of if form.kind == one else None for one in ("list", "domain"))
    pause(transaction, subject_of(transaction, account, list_=of_list, domain=of_domain), form.reason)


def end_pause(transaction: Transaction, services: Services, account_id: int | None, pause_id: int) -> None:
    """Goes on with what the account has paused, or any account for None. Raises `not_found`."""
    found = find_pause_by_id(transaction, account_id, pause_id)
    if found is None:
        raise ServiceError("not_found")
    resume(transaction, found)
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))


def _named(transaction: Transaction, name: str) -> Account:
    if not name:
        raise ServiceError("not_empty", field="account", detail="Name the account.")
    return find_account(transaction, name)
