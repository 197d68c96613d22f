"""Signing in and out, and the files that the pages load (docs/console.md#signing-in)."""

from __future__ import annotations

from datetime import timedelta

from flask import Response, g, request

from app.accounts.auth import Principal, find_principal, refuse_published
from app.accounts.sessions import end_session, find_session, start_with_key, start_with_link
from app.db.database import Transaction
from app.errors import ServiceError
from app.http.api import PUBLIC
from app.http.console.assets import asset
from app.http.console.guard import SESSION_COOKIE, count_attempt, signed_in
from app.http.console.navigation import HOME
from app.http.console.pages import SIGN_IN, form_texts, goes_to, page, path_after_sign_in, status_of
from app.http.context import check_network, request_host, services
from blueprints.console.blueprint import blp

LONGEST_KEY = 500
PUBLISHED_KEY_DETAIL = "The published keys of the demo work only on a loopback address that others cannot reach."


@blp.shows("/sign-in", PUBLIC)
def sign_in() -> Response:
    """The form for a key."""
    return page("sign_in.html", next_path=path_after_sign_in(request.args.get("wanted")), reason=None)


@blp.takes("/sign-in", PUBLIC)
def with_key() -> Response:
    """Starts a session with the key of the form; a wrong key shows the form again."""
    next_path = path_after_sign_in(request.form.get("wanted"))
    count_attempt()
    try:
        key = _key(form_texts("key")["key"])
        with services().database.write() as transaction:
            token = start_with_key(transaction, key, services().settings.console_session)
            acts_now(transaction, token)
    except ServiceError as error:
        return page("sign_in.html", status_of(error), next_path=next_path, reason=error.errors[0].developer_message)
    return with_session(token, next_path, services().settings.console_session)


@blp.shows("/login/<token>", PUBLIC)
def link(**_: str) -> Response:
    """A button for a link that works once: programs that look at links must not use them up. Its form goes to the
    address of the page as it is: browsers would read a backslash or dots in the token as another path, such as one that
    changes something."""
    return page("link.html")


@blp.takes("/login/<token>", PUBLIC)
def with_link(token: str) -> Response:
    """Uses the link up, and starts its session."""
    count_attempt()
    with services().database.write() as transaction:
        session_token = start_with_link(transaction, token, services().settings.console_session)
        acts_now(transaction, session_token)
    return with_session(session_token, HOME, services().settings.console_session)


@blp.changes("/sign-out", "report.view", "operator")
def sign_out(transaction: Transaction) -> Response:
    """Ends the session."""
    end_session(transaction, signed_in().session_id)
    return SESSION_COOKIE.forget(goes_to(SIGN_IN))


@blp.shows("/assets/<hash_>/<name>", PUBLIC)
def file(hash_: str, name: str) -> Response:
    """A style or a script."""
    return asset(hash_, name)


def _key(token: str) -> Principal:
    """The key. Raises `api_key_missing`, `api_key_invalid` or `ip_restricted`."""
    if not token:
        raise ServiceError("api_key_missing", detail="Enter an API key.")
    try:
        refuse_published(token, services().settings, request_host)
    except ServiceError:
        raise ServiceError("api_key_invalid", detail=PUBLISHED_KEY_DETAIL) from None
    with services().database.read() as session:
        try:
            principal = find_principal(session, token[:LONGEST_KEY])
        except ServiceError:
            raise ServiceError("api_key_invalid", detail="This key does not exist or was revoked.") from None
    check_network(principal.allowed_networks)
    return principal


def acts_now(transaction: Transaction, token: str) -> None:
    """Makes who has just signed in the one whom the audit log names. Raises `permission_denied` where nobody signs in
    so."""
    transaction.flush()
    g.signed_in = session = find_session(transaction, token)
    if session is None or not session.is_accepted(services().settings):
        g.signed_in = None
        raise ServiceError("permission_denied", detail=f"Sign in with {services().settings.provider_name} instead.")


def with_session(token: str, path: str, lifetime: timedelta) -> Response:
    """Sends a browser that has signed in to the page, and has it keep the session."""
    return SESSION_COOKIE.keep(goes_to(path), token, lifetime)
