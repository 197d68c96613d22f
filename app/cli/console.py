"""`flask console`: links that sign in to the console, and its sessions (docs/console.md#signing-in)."""

from __future__ import annotations

import click

from app.accounts.find import find_account
from app.accounts.sessions import LINK_ENDS, end_session, link_url, list_sessions, make_link
from app.cli.base import Group, WrongValue, account_option, echo, json_option, print_done, print_json, print_rows
from app.errors import ServiceError
from app.http.context import services

group = Group("console", help="Links that sign in to the console, and its sessions.")


@group.command("login")
@account_option
@click.option("--operator", is_flag=True, help="For an operator, who sees all accounts and the processes.")
@json_option
def login(account: str | None, operator: bool, as_json: bool) -> None:
    """Print a link that signs in once, within five minutes."""
    if operator and account is not None:
        raise WrongValue("an operator sees all accounts: give --account or --operator")
    if not services().settings.console:
        raise WrongValue("the console is switched off: CONSOLE=off")
    with services().database.write() as transaction:
        token = make_link(transaction, None if operator else find_account(transaction, account))
    url = link_url(services().settings, token)
    if as_json:
        print_json({"url": url, "seconds": int(LINK_ENDS.total_seconds())})
    else:
        echo(url)


@group.command("sessions")
@json_option
def sessions(as_json: bool) -> None:
    """Show the newest sessions that have not ended."""
    with services().database.read() as session:
        rows = [
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
    print_rows(rows, as_json)


@group.command("sign-out")
@click.argument("session_id", metavar="ID", type=click.IntRange(1))
@json_option
def sign_out(session_id: int, as_json: bool) -> None:
    """End a session: its browser has to sign in again."""
    with services().database.write() as transaction:
        if not end_session(transaction, session_id):
            raise ServiceError("invalid_id", field="id", detail=f"there is no session {session_id}")
    print_done(f"session {session_id} has ended", {"id": session_id, "ended": True}, as_json)
