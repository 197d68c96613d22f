"""What the pages of a list and of its contacts have in common (docs/console.md#lists-and-contacts)."""

from __future__ import annotations

from flask import Response, request

from app.accounts.sessions import MANAGE
from app.console.contacts import columns_of_table, inputs_of, search, state_of
from app.console.lists import ListForm, list_of, name_of, path_of_list
from app.console.queries import of_address
from app.console.uploads import MOST_ROWS
from app.contacts.acts import record_list_export
from app.contacts.cells import columns_of, flat
from app.contacts.counts import number_of_contacts
from app.db.database import ReadSession, Transaction
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import form_texts, link
from app.http.console.searches import Search
from app.http.context import services
from app.http.paths import path_id
from app.lists.fields import FIELD_TYPES, ListSpec


def list_form() -> ListForm:
    """What the form of a list says."""
    text = form_texts("name", "stop_words")
    flags = {name: request.form.get(name) == "1" for name in ("allow_duplicates", "system")}
    return ListForm(text["name"], text["stop_words"], **flags)


def list_of_path(session: ReadSession | Transaction, list_id: str) -> ListSpec:
    """The list of the path, of the account of the session, or for operators of any. Raises `not_found`."""
    return list_of(session, chosen_account_id(), path_id(list_id))


def may_write(contact_list: ListSpec, scope: str) -> bool:
    """Whether the session may do so to contacts of the list: those of a system list are for the command line, and for
    whom a link of it has signed in."""
    scopes = signed_in().scopes
    return scope in scopes and (not contact_list.system or MANAGE in scopes)


def contacts_search(contact_list: ListSpec) -> Search:
    """The search of the contacts of a list, whose file an import can read."""
    path = path_of_list(contact_list)
    return Search(
        path=path,
        title=name_of(contact_list),
        template="list.html",
        sought=of_address,
        find=lambda asked: search(asked, contact_list),
        columns=columns_of(contact_list),
        row=flat,
        recorded=lambda _, rows: record_list_export(services().database, contact_list, rows),
        file_path=f"{path}/contacts.csv",
    )


def list_page(list_id: str, error: ServiceError | None = None, sent: str = "") -> Response:
    """The page of a list, which tells of a refusal, with what the form said that was sent: that of the `list`, of a
    `field` or of a `contact`."""
    if error is not None and error.code == "not_found":
        raise error
    new_contact = request.form if sent == "contact" else None
    with services().database.read() as session:
        contact_list = list_of_path(session, list_id)
        account = session.get_one(Account, contact_list.account_id)
        known = {
            "contact_list": contact_list,
            "name": name_of(contact_list),
            "number_of_contacts": number_of_contacts(session, contact_list.id),
            "columns": columns_of_table(contact_list),
            "state_of": state_of,
            "inputs": inputs_of(contact_list, None, new_contact),
            "form": list_form() if sent == "list" else None,
            "new_contact": new_contact,
            "new_field": request.form if sent == "field" else None,
            "types": FIELD_TYPES,
            "most_rows": MOST_ROWS,
            "of": path_of_list(contact_list),
            "at": lambda path: link(path, [], contact_list.account_id),
            "may_manage": MANAGE in signed_in().scopes,
            "may_create": may_write(contact_list, "contact.create"),
        }
        return contacts_search(contact_list).page_within(session, account, error, **known)
