"""`flask sends pause`, `resume` and `pauses` (docs/delivery.md#pauses)."""

from __future__ import annotations

from typing import Any

import click
from flask.cli import with_appcontext
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.cli.base import Command, Row, WrongValue, accounts_option, json_option, print_row, print_rows, wake_after
from app.db.models import SendPause
from app.http.context import services
from app.sends.pauses.pause import Subject, find_pause, resume, subject_of
from app.sends.pauses.pause import pause as pause_subject
from app.sends.pauses.read import ShownPause, list_pauses


def subject_options(command: Any) -> Any:
    """What is paused: the options of `pause` and `resume`."""
    for option in (
        click.option("--everywhere", is_flag=True, help="The domain, for all accounts."),
        click.option("--domain", metavar="DOMAIN", help="Only mail to addresses of this domain."),
        click.option("--list", "list_", metavar="NAME|ID", help="Only what is sent to this list."),
        click.option(
            "--account", metavar="NAME|ID", help="Only what this account sends; not needed when there is only one."
        ),
    ):
        command = option(command)
    return command


def _subject(
    session: Session, *, account: str | None, list_: str | None, domain: str | None, everywhere: bool
) -> Subject:
    if everywhere and (account is not None or list_ is not None):
        raise WrongValue("--everywhere goes with --domain alone: it is about all accounts")
    chosen = None if everywhere else find_account(session, account)
    return subject_of(session, chosen, list_=list_, domain=domain)


def _row(one: ShownPause) -> Row:
    return {
        "account": one.account,
        "kind": one.kind,
        "of": one.list_name if one.kind == "list" else one.domain,
        "since": one.creation_time,
        "by": one.paused_by,
        "reason": one.reason,
        "resumed": one.resumed_time,
        "waiting": one.waiting,
        "more": one.is_least,
    }


def _made(subject: Subject, paused: SendPause, account: str | None) -> Row:
    row = {"account": account, "kind": paused.kind, "of": subject.list_name or subject.domain}
    return {**row, "since": paused.creation_time, "by": paused.paused_by, "reason": paused.reason}


@click.command("pause", cls=Command)
@subject_options
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@json_option
@with_appcontext
def pause(*, reason: str | None, as_json: bool, **options: Any) -> None:
    """Send nothing of an account, to a list, or to a domain until `resume`. Sends are accepted and wait; what is being
    handed over is finished."""
    with services().database.write() as transaction:
        subject = _subject(transaction, **options)
        paused = pause_subject(transaction, subject, reason)
        row = _made(subject, paused, _account_name(transaction, options["account"], subject))
    print_row(row, as_json)


@click.command("resume", cls=Command)
@subject_options
@json_option
@with_appcontext
def resume_(*, as_json: bool, **options: Any) -> None:
    """End a pause: what waits is sent, each message in its turn."""
    with services().database.write() as transaction:
        subject = _subject(transaction, **options)
        paused = find_pause(transaction, subject)
        ended = resume(transaction, paused)
        wake_after(transaction)
        row = _made(subject, paused, _account_name(transaction, options["account"], subject))
        row = {**row, "resumed": ended}
    print_row(row, as_json)


@click.command("pauses", cls=Command)
@accounts_option
@json_option
@with_appcontext
def pauses(account: str | None, as_json: bool) -> None:
    """Show what is paused, the newest first, with up to 1000 of the messages that wait; and what has been resumed, as
    long as its messages return to the queue."""
    with services().database.read() as session:
        account_id = None if account is None else find_account(session, account).id
        rows = [_row(one) for one in list_pauses(session, account_id)]
    print_rows(rows, as_json)


def _account_name(session: Session, wanted: str | None, subject: Subject) -> str | None:
    return None if subject.account_id is None else find_account(session, wanted).name
