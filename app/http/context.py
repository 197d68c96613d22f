"""What a view needs to know of the request that it answers."""

from __future__ import annotations

import ipaddress

from flask import current_app, g, request

from app.accounts.auth import Principal
from app.http.paths import path_id
from app.lists.fields import ListSpec
from app.lists.find import existing
from app.services import Services

EXTENSION = "tms"

FAULT = "tms.fault"
"""The WSGI variable in which the server says what is wrong with a request: a `ServiceError`, or nothing."""

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PATCH", "PUT", "DELETE"})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def services() -> Services:
    """The parts of this process."""
    found: Services = current_app.extensions[EXTENSION]
    return found


def principal() -> Principal:
    """The key that the guards let in."""
    found: Principal = g.principal
    return found


def the_list(list_id: str) -> ListSpec:
    """The list of a path below it, which the guards have read together with the key. Raises `not_found`."""
    return existing(g.list, path_id(list_id))


def known_method() -> str:
    """The method, for logs and counters: a client can make up as many as it likes."""
    return request.method if request.method in METHODS else "other"


def request_id() -> str:
    """The id of this request: in the X-Request-Id header, in error bodies and in every log line."""
    found: str = g.request_id
    return found


def client_address() -> Address | None:
    """Where the request comes from; an IPv4 address in its IPv6 form counts as what it is. None for a local socket."""
    try:
        address = ipaddress.ip_address((request.remote_addr or "").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
