"""`flask transports`: the named transports of the installation."""

from __future__ import annotations

import sys
from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.find import all_accounts
from app.addresses import MESSAGE_TYPES
from app.cli.base import (
    CommandResult,
    Decorator,
    Group,
    NamedItem,
    Row,
    columns,
    combine_options,
    given_options,
    need_installation_key,
    print_row,
    wake_after,
)
from app.cli.transport_routes import routes_group
from app.db.database import Transaction
from app.db.models import RelayRefusal, Transport
from app.errors import ServiceError
from app.http.context import services
from app.routing.table import DEFAULT_TRANSPORT
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
from app.services import Services

group = Group(
    "transports",
    help="Named transports, in addition to the two transports in the settings. Routes choose between them.",
)
group.add_command(routes_group)
TRANSPORT = NamedItem(click.argument("named", metavar="NAME"), find_transport, "installation")
TABLE_COLUMNS = ("name", "type", "url", "enabled", "connections", "messages_per_second", "any_account", "accounts")
ROW_COLUMNS = (*TABLE_COLUMNS, "creation_time", "last_modified_time")
LIMITS = ("connections", "messages_per_second")


def url_option(*, required: bool) -> Decorator:
    """Where a transport sends."""
    return click.option(
        "--url",
        metavar="URL|-",
        required=required,
        callback=lambda _context, _parameter, url: sys.stdin.readline().strip() if url == "-" else url,
        help="Its URL, in the form of EMAIL_TRANSPORT_URL or SMS_TRANSPORT_URL. Use - for standard input.",
    )


attribute_options = combine_options(
    click.option(
        "--connections",
        type=click.IntRange(0),
        metavar="N",
        help="Connections of all workers together (0: no common limit; each worker opens up to SEND_CONNECTIONS).",
    ),
    click.option(
        "--rate",
        "messages_per_second",
        type=float,
        metavar="N",
        help="Messages per second over all workers (0: no limit).",
    ),
    click.option(
        "--allow-account",
        "accounts",
        metavar="NAME|ID",
        multiple=True,
        help="Sends of this account can name this transport. Repeatable.",
    ),
    click.option(
        "--any-account/--listed-accounts",
        default=None,
        help="Whether sends of every account can name this transport.",
    ),
    click.option("--enabled/--disabled", default=None, help="Whether messages are sent over this transport."),
)
"""The options of `create` and `update`."""


def _attributes(url: str | None, **options: Any) -> dict[str, Any]:
    """The attributes that were given; a limit of 0 is none."""
    given = given_options(**options) | ({} if url is None else {"url": url})
    return given | {name: given[name] or None for name in LIMITS if name in given}


def _row(session: Session, transport: Transport) -> Row:
    url = shown_url(services().settings.secret_keys, transport)
    read = {"url": url, "accounts": accounts_of(session, transport)}
    return {name: read[name] if name in read else getattr(transport, name) for name in ROW_COLUMNS}


@group.reads("list", "installation", columns(*TABLE_COLUMNS))
def list_(session: Session) -> list[Row]:
    """Show all transports. Of each URL, only the scheme and the host are shown."""
    return [_row(session, transport) for transport in list_transports(session)]


@group.reads("show", TRANSPORT)
def show(session: Session, transport: Transport) -> Row:
    """Show a transport. Of its URL, only the scheme and the host are shown."""
    return _row(session, transport)


@group.writes("create", "installation", needs_key=True)
@click.argument("name")
@click.option("--type", type=click.Choice(MESSAGE_TYPES), required=True, help="What it sends.")
@url_option(required=True)
@attribute_options
def create(transaction: Transaction, name: str, **options: Any) -> Row:
    """Create a transport. It sends nothing until a route or a send names it."""
    secret_keys = services().settings.secret_keys
    transport = create_transport(transaction, secret_keys, {"name": name, **_attributes(**options)})
    wake_after(transaction)
    return _row(transaction, transport)


@group.writes("update", TRANSPORT, needs_key=True)
@url_option(required=False)
@click.option(
    "--forbid-account",
    metavar="NAME|ID",
    multiple=True,
    help="Sends of this account can no longer name this transport. Repeatable.",
)
@attribute_options
def update(transaction: Transaction, transport: Transport, forbid_account: tuple[str, ...], **options: Any) -> Row:
    """Change a transport. The workers use the new values from their next message on."""
    update_transport(transaction, services().settings.secret_keys, transport, _attributes(**options))
    set_allowed(transaction, transport, forbid_account, allowed=False)
    try_now(transaction, RelayRefusal.transport == transport.name)
    wake_after(transaction)
    return _row(transaction, transport)


@group.writes("delete", TRANSPORT)
def delete(transaction: Transaction, transport: Transport) -> CommandResult:
    """Delete a transport. No route and no waiting message may name it."""
    delete_transport(transaction, transport)
    wake_after(transaction)
    return CommandResult(f"deleted transport {transport.name}", {"name": transport.name, "deleted": True})


def _print_trial(row: Row, as_json: bool) -> None:
    print_row(row, as_json)
    if row["outcome"] != "accepted":
        raise click.exceptions.Exit(1)


@group.runs("test", "installation", _print_trial)
@click.argument("name")
@click.option(
    "--to", metavar="ADDRESS", required=True, help="The email address or mobile number that gets the message."
)
@click.option("--from", "sender", metavar="ADDRESS", help="The sender. Default: the sender of the only account.")
def test(parts: Services, name: str, to: str, sender: str | None) -> Row:
    """Send a real test message over a transport, or over `default`, and show the result. Exit with 1 unless the message
    was accepted."""
    need_installation_key(parts)
    with parts.database.read() as session:
        type_, url = _type_and_url(session, name, to)
        sender = sender or _default_sender(session, type_)
    trial = try_out(parts, name, type_, url, sender=sender, to=to)
    result = trial.result
    return {
        "transport": name,
        "from": sender,
        "to": to,
        "outcome": result.outcome.value,
        "in_words": trial.words,
        "reply": result.reply or None,
        "status": result.status,
        "note": result.note,
        "seconds": round(trial.seconds, 3),
    }


def _type_and_url(session: Session, name: str, to: str) -> tuple[str, str]:
    settings = services().settings
    if name == DEFAULT_TRANSPORT:
        is_email = "@" in to
        return ("email", settings.email_transport_url) if is_email else ("sms", settings.sms_transport_url)
    transport = find_transport(session, name)
    url = url_of(settings.secret_keys, transport)
    if url is None:
        raise ServiceError("invalid_url", field="url", detail="it was stored with another SECRET_KEY; set it again")
    return transport.type, url


def _default_sender(session: Session, type_: str) -> str:
    accounts = all_accounts(session)
    address = accounts[0].default_from_address if type_ == "email" and len(accounts) == 1 else None
    if not address:
        raise ServiceError("required", field="from", detail="give the sender with --from")
    return address
