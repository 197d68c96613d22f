"""`flask console`: links that sign in to the console, and its sessions (docs/console.md#signing-in)."""

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

group = Group("console", help="Links that sign in to the console, and sessions of the console.")


@group.writes("login", "installation")
@account_option
@click.option("--operator", is_flag=True, help="Sign in as an operator, who sees all accounts and the processes.")
def login(transaction: Transaction, account: str | None, operator: bool) -> CommandResult:
    """Print a link that signs in to the console. It works once and expires after five minutes. It leads to the
    service that runs in DATA_DIR on this machine, or else to PUBLIC_URL."""
    if operator and account is not None:
        raise WrongValue("use either --account or --operator")
    settings = services().settings
    if not settings.console:
        raise WrongValue("the console is switched off: CONSOLE=off")
    token = make_link(transaction, None if operator else find_account(transaction, account))
    url = link_url(running_url(settings.data_dir) or settings.public_url, token)
    return CommandResult(url, {"url": url, "seconds": int(LINK_LIFETIME.total_seconds())})


@group.reads("sessions", "installation")
def sessions(session: Session) -> list[Row]:
    """Show the open sessions, newest first."""
    return [
        {
            "id": row.id,
            "account": row.account_name,
            "signed_in_by": "link" if row.key_id is None else "key",
            "name": row.name,
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
