"""The accounts of the installation, and one with its settings (docs/console.md#accounts)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.accounts.accounts import create_account, update_account
from app.accounts.sessions import OPERATOR
from app.console.accounts import (
    CHOICES,
    COLUMNS,
    NETWORKS,
    PATH,
    RETENTIONS,
    SWITCHES,
    TEXTS,
    account_sought,
    attributes_of,
    form_of,
    list_accounts,
    path_of,
    refresh_test_account,
    shown_account,
)
from app.console.queries import IN_A_FILE, ON_A_PAGE
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.pages import goes_to, page, status_of
from app.http.console.searches import csv_file, link
from app.http.context import services
from app.http.paths import path_id
from app.ids import existing
from app.names import CONTROL
from blueprints.console.blueprint import blp

NEW = ("name", "owner_email", "owner_confirmed")


@blp.route("/accounts")
class Accounts(MethodView):
    """The accounts of the installation."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """A page of them by name. One that is looked for by its name or id is gone to."""
        wanted = request.args.get("find", "").strip()
        if not wanted:
            return _list()
        with services().database.read() as session:
            found = account_sought(session, wanted)
            if found is not None:
                return goes_to(path_of(found.test_of or found.id))
        return _list(ServiceError("not_found", detail=f"There is no account {wanted!r}."), find=wanted)

    @blp.scope(OPERATOR)
    def post(self) -> Response:
        """Creates the account of the form, and goes to its page."""
        form = {name: request.form.get(name, "").strip() for name in NEW}
        given = {
            "name": form["name"],
            "owner_email": form["owner_email"] or None,
            "owner_confirmed": bool(form["owner_confirmed"]),
        }
        try:
            with services().database.write() as transaction:
                account_id = create_account(transaction, given).id
        except ServiceError as error:
            return _list(error, form=form)
        return goes_to(path_of(account_id))


@blp.route("/accounts.csv")
class AccountsFile(MethodView):
    """The accounts of the page as a file."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """A row for each account, the first by name."""
        with services().database.read() as session:
            found, _ = list_accounts(session, "", IN_A_FILE)
        rows = ([getattr(one.account, name) for name in COLUMNS] for one in found)
        return csv_file("accounts.csv", COLUMNS, rows)


@blp.route("/accounts/<account_id>")
class OneAccount(MethodView):
    """One account."""

    @blp.scope(OPERATOR)
    def get(self, account_id: str) -> Response:
        """The settings of the account. A test account has those of its account, which is gone to."""
        return _one(path_id(account_id))

    @blp.scope(OPERATOR)
    def post(self, account_id: str) -> Response:
        """Changes the settings to those of the form."""
        names = (*TEXTS, *RETENTIONS, *CHOICES, *SWITCHES, NETWORKS)
        form = {name: request.form.get(name, "").strip() for name in names}
        wanted = path_id(account_id)
        try:
            with services().database.write() as transaction:
                account = existing(_live(transaction.get(Account, wanted)), "account", wanted)
                update_account(transaction, account, attributes_of(form))
        except ServiceError as error:
            return _one(wanted, error, form)
        return goes_to(path_of(wanted))


@blp.route("/accounts/<account_id>/refresh")
class RefreshTestAccount(MethodView):
    """The copies of a test account."""

    @blp.scope(OPERATOR)
    def post(self, account_id: str) -> Response:
        """Brings them up to date."""
        wanted = path_id(account_id)
        try:
            with services().database.write() as transaction:
                refresh_test_account(transaction, wanted)
        except ServiceError as error:
            return _one(wanted, error)
        return goes_to(path_of(wanted))


def _live(account: Account | None) -> Account | None:
    """The account, unless it is a test account, whose settings are copies."""
    return None if account is None or account.test_of is not None else account


def _list(error: ServiceError | None = None, find: str = "", form: Mapping[str, str] | None = None) -> Response:
    after = request.args.get("after", "")
    after = "" if CONTROL.search(after) else after
    with services().database.read() as session:
        items, last = list_accounts(session, after, ON_A_PAGE)
    return page(
        "accounts.html",
        items=items,
        following=link(PATH, [("after", last)]) if last else None,
        is_later=bool(after),
        find=find,
        form=form or {},
        of=PATH,
        **_told(error),
    )


def _one(account_id: int, error: ServiceError | None = None, form: Mapping[str, str] | None = None) -> Response:
    """The page of the account, with the errors of what was to be done at their fields. Raises `not_found`."""
    if error is not None and error.code == "not_found":
        raise error
    with services().database.read() as session:
        found = shown_account(session, account_id)
    if found.account.test_of is not None:
        return goes_to(path_of(found.account.test_of))
    named = shlex.quote(found.account.name)
    return page(
        "account.html",
        one=found,
        account=found.account,
        form=form or form_of(found.account),
        texts=TEXTS,
        retentions=RETENTIONS,
        choices=CHOICES,
        switches=SWITCHES,
        networks=NETWORKS,
        of=PATH,
        deleting=f"accounts delete {named}",
        emptying=f"test-account delete --account {named}",
        **_told(error, {*TEXTS, *RETENTIONS, *CHOICES, NETWORKS}),
    )


def _told(error: ServiceError | None, places: frozenset[str] | set[str] = frozenset()) -> dict[str, Any]:
    """The status, and the errors at the fields that a page has, or above all of them."""
    shown = [] if error is None else error.errors
    fields = [((one.field or "").partition(".")[0], one.developer_message) for one in shown]
    return {
        "status": status_of(error),
        "errors": {name: text for name, text in fields if name in places},
        "refused": [text for name, text in fields if name not in places],
    }
