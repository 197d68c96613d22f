"""The accounts of the installation, and one with its settings (docs/console-contents.md#accounts)."""

from __future__ import annotations

import shlex

from flask import Response, request

from app.accounts.accounts import RETENTION_ATTRIBUTES, create_account, update_account
from app.accounts.attributes import ATTRIBUTES
from app.accounts.sessions import OPERATOR
from app.console.accounts import (
    INPUTS,
    NETWORKS,
    PATH,
    account_by_name_or_id,
    attributes_of,
    list_accounts,
    path_of,
    refresh_test_account,
    shown_account,
)
from app.console.queries import FILE_ROWS, PAGE_ROWS
from app.db.database import Transaction
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.notices import Done
from app.http.console.pages import errors_at, form_texts, goes_to, link, page_after
from app.http.console.searches import csv_file
from app.http.context import services
from app.http.paths import path_id
from app.ids import existing
from app.names import CONTROL
from app.resources.definition import Switch, form_of, values_of
from blueprints.console.blueprint import blp

COLUMNS = tuple(attribute.key for attribute in ATTRIBUTES if attribute.key != "test_of")
SETTINGS = tuple(attribute.key for attribute in INPUTS)
FIRST_INPUTS = [attribute for attribute in INPUTS if attribute.key in ("name", "owner_email", "owner_confirmed")]
"""What the form of a new account asks for."""
SWITCHES = {attribute.key for attribute in INPUTS if isinstance(attribute.kind, Switch)}


@blp.shows("/accounts", OPERATOR)
def accounts(error: ServiceError | None = None) -> Response:
    """The accounts of the installation by name. One that is looked for by its name or id is gone to."""
    find = request.args.get("find", "").strip()
    after = request.args.get("after", "")
    after = "" if CONTROL.search(after) else after
    with services().database.read() as session:
        account = account_by_name_or_id(session, find) if find else None
        if account is not None:
            return goes_to(path_of(account.test_of or account.id))
        items, last = list_accounts(session, after, PAGE_ROWS)
    if find:
        error = ServiceError("not_found", detail=f"There is no account {find!r}.")
    following = link(PATH, [("after", last)]) if last else None
    template_values = {"items": items, "following": following, "is_later": bool(after), "find": find, "of": PATH}
    return page_after(error, "accounts.html", form=request.form, inputs=FIRST_INPUTS, **template_values)


@blp.changes("/accounts", OPERATOR, refused=accounts)
def create(transaction: Transaction) -> Done:
    """Creates the account of the form, and goes to its page."""
    values = values_of(FIRST_INPUTS, form_texts(*(attribute.key for attribute in FIRST_INPUTS)))
    return Done(path_of(create_account(transaction, values).id), "The account was created.")


@blp.shows("/accounts.csv", OPERATOR)
def accounts_file() -> Response:
    """The accounts of the page as a file, the first by name."""
    with services().database.read() as session:
        account_rows, _ = list_accounts(session, "", FILE_ROWS)
    rows = ([getattr(account_row.account, name) for name in COLUMNS] for account_row in account_rows)
    return csv_file("accounts.csv", COLUMNS, rows)


@blp.shows("/accounts/<account_id>", OPERATOR)
def account(error: ServiceError | None = None, *, account_id: str) -> Response:
    """The settings of an account, with what was refused at their fields. A test account has those of its account, which
    is gone to."""
    with services().database.read() as session:
        account_row = shown_account(session, path_id(account_id))
    if account_row.account.test_of is not None:
        return goes_to(path_of(account_row.account.test_of))
    named = shlex.quote(account_row.account.name)
    errors, refused = errors_at(error, {*SETTINGS} - SWITCHES)
    return page_after(
        error,
        "account.html",
        account_row=account_row,
        account=account_row.account,
        form=form_texts(*SETTINGS) if NETWORKS in request.form else form_of(INPUTS, account_row.account),
        inputs=INPUTS,
        retentions=RETENTION_ATTRIBUTES,
        networks=NETWORKS,
        of=PATH,
        deleting=f"accounts delete {named}",
        emptying=f"test-account delete --account {named}",
        errors=errors,
        refused=refused,
    )


@blp.changes("/accounts/<account_id>", OPERATOR, refused=account)
def change(transaction: Transaction, account_id: str) -> Done:
    """Changes the settings of an account to those of the form; those of a test account are copies."""
    id_ = path_id(account_id)
    account = transaction.get(Account, id_)
    live = existing(None if account is None or account.test_of is not None else account, "account", id_)
    update_account(transaction, live, attributes_of(form_texts(*SETTINGS)))
    return Done(path_of(id_), "The account was saved.")


@blp.changes("/accounts/<account_id>/refresh", OPERATOR, refused=account)
def refresh(transaction: Transaction, account_id: str) -> Done:
    """Brings the copies of a test account up to date."""
    refresh_test_account(transaction, path_id(account_id))
    return Done(path_of(path_id(account_id)), "The test account is up to date.")
