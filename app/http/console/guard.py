"""Checks before a page of the console, in this order: https, path, origin, session, network, rate limit, scope
(docs/console.md#security)."""

from __future__ import annotations

from typing import cast

from flask import current_app, g, request

from app.console.sessions import SignedIn, find_session
from app.errors import ServiceError
from app.http.api import PUBLIC, scopes_of
from app.http.console.cookies import session_token
from app.http.console.origin import check_origin
from app.http.context import services
from app.http.networks import check_network
from app.http.paths import path_id
from app.http.rate_limit import count_request


def guard_console() -> None:
    """Raises `ServiceError` for a request that is refused."""
    settings = services().settings
    if not settings.console:
        raise ServiceError("not_found")
    if settings.require_https and not request.is_secure:
        raise ServiceError("ssl_required")
    if request.routing_exception is not None:
        raise request.routing_exception
    check_origin()
    if request.method == "OPTIONS":
        return  # answered from the routes alone
    needed = scopes_of(current_app._get_current_object(), request.endpoint or "", request.method)  # type: ignore[attr-defined]
    if PUBLIC in needed:
        return
    found = _find_session()
    if found is None:
        raise ServiceError("api_key_missing")
    check_network(found.allowed_networks)
    g.signed_in = found
    _count_request(found)
    if not set(needed) & set(found.scopes):
        raise ServiceError("permission_denied", detail=f"This page needs the scope {' or '.join(needed)}.")


def _count_request(found: SignedIn) -> None:
    """Counts against the rate limit. Raises `too_many_requests`."""
    whose = f"session:{found.session_id}" if found.key_id is None else found.key_id
    g.allowance = count_request(services(), whose, found.rate_limit)
    if g.allowance is not None and g.allowance.exceeded:
        detail = f"The rate limit of this key or session is used up. Reload this page in {g.allowance.reset} seconds."
        raise ServiceError("too_many_requests", detail=detail, retry_after=g.allowance.reset)


def _find_session() -> SignedIn | None:
    token = session_token()
    if token is None:
        return None
    with services().database.read() as session:
        return find_session(session, token)


def signed_in() -> SignedIn:
    """Who has sent this request."""
    return cast("SignedIn", g.signed_in)


def chosen_account_id() -> int | None:
    """The account that the page shows: that of the session; for operators the one whose id the parameter `account`
    has, or None for all. Raises `not_found` for what cannot be an id."""
    if not signed_in().is_operator:
        return signed_in().account_id
    wanted = request.args.get("account")
    return None if wanted is None else path_id(wanted)
