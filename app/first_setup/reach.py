"""Bringing the database to the state that a first send needs. What is there stays as it is, unless it was named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from app.accounts.accounts import account_named, create_account, update_account
from app.accounts.domains import add_domain, find_domain, list_domains
from app.accounts.keys import issue_key, key_named
from app.db.database import Transaction
from app.db.lookup import find_by_name
from app.db.models import Account, ApiKey, Domain, List
from app.errors import ServiceError
from app.lists.define import add_field, create_list
from app.routing.routes import create_route, route_named
from app.routing.transports import create_transport, transport_named, update_transport, url_of
from app.secret_keys import SecretKeys
from app.settings import Settings

FIELDS = (("Email", "Email"), ("Mobile", "Mobile Phone"), ("First Name", "First Name"), ("Last Name", "Last Name"))
"""Name and type of the fields of the first list."""
TRANSPORTS = {"email": ("relay", "mail"), "sms": ("gateway", "texts")}
"""Type of message -> the name of its transport and of the route that leads all messages of the type over it."""


def destination(session: Session, settings: Settings, type_: str) -> str | None:
    """The URL that messages of the type leave for: that of the transport which `init` has stored, else that of the
    settings. None if it was stored under another SECRET_KEY."""
    transport = transport_named(session, TRANSPORTS[type_][0])
    if transport is not None:
        return url_of(settings.secret_keys, transport)
    return settings.email_transport_url if type_ == "email" else settings.sms_transport_url


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """What an operator asks for. `attributes` are those of the account that were named; `transports` gives the URL of
    each type of message that is to leave over a transport of its own."""

    account: str
    domain: str
    list_name: str
    key_name: str
    trusted: bool
    attributes: Mapping[str, Any] = field(default_factory=dict)
    transports: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetupResult:
    """What is there now. `created` names the nouns that were not there before, `token` that of a new key."""

    account: Account
    domain: Domain
    contact_list: List
    key: ApiKey
    token: str | None
    created: tuple[str, ...]


def present_account(session: Session, name: str) -> Account | None:
    """The account that an earlier run made or found; raises `ServiceError` (`conflict`) for a test account."""
    account = account_named(session, name)
    if account is not None and account.test_of is not None:
        raise ServiceError("conflict", field="account", detail=f"{name!r} is a test account")
    return account


def reach(transaction: Transaction, secret_keys: SecretKeys, request: SetupRequest) -> SetupResult:
    """Creates what is missing, and changes what was named and differs. Raises `ServiceError` as the use cases do."""
    created: list[str] = []
    account = present_account(transaction, request.account)
    if account is None:
        created.append("account")
        account = create_account(transaction, {"name": request.account, "owner_confirmed": True, **request.attributes})
    else:
        update_account(transaction, account, request.attributes)
    if request.domain not in {domain.name for domain in list_domains(transaction, account.id)}:
        created.append("domain")
    add_domain(transaction, account.id, request.domain, trusted=request.trusted, secret_key=secret_keys[0])
    contact_list = find_by_name(transaction, List, account.id, request.list_name)
    if contact_list is None:
        created.append("list")
        contact_list = _list(transaction, account.id, request.list_name)
    key, token = key_named(transaction, account.id, request.key_name), None
    if key is None:
        created.append("key")
        key, token = issue_key(transaction, account.id, request.key_name, "standard")
    for type_, url in request.transports.items():
        created += _lead(transaction, secret_keys, type_, url)
    domain = find_domain(transaction, account.id, request.domain)
    return SetupResult(account, domain, contact_list, key, token, tuple(created))


def _list(transaction: Transaction, account_id: int, name: str) -> List:
    row = create_list(transaction, account_id, {"name": name})
    for label, type_ in FIELDS:
        add_field(transaction, row, label, type_)
    return row


def _lead(transaction: Transaction, secret_keys: SecretKeys, type_: str, url: str) -> list[str]:
    """Leads all messages of the type over the URL; returns what was created for it."""
    created = []
    name, route = TRANSPORTS[type_]
    transport = transport_named(transaction, name)
    if transport is None:
        created.append(name)
        create_transport(transaction, secret_keys, {"name": name, "type": type_, "url": url})
    elif transport.type != type_:
        detail = (
            f"the transport {name!r} is for {transport.type}. Leave this option out, or delete that transport and "
            "create it under another name"
        )
        raise ServiceError("conflict", field=name, detail=detail)
    else:
        update_transport(transaction, secret_keys, transport, {"url": url})
    if route_named(transaction, route) is None:
        create_route(transaction, {"name": route, "type": type_, "transports": [name]})
    return created
