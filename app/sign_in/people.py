"""People who have signed in by OpenID Connect: what is kept about them, their roles, and forgetting them
(docs/sign-in.md#people)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, func, select
from sqlalchemy.orm import Session

from app.accounts.sessions import Grant, end_session
from app.audit.actor import name_of_person
from app.audit.record import Act, record
from app.clock import now, this_second
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Account, ConsolePerson, ConsoleSession
from app.db.models.base import apply_changes
from app.db.types import storable_text
from app.errors import ServiceError
from app.roles import NamedGrant, grants_of
from app.settings import Settings
from app.sign_in.id_tokens import Claims, claim_at, values_of

LONGEST_NAME = 100
LONGEST_EMAIL = 254
MOST_GRANTS = 200
"""Accounts in which a person has a role."""
MOST_PEOPLE = 1000
"""People that a command lists."""


def named_grants(settings: Settings, claims: Claims) -> Sequence[NamedGrant]:
    """The roles that the settings give to whoever has these claims."""
    values = values_of(claim_at(claims, settings.oidc_role_claim))
    return grants_of(settings.oidc_roles, values)[:MOST_GRANTS]


def grants_in(session: Session, named: Sequence[NamedGrant]) -> Sequence[Grant]:
    """The grants with the ids of their accounts; without those of accounts that do not exist."""
    names = [grant.account_name for grant in named if grant.account_name is not None]
    accounts = select(Account.name, Account.id).where(in_json(Account.name, names), Account.test_of.is_(None))
    ids = {row.name: row.id for row in session.execute(accounts)}
    return [
        Grant(grant.role, ids.get(grant.account_name or ""))
        for grant in named
        if grant.account_name is None or grant.account_name in ids
    ]


def store_person(
    transaction: Transaction, issuer: str, subject: str, claims: Claims, grants: Sequence[Grant]
) -> ConsolePerson:
    """The person with that identity, with what the provider says now."""
    identity = {"issuer": issuer, "subject": subject}
    times = {"creation_time": this_second(), "last_modified_time": this_second()}
    insert_new_rows(transaction, ConsolePerson, [{**identity, **times, "grants": []}])
    person = transaction.scalars(select(ConsolePerson).filter_by(**identity)).one()
    name = _text(claims.get("name") or claims.get("preferred_username") or claims.get("email"), LONGEST_NAME)
    apply_changes(
        person,
        {
            **{"name": name, "email": _text(claims.get("email"), LONGEST_EMAIL)},
            "grants": [list(grant) for grant in grants],
        },
    )
    return person


def _text(claim: Any, longest: int) -> str | None:
    return storable_text(claim, longest) or None if isinstance(claim, str) else None


def end_sessions_beyond(transaction: Transaction, person_id: int, grants: Sequence[Grant]) -> int:
    """Ends the person's sessions whose role is none of the grants; returns their number."""
    columns = ConsoleSession.id, ConsoleSession.role, ConsoleSession.account_id
    rows = transaction.execute(select(*columns).where(ConsoleSession.person_id == person_id)).all()
    ended = [row.id for row in rows if Grant(row.role, row.account_id) not in grants]
    return sum(end_session(transaction, session_id) for session_id in ended)


def list_people(session: Session) -> Sequence[Row[Any]]:
    """Who has signed in, by number, with how many sessions each has now."""
    is_open = (ConsoleSession.person_id == ConsolePerson.id) & (ConsoleSession.end_time > now())
    columns = ConsolePerson.id, ConsolePerson.name, ConsolePerson.email, ConsolePerson.issuer, ConsolePerson.subject
    people = (
        select(*columns, ConsolePerson.grants, ConsolePerson.last_modified_time)
        .add_columns(func.count(ConsoleSession.id).label("sessions"))
        .outerjoin(ConsoleSession, is_open)
        .group_by(ConsolePerson.id)
        .order_by(ConsolePerson.id)
        .limit(MOST_PEOPLE)
    )
    return session.execute(people).all()


def forget_console_person(transaction: Transaction, person_id: int) -> int:
    """Forgets who the person with that number is, and ends the sessions; returns their number. What the person has done
    stays in the audit log under the number. Raises `invalid_id`."""
    ended = end_sessions_beyond(transaction, person_id, ())
    deleted = delete(ConsolePerson).where(ConsolePerson.id == person_id).returning(ConsolePerson.id)
    if transaction.execute(deleted).first() is None:
        raise ServiceError("invalid_id", field="id", detail=f"there is no person {person_id}")
    record(transaction, Act("person.forgotten", None, name_of_person(person_id), counts={"sessions": ended}))
    return ended
