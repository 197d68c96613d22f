"""Defining named transports (docs/routes.md#named-transports).

A transport belongs to the installation, not to an account. Its URL is stored encrypted, because it contains a password,
and only its scheme and host are ever shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.addresses import MESSAGE_TYPES
from app.clock import this_second
from app.db.database import Transaction
from app.db.models import Account, QueueEntry, Recipient, Route, Send, Transport, TransportAccount
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.routing.table import DEFAULT_TRANSPORT, renew_version
from app.secret_keys import SecretKeys, SecretUnreadable, decrypt, encrypt
from app.senders.senders import FASTEST, SLOWEST
from app.transports.base import TransportUrlError
from app.transports.email import email_transport, relay_urls
from app.transports.sms import sms_transport
from app.transports.urls import display_url

NAME_FORM = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""The form of a transport's name. It has no dot, so that no name is that of a host: accounts may read it in
timelines."""
MAX_CONNECTIONS = 1000
DEFAULT_VALUES = {"enabled": True, "connections": None, "messages_per_second": None, "any_account": False}
"""Attribute -> what it is unless it is given."""


def list_transports(session: Session) -> list[Transport]:
    """All transports, by name."""
    return list(session.scalars(select(Transport).order_by(Transport.name)))


def transport_named(session: Session, name: str) -> Transport | None:
    """The transport with that name."""
    if "\0" in name:
        return None  # no column stores it, and PostgreSQL refuses to compare it
    return session.scalars(select(Transport).where(Transport.name == name)).first()


def find_transport(session: Session, name: str) -> Transport:
    """The transport with that name. Raises `ServiceError` (`invalid_id`)."""
    transport = transport_named(session, name)
    if transport is None:
        raise ServiceError("invalid_id", field="transport", detail=f"there is no transport {name!r}")
    return transport


def create_transport(transaction: Transaction, secret_keys: SecretKeys, values: Mapping[str, Any]) -> Transport:
    """Adds a transport. `values` are `name`, `type`, `url`, any of `DEFAULT_VALUES`, and in `accounts` the names or ids
    of accounts whose sends may name it.

    Raises `ServiceError`: `conflict` for a name that is taken, `invalid_url` and others for values that cannot be used.
    """
    for key in ("type", "url"):
        if key not in values:
            raise ServiceError("required", field=key, detail="is required for a new transport")
    name, type_ = values["name"], values["type"]
    check_name_and_type(name, type_)
    checked = {**DEFAULT_VALUES, **_checked(secret_keys, type_, values)}
    if transport_named(transaction, name) is not None:
        raise ServiceError("conflict", field="name", detail=f"there is already a transport {name!r}")
    moment = this_second()
    transport = Transport(name=name, type=type_, creation_time=moment, last_modified_time=moment, **checked)
    transaction.add(transport)
    set_allowed(transaction, transport, values.get("accounts", ()), allowed=True)
    renew_version(transaction)
    return transport


def update_transport(
    transaction: Transaction, secret_keys: SecretKeys, transport: Transport, values: Mapping[str, Any]
) -> bool:
    """Changes the attributes that are given, and allows further accounts; returns whether anything differed. Workers
    notice it with the next message. Raises `ServiceError` like `create_transport`, and `conflict` for another type."""
    if values.get("type", transport.type) != transport.type:
        raise ServiceError("conflict", field="type", detail=f"the transport sends messages of type {transport.type}")
    changes = _checked(secret_keys, transport.type, values)
    if "url" in changes and values["url"] == url_of(secret_keys, transport):
        del changes["url"]  # encrypted once more, it would differ
    changed = apply_changes(transport, changes)
    if changed:
        renew_version(transaction)
    return set_allowed(transaction, transport, values.get("accounts", ()), allowed=True) or changed


def delete_transport(transaction: Transaction, transport: Transport) -> None:
    """Deletes a transport that nothing refers to any more.

    Raises `ServiceError` (`conflict`) while a route or a waiting message names it: what was meant for this transport
    must not silently leave over another one.
    """
    routes = [route.name for route in transaction.scalars(select(Route)) if transport.name in route.transports]
    if routes:
        raise ServiceError(
            "conflict", field="transport", detail=f"the route {routes[0]!r} uses it; change the route first"
        )
    if transaction.scalar(_is_awaited(transport.name)):
        detail = "waiting messages name it; disable it, or delete it when they are settled"
        raise ServiceError("conflict", field="transport", detail=detail)
    transaction.delete(transport)
    renew_version(transaction)


def _is_awaited(name: str) -> Any:
    waiting = select(QueueEntry.recipient_id).join(Recipient, Recipient.id == QueueEntry.recipient_id)
    return select(waiting.join(Send, Send.id == Recipient.send_id).where(Send.transport == name).exists())


def accounts_of(session: Session, transport: Transport) -> list[str]:
    """The names of the accounts whose sends may name the transport."""
    statement = select(Account.name).join(TransportAccount, TransportAccount.account_id == Account.id)
    return list(session.scalars(statement.where(TransportAccount.transport_id == transport.id).order_by(Account.name)))


def set_allowed(transaction: Transaction, transport: Transport, accounts: Sequence[str], *, allowed: bool) -> bool:
    """Allows or forbids the sends of these accounts, by their names or ids, to name the transport; returns whether
    anything differed. Raises `invalid_id`."""
    transaction.flush()
    changed = False
    for account_id in [find_account(transaction, account).id for account in accounts]:
        present = transaction.get(TransportAccount, (transport.id, account_id))
        if (present is not None) == allowed:
            continue
        if present is None:
            transaction.add(TransportAccount(transport_id=transport.id, account_id=account_id))
        else:
            transaction.delete(present)
        changed = True
    transaction.flush()
    return changed


def url_of(secret_keys: SecretKeys, transport: Transport) -> str | None:
    """The URL; None if it was stored under another SECRET_KEY."""
    try:
        return decrypt(secret_keys, transport.url)
    except SecretUnreadable:
        return None


def transport_urls(session: Session, secret_keys: SecretKeys) -> list[str]:
    """The URLs of all transports, each relay by itself, as far as they can be read."""
    urls = (url_of(secret_keys, transport) for transport in list_transports(session))
    return [relay for url in urls if url is not None for relay in relay_urls(url)]


def shown_url(secret_keys: SecretKeys, transport: Transport) -> str:
    """The URL for display, without users, passwords and options."""
    return display_urls(url_of(secret_keys, transport))


def display_urls(url: str | None) -> str:
    """A URL for display, which may name several relays; None is that of a transport that cannot be read."""
    if url is None:
        return "unreadable: it was stored under another SECRET_KEY"
    return ", else to ".join(map(display_url, relay_urls(url)))


def check_name_and_type(name: str, type_: str) -> None:
    """Raises `invalid_string` for a name or type that a transport or a route cannot have."""
    if not NAME_FORM.fullmatch(name):
        detail = f"{name!r} is not 1 to 63 lower-case letters, digits, - or _, the first of them a letter or a digit"
        raise ServiceError("invalid_string", field="name", detail=detail)
    if name == DEFAULT_TRANSPORT:
        detail = f"{DEFAULT_TRANSPORT!r} is the name of the transport in the settings"
        raise ServiceError("invalid_string", field="name", detail=detail)
    if type_ not in MESSAGE_TYPES:
        raise ServiceError("invalid_string", field="type", detail=f"{type_!r} is not one of {', '.join(MESSAGE_TYPES)}")


def _checked(secret_keys: SecretKeys, type_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored of the values in columns that can change."""
    checked = {name: values[name] for name in DEFAULT_VALUES if name in values}
    check_limits(checked)
    if checked.get("connections") is not None:
        checked["connections"] = int(checked["connections"])
    if "url" in values:
        check_url(type_, values["url"])
        checked["url"] = encrypt(secret_keys[0], values["url"])
    return checked


def check_url(type_: str, url: str) -> None:
    """Raises `invalid_url` for a URL that is no transport of the type. Opens no connection."""
    try:
        _ = email_transport(url) if type_ == "email" else sms_transport(url)
    except TransportUrlError as error:
        raise ServiceError("invalid_url", field="url", detail=str(error)) from None


def check_limits(attributes: Mapping[str, Any]) -> None:
    """Raises `invalid_range` for a limit out of its range; null means no limit of its own."""
    connections, rate = attributes.get("connections"), attributes.get("messages_per_second")
    if connections is not None and not (connections == int(connections) and 1 <= connections <= MAX_CONNECTIONS):
        detail = f"must be a whole number from 1 to {MAX_CONNECTIONS}"
        raise ServiceError("invalid_range", field="connections", detail=detail)
    if rate is not None and not SLOWEST <= rate <= FASTEST:
        raise ServiceError("invalid_range", field="messages_per_second", detail=f"must be {SLOWEST} to {FASTEST}")
