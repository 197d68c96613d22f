"""Lists: searching them, one with its contacts, and what is changed in place (docs/console.md#lists-and-contacts)."""

from __future__ import annotations

from flask import Response, request

from app.accounts.sessions import MANAGE
from app.console.lists import (
    FIRST_FIELDS,
    PATH,
    add_list,
    add_list_field,
    change_list,
    path_of_list,
    remove_list,
    search,
)
from app.console.queries import by_name
from app.db.database import Transaction
from app.db.models import Account
from app.http.console.guard import signed_in
from app.http.console.pages import form_texts, link
from app.http.console.searches import Search, account_of_request
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp
from blueprints.console.list_page import contacts_search, list_form, list_of_path, list_page

SEARCH = Search(
    path=PATH,
    title="Lists",
    template="lists.html",
    sought=by_name,
    find=search,
    columns=("id", "name", "contacts", "creation_time", "last_modified_time"),
    known=lambda: {"may_manage": MANAGE in signed_in().scopes, "first_fields": FIRST_FIELDS},
)
blp.searches(SEARCH, "list.view")


@blp.changes("/lists", MANAGE, refused=SEARCH.page)
def create(transaction: Transaction) -> str:
    """Creates a list with the fields of the form."""
    account_id = account_of_request(transaction).id
    types = [one for one in request.form.getlist("field") if one in FIRST_FIELDS]
    return link(path_of_list(add_list(transaction, account_id, list_form(), types)), [], account_id)


@blp.shows("/lists/<list_id>", "contact.view")
def contacts(list_id: str) -> Response:
    """The contacts of a list that match the query, the newest first, and its fields. A form leads to its query."""
    return list_page(list_id)


@blp.shows("/lists/<list_id>/contacts.csv", "contact.view")
def contacts_file(list_id: str) -> Response:
    """The newest that match the query as a file, as an import can read them."""
    with services().database.read() as session:
        contact_list = list_of_path(session, list_id)
        search_of_contacts = contacts_search(contact_list)
        rows = search_of_contacts.rows(session, session.get_one(Account, contact_list.account_id))
    return search_of_contacts.file_of(rows, contact_list.account_id)


@blp.changes("/lists/<list_id>", MANAGE, refused=lambda error, list_id: list_page(list_id, error, "list"))
def change(transaction: Transaction, list_id: str) -> str:
    """Changes the attributes of a list."""
    change_list(transaction, list_of_path(transaction, list_id), list_form())
    return _again(list_id)


@blp.changes("/lists/<list_id>/fields", MANAGE, refused=lambda error, list_id: list_page(list_id, error, "field"))
def add_field(transaction: Transaction, list_id: str) -> str:
    """Adds the field of the form to a list."""
    form = form_texts("name", "type", "options")
    add_list_field(transaction, list_of_path(transaction, list_id), form["name"], form["type"], form["options"])
    return _again(list_id)


@blp.changes("/lists/<list_id>/delete", MANAGE, refused=lambda error, list_id: list_page(list_id, error))
def delete(transaction: Transaction, list_id: str) -> str:
    """Deletes a list with its contacts, once its name was typed."""
    contact_list = list_of_path(transaction, list_id)
    remove_list(transaction, contact_list, form_texts("confirmation")["confirmation"])
    return link(PATH, [], contact_list.account_id)


def _again(list_id: str) -> str:
    return link(f"{PATH}/{path_id(list_id)}")
