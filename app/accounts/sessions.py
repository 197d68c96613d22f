"""Signing in to the console: links that work once, and sessions, which end with their key (docs/console.md#sessions).

Tokens have 256 random bits, so their SHA-256 is stored without salt. Each sign-in has a token of its own: nobody can
make a browser use a session that somebody else knows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, delete, or_, select
from sqlalchemy.orm import Session

from app.accounts.auth import SCOPES, STANDARD, Principal, hash_token
from app.audit.actor import current_actor
from app.audit.record import Act, record
from app.clock import now, this_second
from app.db.database import Transaction
from app.db.models import Account, ApiKey, ConsoleLink, ConsoleSession
from app.errors import ServiceError

# What a session may see beyond the scopes of keys. Pure.

OPERATOR = "operator"
"""The scope of pages about the whole installation, which no key has."""
MANAGE = "manage"
"""The scope of keys and webhooks, which no key has: who reads one from an application's settings can neither make
another one nor have events sent elsewhere. Sessions have it that a link of the command line began."""


LINK_LIFETIME = timedelta(minutes=5)
MAX_SESSIONS = 100

KEY_IS_VALID = or_(
    ConsoleSession.key_id.is_(None),
    and_(
        ApiKey.revoked_time.is_(None),
        ApiKey.expiry_time.is_(None),
        # The same row may have got another token since: that is another key.
        ApiKey.creation_time <= ConsoleSession.creation_time,
    ),
)
SELECT_SESSIONS = (
    select(
        *(ConsoleSession.id, ConsoleSession.account_id, ConsoleSession.key_id, ConsoleSession.name),
        *(ConsoleSession.creation_time, ConsoleSession.end_time),
        *(ApiKey.access_level, ApiKey.valid_until, Account.allowed_networks, Account.rate_limit, Account.test_of),
        Account.name.label("account_name"),
    )
    .outerjoin(ApiKey, ApiKey.id == ConsoleSession.key_id)
    .outerjoin(Account, Account.id == ConsoleSession.account_id)
    .where(KEY_IS_VALID)
)


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that is signed in: `account_id` and `account_name` are None for an operator, `key_id` for one that a
    link has signed in. `name` is that of the key, or of the user who made the link."""

    session_id: int
    account_id: int | None
    account_name: str | None
    key_id: int | None
    name: str
    scopes: tuple[str, ...]
    allowed_networks: tuple[str, ...]
    rate_limit: str | None
    is_test: bool
    end_time: datetime

    @property
    def is_operator(self) -> bool:
        """Whether the session sees all accounts."""
        return self.account_id is None

    @property
    def sees_tests(self) -> bool:
        """Whether it sees what test keys have sent: those keys do, and whom a link has signed in. Another key of the
        account sees nothing of its test account (docs/testing.md#test-keys)."""
        return self.is_test or MANAGE in self.scopes


def make_link(transaction: Transaction, account: Account | None) -> str:
    """The token of a link that signs in once; without an account, an operator."""
    token = secrets.token_urlsafe(32)
    actor = current_actor()
    link = ConsoleLink(
        token_hash=hash_token(token),
        account_id=account.id if account else None,
        made_by=actor.name,
        end_time=now() + LINK_LIFETIME,
    )
    transaction.add(link)
    transaction.flush()
    record(transaction, Act("session.offered", link.account_id))
    return token


def link_url(base: str, token: str) -> str:
    """The link with that token, to the service with this base of its URLs."""
    return f"{base}/console/login/{token}"


def start_with_key(transaction: Transaction, key: Principal, lifetime: timedelta) -> str:
    """Starts a session of the key; returns its token."""
    return _start(transaction, key.account_id, key.key_id, key.key_name, lifetime)


def start_with_link(transaction: Transaction, link_token: str, lifetime: timedelta) -> str:
    """Uses the link up, and starts its session; returns the token of that. Raises `ServiceError` (`not_found`) for a
    link that was used, or has ended."""
    is_valid_link = ConsoleLink.token_hash == hash_token(link_token), ConsoleLink.end_time > now()
    used = delete(ConsoleLink).where(*is_valid_link).returning(ConsoleLink.account_id, ConsoleLink.made_by)
    link = transaction.execute(used).first()
    if link is None:
        raise ServiceError("not_found", detail="This link was already used, or it is older than five minutes.")
    return _start(transaction, link.account_id, None, link.made_by, lifetime)


def _start(transaction: Transaction, account_id: int | None, key_id: int | None, name: str, lifetime: timedelta) -> str:
    token, moment = secrets.token_urlsafe(32), this_second()
    session = ConsoleSession(
        token_hash=hash_token(token),
        account_id=account_id,
        key_id=key_id,
        name=name,
        creation_time=moment,
        end_time=moment + lifetime,
    )
    transaction.add(session)
    transaction.flush()
    record(transaction, Act("session.started", account_id, session.id, name))
    return token


def find_session(session: Session, token: str) -> BrowserSession | None:
    """Who is signed in with the token; None if nobody is: it is unknown, it has ended, or its key has."""
    is_valid_session = ConsoleSession.token_hash == hash_token(token), ConsoleSession.end_time > now()
    row = session.execute(SELECT_SESSIONS.where(*is_valid_session)).first()
    if row is None or (row.valid_until is not None and row.valid_until <= now()):
        return None
    return BrowserSession(
        session_id=row.id,
        account_id=row.account_id,
        account_name=row.account_name,
        key_id=row.key_id,
        name=row.name,
        scopes=_scopes(row),
        allowed_networks=tuple(row.allowed_networks or ()),
        rate_limit=row.rate_limit,
        is_test=row.test_of is not None,
        end_time=row.end_time,
    )


def _scopes(row: Row[Any]) -> tuple[str, ...]:
    """A key has those of its level. A link was made on the command line, which may do more than any key."""
    if row.account_id is None:
        return (*STANDARD, MANAGE, OPERATOR)
    return (*STANDARD, MANAGE) if row.key_id is None else SCOPES[row.access_level]


def end_session(transaction: Transaction, session_id: int) -> bool:
    """Ends a session; returns whether it had not ended before."""
    ended = delete(ConsoleSession).where(ConsoleSession.id == session_id)
    row = transaction.execute(ended.returning(ConsoleSession.account_id, ConsoleSession.name)).first()
    if row is not None:
        record(transaction, Act("session.ended", row.account_id, session_id, row.name))
    return row is not None


def list_sessions(session: Session) -> Sequence[Row[Any]]:
    """The newest sessions that have not ended, over all accounts."""
    newest = SELECT_SESSIONS.where(ConsoleSession.end_time > now()).order_by(ConsoleSession.id.desc())
    return session.execute(newest.limit(MAX_SESSIONS)).all()
