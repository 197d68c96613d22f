"""`flask inbound`: input from mail servers and SMS gateways, for pipes and for tests
(docs/commands/transports.md#inbound); without a subcommand the listener process for inbound mail.
"""

from __future__ import annotations

import sys
from typing import cast

import click
from sqlalchemy.exc import SQLAlchemyError

from app.addresses import is_valid_mobile
from app.cli.base import CommandResult, Group, Row, need_installation_key, refuse_other_key
from app.cli.processes import become
from app.db.outage import reason
from app.distribution import python_command
from app.errors import ServiceError
from app.inbound.effect import Effect
from app.inbound.email.receive import receive_email
from app.inbound.kannel import reply_url
from app.inbound.receipts import Receipt, ReceiptStatus, take_receipt
from app.inbound.replies import plain_number, record_reply
from app.infrastructure.installation_key import ForeignSecretKey, compare_secret_key
from app.recipients.read import find_recipient
from app.services import Services


@click.group("inbound", cls=Group, invoke_without_command=True)
@click.pass_context
def group(ctx: click.Context) -> None:
    """Take reports, receipts and replies from mail servers and gateways. Without a subcommand, run the listener at
    INBOUND_LISTEN."""
    if ctx.invoked_subcommand is None:
        become(python_command("jobs.inbound"))


# `flask inbound email`: for the pipe of a mail server, with the exit codes of sysexits.h.

PATIENCE = 5.0
"""Seconds that a report waits for the outcome of its message to be written."""


class TryAgain(click.ClickException):
    """EX_TEMPFAIL: the mail server keeps the message and retries later."""

    exit_code = 75


@group.runs("email", "installation")
@click.option("--to", "envelope", metavar="ADDRESS", multiple=True, help="The envelope recipient.")
def email(parts: Services, envelope: tuple[str, ...]) -> Row:
    """Process one message from standard input: a bounce, a complaint or an unsubscribe request.

    Other messages are ignored, with exit code 0, so that the mail server does not answer a report with a bounce.
    """
    raw = _message(parts.settings.inbound_max_bytes)
    try:
        if not compare_secret_key(parts.database, parts.settings.secret_keys):
            raise TryAgain("no process of the service has started yet")
        received = receive_email(parts, raw, envelope, patience=PATIENCE)
    except ForeignSecretKey as error:
        raise TryAgain(str(error)) from None
    except SQLAlchemyError as error:
        raise TryAgain(f"the database cannot be used: {reason(error)}") from None
    if received.effect is Effect.EARLY:
        raise TryAgain("the reported message is still being sent")
    return {"kind": received.kind, "effect": received.effect.value}


def _message(most: int) -> bytes:
    """The first `most` bytes, which contain the report. The rest is read and discarded, so that the mail server sees no
    error."""
    raw = sys.stdin.buffer.read(most)
    while sys.stdin.buffer.read(1024 * 1024):
        pass
    return raw


@group.runs("sms", "installation")
@click.option("--from", "mobile", metavar="NUMBER", required=True, help="The mobile number that sent the reply.")
@click.option("--to", "number", metavar="NUMBER", required=True, help="The sender number that received the reply.")
@click.option("--text", required=True, help="The text of the reply.")
def sms(parts: Services, mobile: str, number: str, text: str) -> Row:
    """Record a reply to a text message. A stop word in the reply unsubscribes the mobile number."""
    refuse_other_key(parts)
    if not is_valid_mobile(plain_number(mobile)):
        detail = f"--from: {mobile!r} is not a mobile number in international format"
        raise ServiceError("invalid_mobile_address", detail=detail)
    parts.database.transact(lambda transaction: record_reply(transaction, mobile, number, text))
    return {"from": plain_number(mobile), "to": plain_number(number), "effect": "recorded"}


@group.runs("receipt", "installation")
@click.option("--uuid", required=True, help="The uuid of the recipient, from the response to the send.")
@click.option("--status", type=click.Choice(["delivered", "failed"]), required=True, help="What the gateway reports.")
@click.option("--detail", default="", help="The text of the gateway, shown in the timeline.")
def receipt(parts: Services, uuid: str, status: str, detail: str) -> Row:
    """Record the receipt of a text message. A repeated receipt changes nothing."""
    with parts.database.read() as session:
        recipient = find_recipient(session, uuid)
    if recipient.type != "sms":
        raise ServiceError("conflict", field="uuid", detail="is an email, and only text messages have receipts")
    effect = take_receipt(parts, Receipt(recipient.id, cast(ReceiptStatus, status), detail), patience=PATIENCE)
    if effect is Effect.EARLY:
        raise ServiceError("conflict", field="uuid", detail="has not been sent yet, so it cannot have a receipt")
    with parts.database.read() as session:
        settled = find_recipient(session, uuid)
    return {"uuid": settled.uuid, "state": settled.state, "effect": effect.value}


@group.runs("kannel-url", "installation")
def kannel_url(parts: Services) -> CommandResult:
    """Print the URL that Kannel calls for replies. Its secret proves that the caller is your gateway."""
    need_installation_key(parts)
    url = reply_url(parts.settings)
    return CommandResult(url, {"url": url})
