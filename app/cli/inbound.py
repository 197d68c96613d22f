"""`flask inbound`: input from mail servers and sms gateways, for pipes and for tests (docs/cli.md#inbound); without a
subcommand the listener process for inbound mail."""

from __future__ import annotations

from typing import cast

import click

from app.addresses import is_valid_mobile
from app.cli import inbound_email
from app.cli.base import Group, echo, json_option, print_row
from app.cli.processes import become
from app.distribution import python_command
from app.errors import ServiceError
from app.http.context import services
from app.inbound.effect import Effect
from app.inbound.kannel import reply_url
from app.inbound.receipts import Receipt, ReceiptStatus, take_receipt
from app.inbound.replies import plain_number, record_reply
from app.recipients.read import find_recipient


@click.group("inbound", cls=Group, invoke_without_command=True)
@click.pass_context
def group(ctx: click.Context) -> None:
    """Reports, receipts and replies from mail servers and gateways. Without a command: run the listener at
    INBOUND_LISTEN."""
    if ctx.invoked_subcommand is None:
        become(python_command("jobs.inbound"))


group.add_command(inbound_email.command)

PATIENCE = 5.0
"""Seconds that a receipt waits until the outcome of its message is written."""


@group.command("sms")
@click.option("--from", "mobile", metavar="NUMBER", required=True, help="Who wrote.")
@click.option("--to", "number", metavar="NUMBER", required=True, help="The sender's number that the reply was sent to.")
@click.option("--text", required=True, help="What was written.")
@json_option
def sms(mobile: str, number: str, text: str, as_json: bool) -> None:
    """Record a reply to a text message; a stop word in it unsubscribes the mobile number."""
    if not is_valid_mobile(plain_number(mobile)):
        detail = f"--from: {mobile!r} is not a mobile number in international format"
        raise ServiceError("invalid_mobile_address", detail=detail)
    services().database.transact(lambda transaction: record_reply(transaction, mobile, number, text))
    print_row({"from": plain_number(mobile), "to": plain_number(number), "effect": "recorded"}, as_json)


@group.command("receipt")
@click.option("--uuid", required=True, help="The uuid of the recipient, from the response to the send.")
@click.option("--status", type=click.Choice(["delivered", "failed"]), required=True)
@click.option("--detail", default="", help="The gateway's text, for the timeline.")
@json_option
def receipt(uuid: str, status: str, detail: str, as_json: bool) -> None:
    """Record the receipt of a text message; a repeated one changes nothing."""
    parts = services()
    with parts.database.read() as session:
        recipient = find_recipient(session, uuid)
    if recipient.type != "sms":
        raise ServiceError("conflict", field="uuid", detail="is the recipient of an email, which has no receipts")
    effect = take_receipt(parts, Receipt(recipient.id, cast(ReceiptStatus, status), detail), patience=PATIENCE)
    if effect is Effect.EARLY:
        raise ServiceError("conflict", field="uuid", detail="has not been sent yet; only what was sent has a receipt")
    with parts.database.read() as session:
        settled = find_recipient(session, uuid)
    print_row({"uuid": settled.uuid, "state": settled.state, "effect": effect.value}, as_json)


@group.command("kannel-url")
@json_option
def kannel_url(as_json: bool) -> None:
    """Print the URL that Kannel calls with replies; the secret in it proves that it is your gateway."""
    url = reply_url(services().settings)
    if as_json:
        print_row({"url": url}, as_json)
    else:
        echo(url)
