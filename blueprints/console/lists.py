"""Lists: searching them, one with its contacts, and what is changed in place (docs/console.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE
from app.console.contacts import search as search_contacts
from app.console.lists import (
    FIRST_FIELDS,
    PATH,
    add_list,
    add_list_field,
    change_list,
    path_of_list,
    remove_list,
    search,
    sought,
)
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.contacts.acts import record_list_export
from app.contacts.cells import columns_of, flat
from app.db.database import ReadSession
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, status_of, texts_of
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp
from blueprints.console.list_page import contacts_search, list_form, list_of_path, list_page

FILE_COLUMNS = ("id", "name", "contacts", "creation_time", "last_modified_time")


@blp.route("/lists")
class Lists(MethodView):
    """The lists of an account."""

    @blp.scope("list.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        return _lists()

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Creates a list with the fields of the form."""
        types = [one for one in request.form.getlist("field") if one in FIRST_FIELDS]
        form = list_form()
        try:
            with services().database.write() as transaction:
                account_id = account_of_request(transaction).id
                path = path_of_list(add_list(transaction, account_id, form, types))
        except ServiceError as error:
            return _lists(error, {"name": form.name, "fields": types, "allow_duplicates": form.allow_duplicates})
        return goes_to(link(path, [], account_id))


@blp.route("/lists.csv")
class ListsFile(MethodView):
    """The lists of the page as a file."""

    @blp.scope("list.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            found = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        return csv_file("lists.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in found))


@blp.route("/lists/<list_id>")
class OneList(MethodView):
    """One list."""

    @blp.scope("contact.view")
    def get(self, list_id: str) -> Response:
        """Its contacts that match the query, the newest first, and its fields. A form leads to its query."""
        return list_page(list_id)

    @blp.scope(MANAGE)
    def post(self, list_id: str) -> Response:
        """Changes its attributes."""
        try:
            with services().database.write() as transaction:
                change_list(transaction, list_of_path(transaction, list_id), list_form())
        except ServiceError as error:
            return list_page(list_id, error, changed=list_form())
        return goes_to(_again(list_id))


@blp.route("/lists/<list_id>/contacts.csv")
class ContactsFile(MethodView):
    """The contacts of a list as a file."""

    @blp.scope("contact.view")
    def get(self, list_id: str) -> Response:
        """The newest of those that match the query, as an import can read them."""
        with services().database.read() as session:
            contact_list = list_of_path(session, list_id)
            pairs = contacts_search(contact_list).query()
            items = search_contacts(session, services().settings.secret_keys, contact_list, pairs, IN_A_FILE)[0]
        record_list_export(services().database, contact_list, len(items))
        columns = columns_of(contact_list)
        rows = ([row[name] for name in columns] for row in map(flat, items))
        return csv_file("contacts.csv", columns, rows)


@blp.route("/lists/<list_id>/fields")
class Fields(MethodView):
    """The fields of a list."""

    @blp.scope(MANAGE)
    def post(self, list_id: str) -> Response:
        """Adds the field of the form."""
        form = {name: request.form.get(name, "").strip() for name in ("name", "type", "options")}
        try:
            with services().database.write() as transaction:
                contact_list = list_of_path(transaction, list_id)
                add_list_field(transaction, contact_list, form["name"], form["type"], form["options"])
        except ServiceError as error:
            return list_page(list_id, error, new_field=form)
        return goes_to(_again(list_id))


@blp.route("/lists/<list_id>/delete")
class Delete(MethodView):
    """Deleting a list."""

    @blp.scope(MANAGE)
    def post(self, list_id: str) -> Response:
        """Deletes the list with its contacts, once its name was typed."""
        try:
            with services().database.write() as transaction:
                contact_list = list_of_path(transaction, list_id)
                remove_list(transaction, contact_list, request.form.get("confirmation", "").strip())
        except ServiceError as error:
            return list_page(list_id, error)
        return goes_to(link(PATH, [], contact_list.account_id))


def _again(list_id: str) -> str:
    return link(f"{PATH}/{path_id(list_id)}")


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    found, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    return {"items": found}, older


SEARCH = Search(PATH, "Lists", "lists.html", sought, _read, nothing={"items": []})


def _lists(error: ServiceError | None = None, form: Mapping[str, Any] | None = None) -> Response:
    if error is not None and error.code == "not_found":
        raise error
    known = {"may_manage": MANAGE in signed_in().scopes, "form": form or {}, "first_fields": FIRST_FIELDS}
    return search_page(SEARCH, status_of(error), texts_of(error), **known)
