"""The pauses as people see them: in pages, in commands, and in what is said of a message."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, String, bindparam, func, null, or_, select, union_all
from sqlalchemy.orm import Session

from app.clock import timestamp
from app.db.expressions import in_json, json_array
from app.db.models import Account, List, QueueEntry, SendPause
from app.db.prepared import PreparedStatement
from app.distribution import COMMAND_LINE
from app.sends.pauses.pause import words_of
from app.sends.pauses.release import IS_PAUSED

MAX_SHOWN_PAUSES = 200
MAX_COUNTED_MESSAGES = 1000
"""Messages of a pause that are counted; more are shown as at least so many."""


class ShownPause(NamedTuple):
    """A pause with the names of what it is about. `waiting` are the messages that it has put aside, as far as they were
    counted; None where nobody asked."""

    id: int
    account_id: int | None
    account: str | None
    kind: str
    list_id: int | None
    list_name: str | None
    domain: str | None
    reason: str | None
    paused_by: str
    creation_time: datetime
    resumed_time: datetime | None
    waiting: int | None = None

    @property
    def is_everywhere(self) -> bool:
        """Whether the pause concerns every account."""
        return self.account_id is None

    @property
    def subject(self) -> str:
        """What is paused, in words."""
        return words_of(self.kind, self.list_name, self.domain, is_everywhere=self.is_everywhere)

    @property
    def is_least(self) -> bool:
        """Whether more messages may wait than were counted."""
        return self.waiting is not None and self.waiting >= MAX_COUNTED_MESSAGES

    @property
    def since(self) -> str:
        """Since when it is paused, by whom and why, for those who may know."""
        why = "" if self.reason is None else f" ({self.reason})"
        return f"since {timestamp(self.creation_time)} by {self.paused_by}{why}"

    @property
    def resuming(self) -> tuple[str, ...]:
        """The words of the command that goes on."""
        of = ("--everywhere",) if self.account is None else ("--account", self.account)
        narrower = {"list": ("--list", self.list_name or str(self.list_id)), "domain": ("--domain", self.domain or "")}
        return ("sends", "resume", *of, *narrower.get(self.kind, ()))


def _pauses(waiting: Any, *conditions: ColumnElement[bool]) -> Select[Any]:
    pause = SendPause
    subject: list[Any] = [pause.id, pause.account_id, Account.name, pause.kind, pause.list_id, List.name, pause.domain]
    further = [pause.reason, pause.paused_by, pause.creation_time, pause.resumed_time, waiting]
    joined = select(*subject, *further).outerjoin(Account, Account.id == pause.account_id)
    return joined.outerjoin(List, List.id == pause.list_id).where(*conditions)


def _waiting() -> ColumnElement[int]:
    some = (
        select(QueueEntry.recipient_id)
        .where(IS_PAUSED, QueueEntry.pause_id == SendPause.id)
        .limit(MAX_COUNTED_MESSAGES)
    )
    return select(func.count()).select_from(some.correlate(SendPause).subquery()).scalar_subquery()


def list_pauses(session: Session, account_id: int | None) -> Sequence[ShownPause]:
    """The newest of the account, or of the installation for None, those that have ended and still let go included: one
    statement, which counts up to `MAX_COUNTED_MESSAGES` messages of each."""
    conditions = () if account_id is None else (SendPause.account_id == account_id,)
    rows = _pauses(_waiting(), *conditions).order_by(SendPause.id.desc()).limit(MAX_SHOWN_PAUSES)
    return [ShownPause._make(row) for row in session.execute(rows)]


def shown_pause(session: Session, account_id: int | None, pause_id: int) -> ShownPause | None:
    """The pause of the account, or of any for None, unless it has ended: one statement, which counts as above."""
    conditions = () if account_id is None else (SendPause.account_id == account_id,)
    active = _pauses(_waiting(), SendPause.id == pause_id, SendPause.resumed_time.is_(None), *conditions)
    row = session.execute(active).first()
    return None if row is None else ShownPause._make(row)


def pauses_everywhere(session: Session) -> Sequence[ShownPause]:
    """The domains that are paused for all accounts; their messages are not counted, since they are of any account."""
    everywhere = SendPause.account_id.is_(None), SendPause.resumed_time.is_(None)
    rows = _pauses(null(), *everywhere).order_by(SendPause.domain).limit(MAX_SHOWN_PAUSES)
    return [ShownPause._make(row) for row in session.execute(rows)]


def active_shown(session: Session, account_id: int | None, most: int) -> Sequence[ShownPause]:
    """The newest that have not ended, those that concern the account or, for None, of all."""
    concerns = or_(SendPause.account_id == account_id, SendPause.account_id.is_(None))
    conditions = () if account_id is None else (concerns,)
    rows = _pauses(null(), *conditions, SendPause.resumed_time.is_(None)).order_by(SendPause.id.desc()).limit(most)
    return [ShownPause._make(row) for row in session.execute(rows)]


def pauses_concerning(
    session: Session, account: Account, *, list_id: int | None, domain: str | None
) -> Sequence[ShownPause]:
    """The pauses that keep messages of the account from such an address; none for a test account, whose messages are
    captured."""
    if account.test_of is not None:
        return []
    whole = SendPause.account_id == account.id, SendPause.kind == "account"
    list_filter = SendPause.account_id == account.id, SendPause.list_id == list_id
    domain_filter = or_(SendPause.account_id == account.id, SendPause.account_id.is_(None)), SendPause.domain == domain
    parts = [whole, *([list_filter] if list_id is not None else []), *([domain_filter] if domain is not None else [])]
    pauses = [
        ShownPause._make(row)
        for part in parts
        for row in session.execute(_pauses(null(), *part, SendPause.resumed_time.is_(None)))
    ]
    return sorted(pauses, key=lambda pause: pause.id)


def words(pauses: Sequence[ShownPause], most: int) -> Iterator[str]:
    """A sentence about each, for operators, up to so many."""
    for pause in pauses[:most]:
        whose = "" if pause.account is None or pause.kind == "account" else f" of {pause.account}"
        subject = f"the account {pause.account}" if pause.kind == "account" else f"{pause.subject}{whose}"
        yield f"paused: {subject}, {pause.since}; to resume, run `{COMMAND_LINE} {shlex.join(pause.resuming)}`"
    if len(pauses) > most:
        yield f"more pauses: `{COMMAND_LINE} sends pauses`"


# The pauses that concern messages which a worker has claimed: one statement, nearly always without a row.


class ActivePause(NamedTuple):
    """A pause, as far as it says which messages it concerns."""

    id: int
    account_id: int | None
    kind: str
    list_id: int | None
    domain: str | None


def _active(*conditions: Any) -> Select[Any]:
    columns = (getattr(SendPause, name) for name in ActivePause._fields)
    return select(*columns).where(*conditions, SendPause.resumed_time.is_(None))


_ACCOUNT_FILTER = in_json(SendPause.account_id, bindparam("accounts", type_=String))
ACTIVE_PAUSES = PreparedStatement(union_all(_active(_ACCOUNT_FILTER), _active(SendPause.account_id.is_(None))))


def active_pauses(session: Session, account_ids: Iterable[int]) -> list[ActivePause]:
    """The active pauses of the accounts, and of the whole installation; the oldest of each first."""
    rows = ACTIVE_PAUSES.tuples(session, accounts=json_array(set(account_ids)))
    return sorted(ActivePause._make(row) for row in rows)


def lock_active(session: Session, pause_ids: Collection[int]) -> set[int]:
    """The ids of the pauses that have not ended meanwhile. Such a pause does not end before the transaction, so that
    whoever ends it finds everything that it has put aside."""
    chosen = in_json(SendPause.id, pause_ids), SendPause.resumed_time.is_(None)
    return set(session.scalars(select(SendPause.id).where(*chosen).order_by(SendPause.id).with_for_update(read=True)))


def test_accounts(session: Session, account_ids: Iterable[int]) -> set[int]:
    """The accounts among these whose messages are captured."""
    tests = select(Account.id).where(in_json(Account.id, set(account_ids)), Account.test_of.is_not(None))
    return set(session.scalars(tests))
