"""`flask transports`: the named transports of the installation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.find import all_accounts, find_account
from app.addresses import MESSAGE_TYPES
from app.cli.base import Group, Row, json_option, print_done, print_row, print_rows, wake_after
from app.cli.transport_routes import routes_group
from app.db.database import Transaction
from app.db.models import RelayRefusal, Transport
from app.errors import ServiceError
from app.http.context import services
from app.routing.table import DEFAULT
from app.routing.transports import (
    accounts_of,
    create_transport,
    delete_transport,
    find_transport,
    list_transports,
    set_allowed,
    shown_url,
    update_transport,
    url_of,
)
from app.routing.try_out import try_out
from app.sends.outcomes.relay_refusals import try_now

group = Group("transports", help="Transports with names, beside the two in the settings; routes choose between them.")
group.add_command(routes_group)

URL_HELP = "Where it sends, as EMAIL_TRANSPORT_URL or SMS_TRANSPORT_URL; `-` reads it from standard input."


def attribute_options(command: Any) -> Any:
    """The options of `create` and `update`."""
    for option in (
        click.option("--enabled/--disabled", default=None, help="Whether messages are sent over it."),
        click.option(
            "--any-account/--listed-accounts", default=None, help="Whether sends of every account may name it."
        ),
        click.option(
            "--allow-account", metavar="NAME|ID", multiple=True, help="Sends of this account may name it; repeatable."
        ),
        click.option("--rate", type=float, metavar="N", help="Messages per second of all workers; 0: no limit."),
        click.option(
            "--connections",
            type=click.IntRange(0),
            metavar="N",
            help="Connections that one worker uses at once; 0: as the setting SEND_CONNECTIONS says.",
        ),
    ):
        command = option(command)
    return command


def _attributes(
    *, rate: float | None, connections: int | None, enabled: bool | None, any_account: bool | None
) -> dict[str, Any]:
    given = {"enabled": enabled, "any_account": any_account}
    attributes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if rate is not None:
        attributes["messages_per_second"] = rate or None
    if connections is not None:
        attributes["connections"] = connections or None
    return attributes


def _row(session: Session, transport: Transport) -> Row:
    return {
        "name": transport.name,
        "type": transport.type,
        "url": shown_url(services().settings.secret_keys, transport),
        "enabled": transport.enabled,
        "connections": transport.connections,
        "messages_per_second": transport.messages_per_second,
        "any_account": transport.any_account,
        "accounts": accounts_of(session, transport),
        "creation_time": transport.creation_time,
        "last_modified_time": transport.last_modified_time,
    }


def _given_url(url: str | None) -> str | None:
    return sys.stdin.readline().strip() if url == "-" else url


def _allow(transaction: Transaction, transport: Transport, accounts: Iterable[str], *, allowed: bool = True) -> None:
    ids = [find_account(transaction, account).id for account in accounts]
    set_allowed(transaction, transport, ids, allowed=allowed)


@group.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show all transports; of their URLs only scheme and host."""
    with services().database.read() as session:
        rows = [_row(session, transport) for transport in list_transports(session)]
    shown = ("name", "type", "url", "enabled", "connections", "messages_per_second", "any_account", "accounts")
    print_rows(rows if as_json else [{name: row[name] for name in shown} for row in rows], as_json)


@group.command("show")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a transport; of its URL only scheme and host."""
    with services().database.read() as session:
        row = _row(session, find_transport(session, name))
    print_row(row, as_json)


@group.command("create")
@click.argument("name")
@click.option("--type", "type_", type=click.Choice(MESSAGE_TYPES), required=True)
@click.option("--url", metavar="URL|-", required=True, help=URL_HELP)
@attribute_options
@json_option
def create(name: str, type_: str, url: str, allow_account: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Create a transport. It sends nothing until a route or a send names it."""
    secret_key = services().settings.secret_key
    with services().database.write() as transaction:
        given = _given_url(url) or ""
        transport = create_transport(transaction, secret_key, name, type_=type_, url=given, **_attributes(**options))
        _allow(transaction, transport, allow_account)
        wake_after(transaction)
        row = _row(transaction, transport)
    print_row(row, as_json)


@group.command("update")
@click.argument("name")
@click.option("--url", metavar="URL|-", help=URL_HELP)
@click.option(
    "--forbid-account", metavar="NAME|ID", multiple=True, help="Sends of this account may not name it any more."
)
@attribute_options
@json_option
def update(
    *,
    name: str,
    url: str | None,
    allow_account: tuple[str, ...],
    forbid_account: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Change a transport; the workers use the new values with their next message."""
    secret_keys = services().settings.secret_keys
    with services().database.write() as transaction:
        transport = find_transport(transaction, name)
        update_transport(transaction, secret_keys, transport, _attributes(**options), _given_url(url))
        _allow(transaction, transport, allow_account)
        _allow(transaction, transport, forbid_account, allowed=False)
        try_now(transaction, RelayRefusal.transport == name)
        wake_after(transaction)
        row = _row(transaction, transport)
    print_row(row, as_json)


@group.command("delete")
@click.argument("name")
@json_option
def delete(name: str, as_json: bool) -> None:
    """Delete a transport that neither a route nor a waiting message names."""
    with services().database.write() as transaction:
        delete_transport(transaction, find_transport(transaction, name))
        wake_after(transaction)
    print_done(f"deleted transport {name}", {"name": name, "deleted": True}, as_json)


@group.command("test")
@click.argument("name")
@click.option(
    "--to", metavar="ADDRESS", required=True, help="The email address or mobile number that gets the message."
)
@click.option("--from", "sender", metavar="ADDRESS", help="The sender; by default that of the only account.")
@json_option
@click.pass_context
def test(ctx: click.Context, name: str, to: str, sender: str | None, as_json: bool) -> None:
    """Send a real message over a transport, or over `default`, and tell how it went; the exit code is 1 unless the
    message was accepted."""
    with services().database.read() as session:
        type_, url = _type_and_url(session, name, to)
        sender = sender or _default_sender(session, type_)
    trial = try_out(services(), name, type_, url, sender=sender, to=to)
    result = trial.result
    print_row(
        {
            "transport": name,
            "from": sender,
            "to": to,
            "outcome": result.outcome.value,
            "in_words": trial.words,
            "reply": result.reply or None,
            "status": result.status,
            "note": result.note,
            "seconds": round(trial.seconds, 3),
        },
        as_json,
    )
    ctx.exit(0 if result.outcome.value == "accepted" else 1)


def _type_and_url(session: Session, name: str, to: str) -> tuple[str, str]:
    settings = services().settings
    if name == DEFAULT:
        is_email = "@" in to
        return ("email", settings.email_transport_url) if is_email else ("sms", settings.sms_transport_url)
    transport = find_transport(session, name)
    url = url_of(settings.secret_keys, transport)
    if url is None:
        raise ServiceError("invalid_url", field="url", detail="it was stored under another SECRET_KEY; set it again")
    return transport.type, url


def _default_sender(session: Session, type_: str) -> str:
    accounts = all_accounts(session)
    address = accounts[0].default_from_address if type_ == "email" and len(accounts) == 1 else None
    if not address:
        raise ServiceError("required", field="from", detail="name the sender with --from")
    return address
