"""The pauses that concern messages which a worker has claimed: one statement, nearly always without a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sqlalchemy import Select, String, bindparam, select, union_all
from sqlalchemy.orm import Session

from app.db.in_json import in_json, json_array
from app.db.models import Account, SendPause
from app.db.prepared import PreparedStatement


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


_OF_ACCOUNTS = in_json(SendPause.account_id, bindparam("accounts", type_=String))
ACTIVE = PreparedStatement(union_all(_active(_OF_ACCOUNTS), _active(SendPause.account_id.is_(None))))


def active_pauses(session: Session, account_ids: Iterable[int]) -> list[ActivePause]:
    """Those of the accounts, and of the whole installation; the oldest of each first."""
    rows = ACTIVE.tuples(session, accounts=json_array(set(account_ids)))
    return sorted(ActivePause._make(row) for row in rows)


def lock_active(session: Session, pause_ids: Collection[int]) -> set[int]:
    """Those of them that have not ended meanwhile. They do not before the end of the transaction, so that whoever ends
    one finds everything that it has put aside."""
    chosen = in_json(SendPause.id, pause_ids), SendPause.resumed_time.is_(None)
    return set(session.scalars(select(SendPause.id).where(*chosen).order_by(SendPause.id).with_for_update(read=True)))


def test_accounts(session: Session, account_ids: Iterable[int]) -> set[int]:
    """Those of the accounts whose messages are captured."""
    tests = select(Account.id).where(in_json(Account.id, set(account_ids)), Account.test_of.is_not(None))
    return set(session.scalars(tests))
