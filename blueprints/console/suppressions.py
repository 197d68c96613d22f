"""Suppressions: searching, adding and removing them (docs/console.md#suppressions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.accounts.exports import record_export
from app.bulk_actions.kinds import UNBLOCK
from app.console.bulk_actions import offers_unblocking
from app.console.messages import PATH as OF_MESSAGES
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs, of_address
from app.console.suppressions import (
    PATH,
    NewSuppression,
    Suppression,
    add_suppression,
    causes,
    find_suppression,
    remove_suppression,
    search,
)
from app.console.uploads import MOST_ROWS
from app.contacts.blocked import STATES
from app.db.database import ReadSession
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page
from app.http.context import services
from app.http.paths import path_id
from app.query.cursors import CURSOR
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from blueprints.console.blueprint import blp
from blueprints.console.bulk_actions import BulkPreview

FILE_COLUMNS = ("state", "kind", "address", "list_id", "list", "reason", "creation_time", "reply")


@blp.route("/suppressions")
class Suppressions(MethodView):
    """The suppressions of an account."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        return _page()

    @blp.scope("contact.update")
    def post(self) -> Response:
        """Blocks or unsubscribes the address of the form."""
        form = {name: request.form.get(name, "").strip() for name in ("address", "state", "list", "reason")}
        try:
            with services().database.write() as transaction:
                account = account_of_request(transaction)
                secret_key = services().settings.secret_key
                add_suppression(transaction, secret_key, account.id, NewSuppression(**form))
        except ServiceError as error:
            return refused(error, form=form)
        return goes_to(link(PATH, [of_address(form["address"])]))


@blp.route("/suppressions.csv")
class SuppressionsFile(MethodView):
    """The suppressions of the page as a file."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """The newest of those that match the query, without forgotten people."""
        with services().database.read() as session:
            account = account_of_request(session)
            found = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        rows = [_cells(one) for one in found if one.address is not None]
        record_export(services().database, "suppression.exported", account.id, suppressions=len(rows))
        return csv_file("suppressions.csv", FILE_COLUMNS, rows)


@blp.route("/suppressions/<state>/<suppression_id>")
class OneSuppression(MethodView):
    """One suppression."""

    @blp.scope("contact.view")
    def get(self, state: str, suppression_id: str) -> Response:
        """Why an address gets nothing, since when, and by what."""
        secret_keys = services().settings.secret_keys
        with services().database.read() as session:
            account_id, one = find_suppression(session, signed_in().account_id, state, path_id(suppression_id))
            found = causes(session, secret_keys, account_id, one)
        messages = link(OF_MESSAGES, [of_address(one.address)], account_id) if one.address else None
        return page(
            "suppression.html", one=one, causes=found, shown=_shown(), messages=messages, may_change=_may_change()
        )


@blp.route("/suppressions/<state>/<suppression_id>/remove")
class Remove(MethodView):
    """Removing a suppression."""

    @blp.scope("contact.update")
    def post(self, state: str, suppression_id: str) -> Response:
        """Unblocks the address, or resubscribes it."""
        with services().database.write() as transaction:
            account_id, one = find_suppression(transaction, signed_in().account_id, state, path_id(suppression_id))
            remove_suppression(transaction, services().settings.secret_key, account_id, one)
        return goes_to(link(PATH, [of_address(one.address or "")], account_id))


@blp.route("/suppressions/unblock")
class Unblocking(MethodView):
    """Unblocking all that a search shows."""

    @blp.scope("contact.update")
    def get(self) -> Response:
        """How many blocked addresses the query finds, and the newest of them."""
        return UNBLOCKING.shown()

    @blp.scope("contact.update")
    def post(self) -> Response:
        """Asks for it, as a bulk action."""
        return UNBLOCKING.asked()


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    found, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    whole = [one for one in pairs if one[0] != CURSOR]
    unblocks = link(f"{PATH}/unblock", whole) if _may_change() and offers_unblocking(account, whole) else None
    return {"items": found, "shown": _shown(), "unblocks": unblocks}, older


SEARCH = Search(PATH, "Suppressions", "suppressions.html", of_address, _read, nothing={"items": []})
UNBLOCKING = BulkPreview("suppressions_unblock.html", {UNBLOCK.name: UNBLOCK}, f"{PATH}/unblock", PATH, SEARCH.title)


def _shown() -> Callable[[str | None], str | None]:
    """A reply as the signed-in person may read it."""
    return (lambda text: text) if signed_in().is_operator else Viewer(True, Redaction.of(services().settings)).redacted


def _page(status: int = 200, refused: Sequence[str] = (), form: Mapping[str, str] | None = None) -> Response:
    known = {"states": STATES, "may_change": _may_change(), "most_rows": MOST_ROWS, "form": form or {}}
    return search_page(SEARCH, status, refused, **known)


def refused(error: ServiceError, form: Mapping[str, str] | None = None) -> Response:
    """The page, which says why a form is refused."""
    if error.code == "not_found":
        raise error
    return _page(status_of(error), texts_of(error), form)


def _may_change() -> bool:
    return "contact.update" in signed_in().scopes


def _cells(one: Suppression) -> tuple[Any, ...]:
    return one.state, one.kind, one.address, one.list_id, one.list_name, one.reason, one.creation_time, one.reply
