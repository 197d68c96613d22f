"""Signing in to the console: links that work once, and sessions, which end with their key or with the role of their
person (docs/console.md#sessions, docs/sign-in.md#sessions).

Tokens have 256 random bits, so their SHA-256 is stored without salt. Each sign-in has a token of its own: nobody can
make a browser use a session that somebody else knows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, and_, delete, or_, select
from sqlalchemy.orm import Session

from app.accounts.auth import LIMITED, MANAGE, MANAGER, SCOPES, STANDARD, Principal, hash_token
from app.audit.actor import ActorKind, current_actor, name_of_person
from app.audit.record import Act, record
from app.clock import now, this_second
from app.db.database import Transaction
from app.db.models import Account, ApiKey, ConsoleLink, ConsolePerson, ConsoleSession
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.roles import OPERATOR_ROLE, READER_ROLE
from app.secret_keys import encrypt
from app.settings import Settings

# What a session may see beyond the scopes of keys. Pure.

OPERATOR = "operator"
"""The scope of pages about the whole installation, which no key has."""
READER_SCOPES = (*LIMITED, "list.view", "contact.view")
"""What readers may: see, and change nothing."""


MANAGER_DETAIL = f"A key of the level manager cannot sign in. `{COMMAND_LINE} console login` prints a link that can."
LINK_LIFETIME = timedelta(minutes=5)
MAX_SESSIONS = 100

KEY_IS_VALID = or_(
    ConsoleSession.key_id.is_(None),
    and_(
        ApiKey.revoked_time.is_(None),
        ApiKey.expiry_time.is_(None),
        ApiKey.access_level != MANAGER,
        # The same row may have got another token since: that is another key.
        ApiKey.creation_time <= ConsoleSession.creation_time,
    ),
)
SELECT_SESSIONS = (
    select(
        *(ConsoleSession.id, ConsoleSession.account_id, ConsoleSession.key_id, ConsoleSession.name),
        *(ConsoleSession.creation_time, ConsoleSession.end_time, ConsoleSession.person_id, ConsoleSession.role),
        *(ConsolePerson.issuer, ConsolePerson.grants, ConsolePerson.name.label("person_name")),
        *(ApiKey.access_level, ApiKey.valid_until, Account.allowed_networks, Account.rate_limit, Account.test_of),
        Account.name.label("account_name"),
    )
    .outerjoin(ApiKey, ApiKey.id == ConsoleSession.key_id)
    .outerjoin(Account, Account.id == ConsoleSession.account_id)
    .outerjoin(ConsolePerson, ConsolePerson.id == ConsoleSession.person_id)
    .where(KEY_IS_VALID)
)


class Grant(NamedTuple):
    """A role, and the id of the account in which a person has it; None for all accounts."""

    role: str
    account_id: int | None


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that is signed in: `account_id` and `account_name` are None for who sees all accounts, `key_id` unless
    a key has signed in. `name` is that of the key, of the user who made the link, or the number of the person.
    `role`, `issuer`, `grants` and the `person_` attributes are about who signed in by OpenID Connect."""

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
    role: str | None = None
    person_id: int | None = None
    person_name: str | None = None
    issuer: str | None = None
    grants: tuple[Grant, ...] = ()

    @property
    def sees_all_accounts(self) -> bool:
        """Whether the session is of no single account: that of an operator, or of a reader of all accounts."""
        return self.account_id is None

    @property
    def is_operator(self) -> bool:
        """Whether an operator is signed in, from whom nothing of the installation is kept."""
        return OPERATOR in self.scopes

    @property
    def actor_kind(self) -> ActorKind:
        """What the audit log calls whoever is signed in."""
        if self.person_id is not None:
            return "person"
        return "command" if self.key_id is None else "key"

    @property
    def visible_name(self) -> str:
        """Who is signed in, for people."""
        return self.person_name or self.name

    def is_accepted(self, settings: Settings) -> bool:
        """Whether the settings still let whoever has signed in so be signed in."""
        if self.person_id is not None:
            return self.issuer == settings.oidc_issuer
        return self.role is not None or not settings.oidc_only

    @property
    def sees_tests(self) -> bool:
        """Whether it sees what test keys have sent: those keys do, and whom a link has signed in. Another key of the
        account sees nothing of its test account (docs/testing.md#test-keys)."""
        return self.is_test or MANAGE in self.scopes


def make_link(transaction: Transaction, account: Account | None, *, emergency: bool = False) -> str:
    """The token of a link that signs in once; without an account, an operator. One for an emergency does so even if
    people sign in by their provider alone."""
    token = secrets.token_urlsafe(32)
    actor = current_actor()
    link = ConsoleLink(
        token_hash=hash_token(token),
        account_id=account.id if account else None,
        made_by=actor.name,
        end_time=now() + LINK_LIFETIME,
        emergency=emergency,
    )
    transaction.add(link)
    transaction.flush()
    record(transaction, Act("session.offered", link.account_id))
    return token


def link_url(base: str, token: str) -> str:
    """The link with that token, to the service with this base of its URLs."""
    return f"{base}/console/login/{token}"


def start_with_key(transaction: Transaction, key: Principal, lifetime: timedelta) -> str:
    """Starts a session of the key; returns its token. Raises `ServiceError` (`permission_denied`) for a key of the
    level manager, which is for programs: with a session it could make further keys of its level."""
    if key.access_level == MANAGER:
        raise ServiceError("permission_denied", detail=MANAGER_DETAIL)
    row = ConsoleSession(account_id=key.account_id, key_id=key.key_id, name=key.key_name)
    return _start(transaction, row, this_second() + lifetime)


def start_with_link(transaction: Transaction, link_token: str, lifetime: timedelta) -> str:
    """Uses the link up, and starts its session; returns the token of that. Raises `ServiceError` (`not_found`) for a
    link that was used, or has ended."""
    is_valid_link = ConsoleLink.token_hash == hash_token(link_token), ConsoleLink.end_time > now()
    columns = ConsoleLink.account_id, ConsoleLink.made_by, ConsoleLink.emergency
    link = transaction.execute(delete(ConsoleLink).where(*is_valid_link).returning(*columns)).first()
    if link is None:
        raise ServiceError("not_found", detail="This link was already used, or it is older than five minutes.")
    role = OPERATOR_ROLE if link.emergency else None
    row = ConsoleSession(account_id=link.account_id, name=link.made_by, role=role)
    return _start(transaction, row, this_second() + lifetime)


@dataclass(frozen=True, slots=True)
class Continuation:
    """How long a person may stay signed in, and the refresh token with which the provider is asked from `check_time`
    on whether the person still has the role, as it is stored; None for one who is not asked about."""

    end_time: datetime
    check_time: datetime | None = None
    stored_token: str | None = None


def start_for_person(transaction: Transaction, person_id: int, grant: Grant, continuation: Continuation) -> str:
    """Starts a session of somebody who has signed in by OpenID Connect; returns its token."""
    row = ConsoleSession(
        account_id=grant.account_id,
        name=name_of_person(person_id),
        person_id=person_id,
        role=grant.role,
        refresh_token=continuation.stored_token,
        check_time=continuation.check_time,
    )
    return _start(transaction, row, continuation.end_time)


def switch_role(transaction: Transaction, session_id: int, grant: Grant) -> str | None:
    """Ends a person's session and starts one with another role of the same person, which lasts no longer; returns its
    token. None if the session has ended."""
    columns = ConsoleSession.person_id, ConsoleSession.end_time, ConsoleSession.check_time, ConsoleSession.refresh_token
    # A worker that stores a new refresh token meanwhile waits, or this waits for it.
    row = transaction.execute(select(*columns).where(ConsoleSession.id == session_id).with_for_update()).first()
    if row is None or row.person_id is None or not end_session(transaction, session_id):
        return None
    continuation = Continuation(row.end_time, row.check_time, row.refresh_token)
    return start_for_person(transaction, row.person_id, grant, continuation)


def encrypted_refresh_token(settings: Settings, token: str | None) -> str | None:
    """A refresh token as a session stores it."""
    return None if token is None else encrypt(settings.secret_key, token)


def _start(transaction: Transaction, session: ConsoleSession, end_time: datetime) -> str:
    """Starts a session, whose token it returns."""
    token = secrets.token_urlsafe(32)
    session.token_hash, session.creation_time, session.end_time = hash_token(token), this_second(), end_time
    transaction.add(session)
    transaction.flush()
    record(transaction, Act("session.started", session.account_id, session.id, session.name))
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
        role=row.role,
        person_id=row.person_id,
        person_name=row.person_name,
        issuer=row.issuer,
        grants=tuple(Grant(role, account_id) for role, account_id in row.grants or ()),
    )


def _scopes(row: Row[Any]) -> tuple[str, ...]:
    """A key has those of its level. A link was made on the command line, which may do more than any key; so may those
    whom a provider names operators or managers."""
    if row.role == READER_ROLE:
        return READER_SCOPES
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
