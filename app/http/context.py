"""The context of the current request, for views and for other modules of the HTTP layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from flask import Request, current_app, g, request

from app.accounts.auth import Principal, check_allowed
from app.accounts.rate_limit import Allowance, Portions, count_request
from app.network.addresses import IpAddress, ip_address_in
from app.services import Services
from app.settings import plain_host

EXTENSION = "tms"

FAULT_KEY = "tms.fault"
"""The WSGI variable in which the server passes the error of an invalid request, a `ServiceError`."""

SHARED_KEY = "tms.shared"
"""The WSGI variable in which a view tells the server that the body is kept in memory for all clients."""

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PATCH", "PUT", "DELETE"})

HOST = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::[0-9]*)?")
"""The host of a request, and its port."""

Kind = TypeVar("Kind")


def services() -> Services:
    """The services of this process."""
    return cast("Services", current_app.extensions[EXTENSION])


def extension(kind: type[Kind]) -> Kind:
    """What the application has one of in this process, by its class."""
    return cast("Kind", current_app.extensions[extension_name(kind)])


def extension_name(kind: type) -> str:
    """Where the application keeps what it has one of."""
    return f"{EXTENSION}.{kind.__name__}"


def principal() -> Principal:
    """The key that the guards have authenticated."""
    return cast("Principal", g.principal)


def current_request() -> Request:
    """The request itself, for a function that needs much of it: Flask's `request` is looked up anew for each
    attribute."""
    return cast("Request", request._get_current_object())  # type: ignore[attr-defined]


def current_globals() -> Any:
    """Flask's `g` itself, for a function that needs much of it."""
    return g._get_current_object()


def count_once(parts: Services, whose: int | str, account_rate: str | None) -> Allowance | None:
    """Counts the request in the rate limit, as `count_request` does, unless an earlier attempt has."""
    if g.allowance is None:
        g.allowance = count_request(parts, extension(Portions), whose, account_rate)
    return cast("Allowance | None", g.allowance)


def method_label(method: str) -> str:
    """The method, for logs and metrics: a client can invent any number of them."""
    return method if method in METHODS else "other"


def request_id() -> str:
    """The id of this request: in the X-Request-Id header, in error bodies and in every log line."""
    return cast("str", g.request_id)


def request_host() -> str:
    """The host that the request names, as `plain_host` writes it; empty for what cannot be one. A client may name any:
    a browser names the one in its address bar."""
    named = HOST.fullmatch(request.host)
    return plain_host(named["host"]) if named else ""


def client_address() -> IpAddress | None:
    """The client's address; an IPv4-mapped IPv6 address as IPv4. None for a local socket."""
    return ip_address_in(request.remote_addr or "")


@lru_cache(maxsize=1024)
def address_text(address: str) -> str | None:
    """An address as log lines show it; None if it is none."""
    return str(ip_address_in(address) or "") or None


def check_network(allowed_networks: Sequence[str]) -> None:
    """Checks the account's allow-list of networks; an empty one allows all. Raises `ip_restricted`."""
    if allowed_networks:
        check_allowed(allowed_networks, client_address())
