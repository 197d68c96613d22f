"""Checks before a page of the console, in this order: https, path, origin, session, network, rate limit, scope
(docs/console-security.md).
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from flask import Response, current_app, g, request
from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.accounts import rate_limit
from app.accounts.sessions import BrowserSession, find_session
from app.db.models import Account
from app.errors import ServiceError
from app.http.api import PUBLIC, scopes_of
from app.http.context import check_network, client_address, count_once, services
from app.http.paths import path_id
from app.ids import id_in
from app.network.addresses import network_of

# The cookies by which the console recognises a browser.

PLAIN_COOKIE = "tms_console"
SECURE_COOKIE = f"__Host-{PLAIN_COOKIE}"


class TokenCookie(NamedTuple):
    """A cookie in which a browser keeps a token.

    Over https its name begins with `__Host-`, so that a browser takes it from this host over https alone, and no other
    host of the domain can set it. Over plain http, which `REQUIRE_HTTPS` then allows, it has another name: browsers
    would not keep a secure one.
    """

    suffix: str
    """What its name ends in."""
    same_site: str

    @property
    def name(self) -> str:
        """Its name in the request."""
        return (SECURE_COOKIE if request.is_secure else PLAIN_COOKIE) + self.suffix

    def token(self) -> str | None:
        """The token that the browser has sent, if any."""
        return request.cookies.get(self.name) or None

    def keep(self, response: Response, token: str, lifetime: timedelta) -> Response:
        """The response, with which the browser keeps the token."""
        response.set_cookie(
            self.name,
            token,
            max_age=int(lifetime.total_seconds()),
            path="/",
            secure=request.is_secure,
            httponly=True,
            samesite=self.same_site,
        )
        return response

    def forget(self, response: Response) -> Response:
        """The response, with which the browser forgets the token."""
        response.delete_cookie(self.name, path="/", secure=request.is_secure, httponly=True, samesite=self.same_site)
        return response


SESSION_COOKIE = TokenCookie("", "Strict")
"""The cookie of a session (docs/console.md#sessions). Browsers send it with requests that come from this site."""
ATTEMPT_COOKIE = TokenCookie("_sign_in", "Lax")
"""The cookie of an attempt to sign in by OpenID Connect (docs/sign-in.md#the-way). It is not strict: the provider leads
back from another site."""


# Which requests come from the console's own pages (docs/console-security.md).
#
# The cookie is no proof: to `SameSite`, another port of the same host is the same site.

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def check_origin() -> None:
    """Raises `permission_denied` for a request that may change something and does not come from a page of this very
    origin, as far as its browser says."""
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("Sec-Fetch-Site")
    is_own = site == "same-origin" if site is not None else request.headers.get("Origin") in own_origins()
    if not is_own:
        raise ServiceError("permission_denied", detail="This request did not come from a page of the console.")


def comes_from_elsewhere() -> bool:
    """Whether somebody followed a link of another site, with which browsers send no strict cookie."""
    return request.method == "GET" and request.headers.get("Sec-Fetch-Site") == "cross-site"


def own_origins() -> tuple[str, str]:
    """The origin of the request, and that which browsers see where a proxy does not tell."""
    public = urlsplit(services().settings.public_url)
    return request.host_url.rstrip("/"), f"{public.scheme}://{public.netloc}"


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
    session = _find_session()
    if session is None:
        raise ServiceError("api_key_missing")
    check_network(session.allowed_networks)
    g.signed_in = session
    _count_request(session)
    if not set(needed) & set(session.scopes):
        raise ServiceError("permission_denied", detail=f"This page needs the scope {' or '.join(needed)}.")


def _count_request(session: BrowserSession) -> None:
    """Counts against the rate limit. Raises `too_many_requests`."""
    whose = f"session:{session.session_id}" if session.key_id is None else session.key_id
    allowance = count_once(services(), whose, session.rate_limit)
    if allowance is not None and allowance.is_exceeded:
        detail = f"The rate limit of this key or session is exhausted. Reload this page in {allowance.reset} seconds."
        raise ServiceError("too_many_requests", detail=detail, retry_after=allowance.reset)


def _find_session() -> BrowserSession | None:
    token = SESSION_COOKIE.token()
    if token is None:
        return None
    with services().database.read() as session:
        browser_session = find_session(session, token)
        if browser_session is None or not browser_session.is_accepted(services().settings):
            return None
        if browser_session.sees_all_accounts:
            g.chosen_account = _chosen_account(session)
        return browser_session


def _chosen_account(session: Session) -> Row[int, str] | None:
    """The id and the name of the account that somebody who sees all accounts has chosen, for the navigation."""
    account_id = id_in(request.args.get("account", ""))
    if account_id is None:
        return None
    return session.execute(select(Account.id, Account.name).where(Account.id == account_id)).first()


def signed_in() -> BrowserSession:
    """Who has sent this request."""
    return cast("BrowserSession", g.signed_in)


def may(*scopes: str) -> bool:
    """Whether whoever has sent this request has one of the scopes."""
    return bool({*scopes} & {*signed_in().scopes})


def chosen_account_id() -> int | None:
    """The account that the page shows: that of the session; for who sees all accounts the one whose id the
    parameter `account` has, or None for all. Raises `not_found` for what cannot be an id."""
    if not signed_in().sees_all_accounts:
        return signed_in().account_id
    account_parameter = request.args.get("account")
    return None if account_parameter is None else path_id(account_parameter)


# How often one client may try to sign in (docs/console.md#signing-in).
#
# Keys and links have 256 random bits, so that nobody guesses one: the limit keeps attempts from loading the database.

MAX_ATTEMPTS = 10
WINDOW_SECONDS = 60


def count_attempt() -> None:
    """Counts an attempt. Raises `too_many_requests`. Without Redis there is no limit: the console is needed then."""
    if g.get("sign_in_attempts") is None:  # a repeated request has counted itself already
        client = network_of(client_address()) or "local"
        g.sign_in_attempts = rate_limit.count_attempt(services(), f"console:{client}", WINDOW_SECONDS)
    attempts = g.sign_in_attempts
    if attempts is not None and attempts.number > MAX_ATTEMPTS:
        raise ServiceError("too_many_requests", retry_after=attempts.reset)
