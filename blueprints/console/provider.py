"""Signing in by OpenID Connect, and choosing among one's roles (docs/sign-in.md)."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Response, request

from app.accounts.sessions import Grant, switch_role
from app.clock import now
from app.console.accounts import names_of_accounts
from app.db.database import ReadSession, Transaction
from app.errors import ServiceError
from app.http.api import PUBLIC
from app.http.console.guard import ATTEMPT_COOKIE, count_attempt, signed_in
from app.http.console.navigation import HOME
from app.http.console.pages import form_texts, goes_to, page, path_after_sign_in
from app.http.context import services
from app.ids import id_in
from app.sign_in.attempts import (
    ACCEPTED,
    ATTEMPT_LIFETIME,
    READY,
    REFUSED,
    Attempt,
    begin,
    find_attempt,
    forget_attempt,
    grants_of_person,
    start_session,
    take_answer,
)
from blueprints.console.blueprint import blp
from blueprints.console.signing import acts_now, with_session

WAITING = "/console/sign-in/provider"
OVER = "This attempt to sign in is over. Begin again."


@blp.takes("/sign-in/attempts", PUBLIC)
def begin_with_provider() -> Response:
    """Begins an attempt, whose page leads to the provider as soon as a worker has prepared the way. No redirection goes
    there from the form: the policy of the pages keeps forms within the console."""
    _check_provider()
    count_attempt()
    next_path = path_after_sign_in(request.form.get("wanted"))
    with services().database.write() as transaction:
        token = begin(transaction, services(), next_path)
    return ATTEMPT_COOKIE.keep(page("provider.html"), token, ATTEMPT_LIFETIME)


@blp.shows("/sign-in/provider", PUBLIC)
def wait_for_provider() -> Response:
    """How the attempt of this browser goes on: to the provider, into the console, or not at all."""
    _check_provider()
    attempt = _attempt()
    if attempt is None:
        return _form(HOME, OVER)
    if attempt.state == READY:
        return Response(status=303, headers={"Location": attempt.secret["url"]})
    if attempt.state == ACCEPTED:
        return _enter(attempt)
    if attempt.state == REFUSED:
        with services().database.write() as transaction:
            forget_attempt(transaction, attempt.id)
        return _form(attempt.wanted_path, attempt.reason or OVER)
    return page("provider.html")


@blp.shows("/sign-in/callback", PUBLIC)
def answer_of_provider() -> Response:
    """Takes the answer of the provider, which comes with the browser."""
    _check_provider()
    with services().database.write() as transaction:
        take_answer(transaction, services(), ATTEMPT_COOKIE.token() or "", request.args)
    return goes_to(WAITING)


@blp.shows("/roles", "report.view")
def roles() -> Response:
    """The roles of the person, of which one holds in a session."""
    with services().database.read() as session:
        grants = _own_grants(session)
        names = names_of_accounts(session, {grant.account_id for grant in grants})
    choices = [(grant, names.get(grant.account_id or 0), grant == _own_grant()) for grant in grants]
    return page("roles.html", choices=choices)


@blp.changes("/roles", "report.view")
def choose_role(transaction: Transaction) -> Response:
    """Goes on with another role of the person, in a session of its own that lasts no longer."""
    form = form_texts("role", "account")
    grant = Grant(form["role"], id_in(form["account"]) if form["account"] else None)
    if grant == _own_grant() and signed_in().person_id is not None:
        return goes_to(HOME)
    lifetime = signed_in().end_time - now()
    token = switch_role(transaction, signed_in().session_id, grant) if grant in _own_grants(transaction) else None
    if token is None:
        raise ServiceError("not_found", detail="You do not have this role.")
    acts_now(transaction, token)
    return with_session(token, HOME, lifetime)


def _check_provider() -> None:
    """Raises `not_found` where nobody signs in by a provider."""
    if not services().settings.oidc_issuer:
        raise ServiceError("not_found")


def _attempt() -> Attempt | None:
    token = ATTEMPT_COOKIE.token()
    if token is None:
        return None
    with services().database.read() as session:
        return find_attempt(session, services().settings, token)


def _enter(attempt: Attempt) -> Response:
    """Starts the session of an accepted attempt."""
    with services().database.write() as transaction:
        token = start_session(transaction, services().settings, attempt)
        if token is not None:
            acts_now(transaction, token)
    if token is None:
        return _form(attempt.wanted_path, OVER)
    return ATTEMPT_COOKIE.forget(with_session(token, attempt.wanted_path, signed_in().end_time - now()))


def _form(next_path: str, reason: str) -> Response:
    """The page to sign in, which says why that did not happen."""
    return ATTEMPT_COOKIE.forget(page("sign_in.html", 403, next_path=next_path, reason=reason))


def _own_grants(session: ReadSession) -> Sequence[Grant]:
    """The roles of who is signed in; none unless with a provider."""
    person_id = signed_in().person_id
    return () if person_id is None else grants_of_person(session, person_id)


def _own_grant() -> Grant:
    return Grant(signed_in().role or "", signed_in().account_id)
