"""Lists: searching them, one with its contacts, and what is changed in place
(docs/console-contents.md#lists-and-contacts)."""

from __future__ import annotations

from flask import Response, request

from app.accounts.auth import MANAGE
from app.console.contacts import columns_of_table, inputs_of, state_of
from app.console.contacts import search as search_contacts
from app.console.lists import (
    FIRST_FIELDS,
    INPUTS,
    PATH,
    add_list,
    add_list_field,
    change_list,
    list_of,
    name_of,
    path_of_list,
    remove_list,
    search,
)
from app.console.losses import loss_of_list
from app.console.queries import address_filter, name_filter
from app.console.uploads import MAX_ROWS
from app.contacts.acts import record_list_export
from app.contacts.cells import columns_of, flat
from app.contacts.counts import check_size, number_of_contacts
from app.db.database import ReadSession, Transaction
from app.db.models import Account, List
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, may
from app.http.console.notices import Done
from app.http.console.pages import form_texts, link
from app.http.console.questions import CONFIRMATION, Question
from app.http.console.searches import Search, account_of_request
from app.http.context import services
from app.http.paths import path_id
from app.lists.fields import FIELD_TYPES, ListSpec
from app.resources.definition import form_of, values_of
from blueprints.console.blueprint import blp

SEARCH = Search(
    path=PATH,
    title="Lists",
    template="lists.html",
    text_filter=name_filter,
    find=search,
    columns=("id", "name", "contacts", "creation_time", "last_modified_time"),
    context=lambda: {
        "may_manage": may(MANAGE),
        "first_fields": FIRST_FIELDS,
        "inputs": {attribute.key: attribute for attribute in INPUTS},
    },
)
blp.searches(SEARCH, "list.view")


@blp.changes("/lists", MANAGE, refused=SEARCH.page)
def create(transaction: Transaction) -> Done:
    """Creates a list with the fields of the form."""
    account_id = account_of_request(transaction).id
    types = [type_ for type_ in request.form.getlist("field") if type_ in FIRST_FIELDS]
    return Done(
        link(path_of_list(add_list(transaction, account_id, values_of(INPUTS, list_form()), types)), [], account_id),
        "The list was created.",
    )


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
def change(transaction: Transaction, list_id: str) -> Done:
    """Changes the attributes of a list."""
    change_list(transaction, list_of_path(transaction, list_id), values_of(INPUTS, list_form()))
    return Done(_again(list_id), "The list was saved.")


@blp.changes("/lists/<list_id>/fields", MANAGE, refused=lambda error, list_id: list_page(list_id, error, "field"))
def add_field(transaction: Transaction, list_id: str) -> Done:
    """Adds the field of the form to a list."""
    form = form_texts("name", "type", "options")
    add_list_field(transaction, list_of_path(transaction, list_id), form["name"], form["type"], form["options"])
    return Done(_again(list_id), f"The field {form['name']} was added.")


def _before_deleting(session: ReadSession, list_id: str) -> Question:
    contact_list = list_of_path(session, list_id)
    check_size(session, contact_list.id, "lists delete")
    loss = (
        "This also deletes its contacts and automations. Webhooks receive an event for each contact. This cannot be "
        "undone."
    )
    name, back = name_of(contact_list), link(path_of_list(contact_list), [], contact_list.account_id)
    return Question(f"Delete {name}?", [*loss_of_list(session, contact_list), loss], "Delete list", back, name)


@blp.changes(
    "/lists/<list_id>/delete",
    MANAGE,
    refused=lambda error, list_id: list_page(list_id, error),
    asks=_before_deleting,
)
def delete(transaction: Transaction, list_id: str) -> Done:
    """Deletes a list with its contacts, once its name was typed."""
    contact_list = list_of_path(transaction, list_id)
    remove_list(transaction, contact_list, form_texts(CONFIRMATION)[CONFIRMATION])
    return Done(link(PATH, [], contact_list.account_id), f"{contact_list.name} was deleted with its contacts.")


def _again(list_id: str) -> str:
    return link(f"{PATH}/{path_id(list_id)}")


# What the pages of a list and of its contacts have in common (docs/console-contents.md#lists-and-contacts).


def list_form() -> dict[str, str]:
    """What the form of a list says."""
    return form_texts(*(attribute.key for attribute in INPUTS))


def list_of_path(session: ReadSession | Transaction, list_id: str) -> ListSpec:
    """The list of the path, of the account of the session, or for operators of any. Raises `not_found`."""
    return list_of(session, chosen_account_id(), path_id(list_id))


def may_write(contact_list: ListSpec, scope: str) -> bool:
    """Whether the session may do so to contacts of the list: those of a system list are for the command line, and for
    whom a link of it has signed in."""
    return may(scope) and (not contact_list.system or may(MANAGE))


def contacts_search(contact_list: ListSpec) -> Search:
    """The search of the contacts of a list, whose file an import can read."""
    path = path_of_list(contact_list)
    return Search(
        path=path,
        title=name_of(contact_list),
        template="list.html",
        text_filter=address_filter,
        find=lambda search_request: search_contacts(search_request, contact_list),
        columns=columns_of(contact_list),
        row=flat,
        record_file=lambda _, rows: record_list_export(services().database, contact_list, rows),
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
        template_values = {
            "contact_list": contact_list,
            "name": name_of(contact_list),
            "number_of_contacts": number_of_contacts(session, contact_list.id),
            "columns": columns_of_table(contact_list),
            "state_of": state_of,
            "inputs": inputs_of(contact_list, None, new_contact),
            "form": list_form() if sent == "list" else form_of(INPUTS, session.get_one(List, contact_list.id)),
            "list_inputs": INPUTS,
            "is_list_refused": sent == "list",
            "new_contact": new_contact,
            "new_field": request.form if sent == "field" else None,
            "types": FIELD_TYPES,
            "most_rows": MAX_ROWS,
            "of": path_of_list(contact_list),
            "at": lambda path: link(path, [], contact_list.account_id),
            "may_manage": may(MANAGE),
            "may_create": may_write(contact_list, "contact.create"),
        }
        return contacts_search(contact_list).page_within(session, account, error, **template_values)
