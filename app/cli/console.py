"""`flask console`: links that sign in to the console, its sessions, and the people who sign in by OpenID Connect
(docs/console.md#signing-in, docs/sign-in.md)."""

from __future__ import annotations

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.accounts.sessions import LINK_LIFETIME, end_session, link_url, list_sessions, make_link
from app.cli.base import CommandResult, Group, Row, WrongValue, account_option
from app.db.database import Transaction
from app.errors import ServiceError
from app.http.context import services
from app.infrastructure.running_service import running_url
from app.maintenance.words import counted
from app.services import Services
from app.sign_in.attempts import callback_url
from app.sign_in.people import forget_console_person, list_people
from app.sign_in.provider import Provider, ProviderUnavailable

group = Group("console", help="Links that sign in to the console, its sessions, and people who sign in.")


@group.writes("login", "installation")
@account_option
@click.option("--operator", is_flag=True, help="Sign in as an operator, who sees all accounts and the processes.")
@click.option("--emergency", is_flag=True, help="Sign in an operator even if OIDC_ONLY is on.")
def login(transaction: Transaction, account: str | None, operator: bool, emergency: bool) -> CommandResult:
    """Print a link that signs in to the console. It works once and expires after five minutes. It leads to the
    service that runs in DATA_DIR on this machine, or else to PUBLIC_URL."""
    if (operator or emergency) and account is not None:
        raise WrongValue("use either --account or --operator")
    settings = services().settings
    if not settings.console:
        raise WrongValue("the console is switched off: CONSOLE=off")
    if settings.oidc_only and not emergency:
        raise WrongValue("links do not sign in: OIDC_ONLY=on; in an emergency, use --emergency")
    account_of_link = None if operator or emergency else find_account(transaction, account)
    token = make_link(transaction, account_of_link, emergency=emergency)
    url = link_url(running_url(settings.data_dir) or settings.public_url, token)
    return CommandResult(url, {"url": url, "seconds": int(LINK_LIFETIME.total_seconds())})


@group.reads("sessions", "installation")
def sessions(session: Session) -> list[Row]:
    """Show the open sessions, newest first."""
    return [
        {
            "id": row.id,
            "account": row.account_name,
            "signed_in_by": "provider" if row.person_id else "link" if row.key_id is None else "key",
            "name": row.name,
            "person": row.person_name,
            "role": row.role,
            "creation_time": row.creation_time,
            "end_time": row.end_time,
        }
        for row in list_sessions(session)
    ]


@group.writes("sign-out", "installation")
@click.argument("session_id", metavar="ID", type=click.IntRange(1))
def sign_out(transaction: Transaction, session_id: int) -> CommandResult:
    """End a session. The user has to sign in again."""
    if not end_session(transaction, session_id):
        raise ServiceError("invalid_id", field="id", detail=f"there is no session {session_id}")
    return CommandResult(f"session {session_id} has ended", {"id": session_id, "ended": True})


@group.reads("people", "installation")
def people(session: Session) -> list[Row]:
    """Show who has signed in by OpenID Connect, by number, with their roles. An account of a role is shown by its
    id."""
    return [
        {
            "id": row.id,
            "name": row.name,
            "email": row.email,
            "roles": [f"{role}:{account_id}" if account_id else role for role, account_id in row.grants],
            "sessions": row.sessions,
            "issuer": row.issuer,
            "subject": row.subject,
        }
        for row in list_people(session)
    ]


@group.writes("forget", "installation")
@click.argument("person_id", metavar="ID", type=click.IntRange(1))
def forget(transaction: Transaction, person_id: int) -> CommandResult:
    """Forget the name and email address of a person who signed in by OpenID Connect, and end the person's sessions.
    The audit log keeps what the person did, under the number only. Remove the role at the provider, too. Otherwise the
    person can sign in again, under another number."""
    ended = forget_console_person(transaction, person_id)
    return CommandResult(
        f"person {person_id} is forgotten", {"id": person_id, "forgotten": True, "sessions_ended": ended}
    )


@group.runs("provider", "installation")
def provider(parts: Services) -> CommandResult:
    """Check that the provider of OpenID Connect answers with its description and its keys. Show the redirect URI to
    register there. Exit with 1 if there is a problem."""
    settings = parts.settings
    if not settings.oidc_issuer:
        raise WrongValue("no provider is set: OIDC_ISSUER")
    facts: Row = {"issuer": settings.oidc_issuer, "redirect_uri": callback_url(settings)}
    lines = f"redirect URI: {facts['redirect_uri']}"
    try:
        description = Provider(settings).describe()
    except ProviderUnavailable as error:
        return CommandResult(f"{lines}\nproblem: {error}", {**facts, "problem": str(error)}, exit_code=1)
    facts = {**facts, **description.endpoints, "keys": len(description.keys.keys), "problem": None}
    return CommandResult(f"{lines}\nthe provider answers, with {counted(facts['keys'], 'key')}", facts)
