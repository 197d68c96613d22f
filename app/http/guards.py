"""Checks before a view runs, in the documented order (docs/requests.md#order-of-checks)."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from typing import Any

from flask import Flask, Request, Response, current_app, g, request
from sqlalchemy.orm import Session
from werkzeug.exceptions import NotFound

from app.accounts.auth import KeyUses, Principal, bearer_token, level_with, refuse_published
from app.accounts.rate_limit import Allowance
from app.accounts.sessions import BrowserSession
from app.audit.actor import Actor, act_as, service_actor
from app.db import bounded_connection
from app.errors import ServiceError
from app.http.api import PUBLIC, scopes_of
from app.http.console.guard import guard_console
from app.http.console.pages import add_headers, is_console, is_console_path
from app.http.context import (
    EXTENSION,
    FAULT_KEY,
    address_text,
    check_network,
    count_once,
    current_globals,
    current_request,
    extension,
    method_label,
    request_host,
)
from app.http.html_pages import PAGE_SEGMENTS, add_security_headers
from app.http.paths import API, collect_path_words, first_segment_of, loggable_path, path_id, route_label
from app.http.repetition import ATTEMPTS_KEY, Attempts, is_postponed
from app.http.responses import JSON
from app.infrastructure import logs, metrics, tracing
from app.services import Services

logger = logging.getLogger(__name__)
access = logging.getLogger("app.access")

VERSION = re.compile(r"v\d[^/]*")
BELOW_A_LIST = "/<list_id>/"
PATH_LOOKUP_KEY = "tms.of_path"
RECIPIENT_SEGMENTS = frozenset({*PAGE_SEGMENTS, "o"})
"""First path segments that recipients call: their addresses are none of the log's business."""

PathLookup = Callable[[Session, str, int | None, int | None], tuple[Principal, Any, Any]]
"""Finds the key with a token, its account's list with an id, and the contact of that list with an id, in one
statement."""


def register(app: Flask, look_up_path: PathLookup) -> None:
    """Registers the guards before every request and the common headers of every response."""
    app.extensions[PATH_LOOKUP_KEY] = look_up_path
    collect_path_words(app)
    app.before_request(_guard)
    app.after_request(_finish)
    app.teardown_request(_end)


def _end(_error: BaseException | None) -> None:
    bounded_connection.end_request()
    logs.client.set(None)
    act_as(service_actor)


def _guard() -> None:
    http_request, request_globals = current_request(), current_globals()
    attempts: Attempts = http_request.environ.get(ATTEMPTS_KEY) or Attempts()
    budget = attempts.resume()
    kept = attempts.kept or {"request_id": os.urandom(16).hex(), "started": time.perf_counter(), "allowance": None}
    for name, value in kept.items():
        setattr(request_globals, name, value)
    request_id = request_globals.request_id
    request_globals.segment = segment = first_segment_of(http_request.path)
    logs.request_id.set(request_id)
    logs.client.set(_logged_client(segment, http_request.remote_addr))
    act_as(_actor)
    bounded_connection.begin_request(budget)
    request_globals.span = tracing.begin_request(
        request_id, _span_name(http_request), http_request.headers.get("Traceparent")
    )
    fault: ServiceError | None = http_request.environ.get(FAULT_KEY)
    if fault is not None:
        raise fault
    if VERSION.fullmatch(segment):
        _guard_api(segment, http_request, request_globals)
    elif is_console():
        guard_console()
    elif is_console_path():
        logger.info("the console does not answer under the host %r (CONSOLE_HOSTS)", request_host())
        raise NotFound
    elif http_request.routing_exception is not None:
        raise http_request.routing_exception


def _logged_client(segment: str, address: str | None) -> dict[str, Any]:
    """What log lines say of the client: nothing about a recipient who follows a link or opens a mail."""
    return {} if segment in RECIPIENT_SEGMENTS else {"client_address": address_text(address or "")}


def _actor() -> Actor:
    """The key of the request, or who is signed in to the console; the service itself for requests without either, such
    as a click in a mail."""
    principal: Principal | None = g.get("principal")
    signed_in: BrowserSession | None = g.get("signed_in")
    from_where = {
        "source": address_text(request.remote_addr or ""),
        "via": _span_name(current_request()),
        "request_id": g.request_id,
    }
    if principal is not None:
        return Actor("key", principal.key_name, **from_where, key_id=principal.key_id)
    if signed_in is not None:
        return Actor(signed_in.actor_kind, signed_in.name, **from_where, key_id=signed_in.key_id)
    return service_actor()


def _span_name(http_request: Request) -> str:
    """Method and route, of which there are not many."""
    rule = http_request.url_rule
    return f"{method_label(http_request.method)} {rule.rule if rule else 'unknown'}"


def _guard_api(version: str, http_request: Request, request_globals: Any) -> None:
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    if app.extensions[EXTENSION].settings.require_https and not http_request.is_secure:
        raise ServiceError("ssl_required")
    if version != API:
        raise ServiceError("invalid_api_version")
    principal = _authenticate(app, http_request, request_globals) if http_request.method != "OPTIONS" else None
    if http_request.routing_exception is not None:
        raise http_request.routing_exception
    if principal is not None:
        _check_scope(principal, app, http_request)


def _authenticate(app: Flask, http_request: Request, request_globals: Any) -> Principal:
    """Key, network and rate limit: steps 3 to 5."""
    token = bearer_token(http_request.headers.get("Authorization"))
    parts: Services = app.extensions[EXTENSION]
    refuse_published(token, parts.settings, request_host)
    look_up_path: PathLookup = app.extensions[PATH_LOOKUP_KEY]
    list_id, contact_id = _ids_in_path(http_request)
    with parts.database.read() as session:
        principal, request_globals.list, request_globals.contact = look_up_path(session, token, list_id, contact_id)
    check_network(principal.allowed_networks)
    request_globals.principal = principal
    extension(KeyUses).note(principal.key_id)
    logs.client.set({**(logs.client.get() or {}), "key": principal.key_name})
    allowance = count_once(parts, principal.key_id, principal.rate_limit)
    if allowance is not None and allowance.is_exceeded:
        raise ServiceError("too_many_requests", retry_after=allowance.reset)
    return principal


def _ids_in_path(http_request: Request) -> tuple[int | None, int | None]:
    """The ids of list and contact in a path below a list; None in another path, or for an invalid id."""
    rule, arguments = http_request.url_rule, http_request.view_args
    if rule is None or BELOW_A_LIST not in rule.rule or not arguments:
        return None, None
    return _id_of(arguments.get("list_id")), _id_of(arguments.get("contact_id"))


def _id_of(segment: str | None) -> int | None:
    try:
        return None if segment is None else path_id(segment)
    except ServiceError:
        return None  # reported later: after key, network, rate limit and permission


def _check_scope(principal: Principal, app: Flask, http_request: Request) -> None:
    """Checks the scope, step 7. A route that accepts several scopes checks the exact one itself."""
    needed = scopes_of(app, http_request.endpoint or "", http_request.method)
    if PUBLIC not in needed and not set(needed) & set(principal.scopes):
        lacking = f"which keys of the level {principal.access_level} lack. Use a key of the level {level_with(needed)}."
        detail = f"This needs the scope {' or '.join(needed)}, {lacking}"
        raise ServiceError("permission_denied", detail=detail)


def _finish(response: Response) -> Response:
    """Adds the headers of every response; logs and counts the request."""
    http_request, request_globals, headers = current_request(), current_globals(), response.headers
    if is_postponed(http_request.environ):
        request_globals.span.end(tms__is_repeated=True)
        return response
    if not response.is_streamed and not response.content_length and "Content-Type" in headers:
        headers["Content-Type"] = JSON
    headers.add("X-Request-Id", request_globals.request_id)
    allowance: Allowance | None = request_globals.get("allowance")
    if allowance is not None:
        headers.add("RateLimit-Limit", str(allowance.limit))
        headers.add("RateLimit-Remaining", str(allowance.remaining))
        headers.add("RateLimit-Reset", str(allowance.reset))
    seconds = time.perf_counter() - request_globals.started
    if not VERSION.fullmatch(request_globals.segment):
        if is_console():
            add_headers(response)
        add_security_headers(response)
    principal = request_globals.get("principal") or request_globals.get("signed_in")
    account_id = None if principal is None else principal.account_id
    _count_and_log(http_request, response.status_code, seconds, account_id)
    request_globals.span.end(http__response__status_code=response.status_code, tms__account_id=account_id)
    return response


def _count_and_log(http_request: Request, status: int, seconds: float, account_id: int | None) -> None:
    """One line per request; the path without its query, which may contain addresses. The account is the one whose key
    was accepted, or that is signed in."""
    method, route = method_label(http_request.method), route_label(http_request.url_rule)
    metrics.REQUESTS.labels(method, route, status).inc()
    metrics.REQUEST_SECONDS.labels(route, f"{status // 100}xx").observe(seconds)
    fields = {"milliseconds": round(seconds * 1000, 1), "account_id": account_id}
    access.info("%s %s %s", method, loggable_path(http_request.path), status, extra=fields)
