"""What is checked before a view runs, in the order of the decisions (docs/requests.md#order-of-checks)."""

from __future__ import annotations

import ipaddress
import logging
import re
import time
import uuid

from flask import Flask, Response, current_app, g, request

from app.accounts.auth import Principal, bearer_token, find_principal, refuse_published
from app.db import wait_budget
from app.errors import ServiceError
from app.http.api import PUBLIC, scopes_of
from app.http.context import FAULT, client_address, known_method, services
from app.http.html_pages import protect
from app.http.paths import API, first_segment, learn_words, loggable_path, path_id
from app.http.rate_limit import Allowance, take
from app.http.responses import JSON
from app.infrastructure import logs, metrics
from app.lists.key_and_list import find_principal_and_list

access = logging.getLogger("app.access")

VERSION = re.compile(r"v\d[^/]*")
LISTS = "/<list_id>/"


def register(app: Flask) -> None:
    """Puts the guards before every request and the common headers on every response."""
    learn_words(app)
    app.before_request(_guard)
    app.after_request(_finish)
    app.teardown_request(lambda _error: wait_budget.end_request())


def _guard() -> None:
    g.request_id = uuid.uuid4().hex
    g.started = time.perf_counter()
    logs.request_id.set(g.request_id)
    wait_budget.begin_request()
    fault: ServiceError | None = request.environ.get(FAULT)
    if fault is not None:
        raise fault
    segment = first_segment()
    if VERSION.fullmatch(segment):
        _guard_api(segment)
    elif request.routing_exception is not None:
        raise request.routing_exception


def _guard_api(version: str) -> None:
    if services().settings.require_https and not request.is_secure:
        raise ServiceError("ssl_required")
    if version != API:
        raise ServiceError("invalid_api_version")
    if request.method != "OPTIONS":
        _admit()
    if request.routing_exception is not None:
        raise request.routing_exception
    if request.method != "OPTIONS":
        _check_scope(g.principal)


def _admit() -> None:
    """Key, network and rate: steps 3 to 5."""
    token = bearer_token(request.headers.get("Authorization"))
    refuse_published(token, services().settings)
    list_id = _list_in_path()
    with services().database.read() as session:
        if list_id is None:
            principal, g.list = find_principal(session, token), None
        else:
            principal, g.list = find_principal_and_list(session, token, list_id)
    _check_network(principal)
    g.principal = principal
    g.allowance = take(services(), principal)
    if g.allowance is not None and g.allowance.exceeded:
        raise ServiceError("too_many_requests", retry_after=g.allowance.reset)


def _list_in_path() -> int | None:
    """The id of the list below which the path leads; None for another path, or for what cannot be an id."""
    if request.url_rule is None or LISTS not in request.url_rule.rule:
        return None
    try:
        return path_id((request.view_args or {})["list_id"])
    except ServiceError:
        return None  # told when its turn comes: after key, network, rate and permission


def _check_network(principal: Principal) -> None:
    """The account's allow-list of networks; an empty one lets everybody in."""
    if not principal.allowed_networks:
        return
    address = client_address()
    networks = (ipaddress.ip_network(text, strict=False) for text in principal.allowed_networks)
    if address is None or not any(address in network for network in networks):
        raise ServiceError("ip_restricted")


def _check_scope(principal: Principal) -> None:
    """Step 7. A route that takes one of several scopes checks the exact one itself."""
    needed = scopes_of(current_app._get_current_object(), request.endpoint or "", request.method)  # type: ignore[attr-defined]
    if PUBLIC not in needed and not set(needed) & set(principal.scopes):
        detail = f"This needs the scope {' or '.join(needed)}, which keys of the level {principal.access_level} lack."
        raise ServiceError("permission_denied", detail=detail)


def _finish(response: Response) -> Response:
    """The headers that every response carries."""
    response.headers["X-Request-Id"] = g.request_id
    if not response.content_length and "Content-Type" in response.headers:
        response.headers["Content-Type"] = JSON
    allowance: Allowance | None = g.get("allowance")
    if allowance is not None:
        response.headers["RateLimit-Limit"] = str(allowance.limit)
        response.headers["RateLimit-Remaining"] = str(allowance.remaining)
        response.headers["RateLimit-Reset"] = str(allowance.reset)
    seconds = time.perf_counter() - g.started
    if not VERSION.fullmatch(first_segment()):
        protect(response)
    metrics.REQUESTS.labels(known_method(), response.status_code).inc()
    metrics.REQUEST_SECONDS.observe(seconds)
    _log_access(response, seconds)
    return response


def _log_access(response: Response, seconds: float) -> None:
    """One line per request; the path without its query, which may hold addresses."""
    access.info(
        "%s %s %s",
        known_method(),
        loggable_path(),
        response.status_code,
        extra={
            "milliseconds": round(seconds * 1000, 1),
            "account_id": g.principal.account_id if "principal" in g else None,
        },
    )
