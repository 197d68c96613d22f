"""`flask inbound email`: for the pipe of a mail server, with the exit codes of sysexits.h."""

from __future__ import annotations

import sys

import click
from flask.cli import with_appcontext
from sqlalchemy.exc import SQLAlchemyError

from app.cli.base import Command, json_option, print_row
from app.db.outage import reason
from app.http.context import services
from app.inbound.effect import Effect
from app.inbound.email.receive import Received, receive_email

PATIENCE = 5.0
"""Seconds that a report waits for the outcome of its message to be written."""


class TryAgain(click.ClickException):
    """EX_TEMPFAIL: the mail server keeps the message and retries later."""

    exit_code = 75


@click.command("email", cls=Command)
@click.option(
    "--to", "envelope", metavar="ADDRESS", multiple=True, help="The envelope recipient that the mail server names."
)
@json_option
@with_appcontext
def command(envelope: tuple[str, ...], as_json: bool) -> None:
    """Process one message from standard input: a bounce, a complaint or an unsubscribe request.

    Everything else is ignored, also with exit code 0, so that no mail server answers a report with a bounce.
    """
    parts = services()
    received = _received(_message(parts.settings.inbound_max_bytes), envelope)
    print_row({"kind": received.kind, "effect": received.effect.value}, as_json)


def _message(most: int) -> bytes:
    """The first `most` bytes, which contain the report. The rest is read and discarded, so that the mail server sees no
    error."""
    raw = sys.stdin.buffer.read(most)
    while sys.stdin.buffer.read(1024 * 1024):
        pass
    return raw


def _received(raw: bytes, envelope: tuple[str, ...]) -> Received:
    try:
        received = receive_email(services(), raw, envelope, patience=PATIENCE)
    except SQLAlchemyError as error:
        raise TryAgain(f"the database cannot be used: {reason(error)}") from None
    if received.effect is Effect.EARLY:
        raise TryAgain("the message that it is about is still being sent")
    return received
