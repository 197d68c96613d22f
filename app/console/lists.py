"""Lists: searching them, and finding one with its fields (docs/console-contents.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.console.queries import SearchPage, SearchRequest
from app.contacts.counts import check_size, numbers_of_contacts
from app.contacts.delete import delete_list
from app.db.database import Transaction
from app.db.models import List
from app.errors import ServiceError
from app.ids import existing, shown_id
from app.lists.attributes import ATTRIBUTES
from app.lists.define import add_field, create_list, update_list
from app.lists.fields import ADDRESS_KEYS, ListSpec
from app.lists.find import find_list, get_list
from app.lists.read import LISTS, page_lists
from app.resources.definition import Values, given_attributes

PATH = "/console/lists"


def path_of_list(contact_list: ListSpec | List) -> str:
    """The path of the page of a list."""
    return f"{PATH}/{shown_id(contact_list.id)}"


def search(search_request: SearchRequest) -> SearchPage:
    """The account's lists that match, the newest first, each with the number of its contacts: two statements. Raises
    the errors of the query."""
    search_page = search_request.read_page(PATH, LISTS.resource, page_lists)
    numbers = numbers_of_contacts(search_request.session, [row.id for row in search_page.rows])
    items = [
        {**item, "contacts": numbers.get(row.id, 0)}
        for item, row in zip(search_page.items, search_page.rows, strict=True)
    ]
    return replace(search_page, items=items)


def list_of(session: Session, account_id: int | None, list_id: int) -> ListSpec:
    """The list that everybody outside knows by that id: of the account, or of any for None. Raises `not_found`."""
    if account_id is None:
        owner = session.scalar(select(List.account_id).where(List.id == list_id))
        return existing(None if owner is None else find_list(session, owner, list_id), "list", list_id)
    return get_list(session, account_id, list_id)


# Creating, changing and deleting lists in the console, as the command line does
# (docs/console-contents.md#lists-and-contacts).

FIRST_FIELDS = ("Email", "Mobile Phone", "First Name", "Last Name")
"""Types of fields that a new list may begin with, each under the name of its type."""


INPUTS = given_attributes(ATTRIBUTES)
"""The attributes that the form of a list sets."""


def add_list(transaction: Transaction, account_id: int, values: Values, types: Sequence[str]) -> List:
    """Creates a list with fields of these types. Raises what `create_list` and `add_field` raise."""
    made = create_list(transaction, account_id, values)
    for type_ in types:
        add_field(transaction, made, type_, type_)
    return made


def change_list(transaction: Transaction, contact_list: ListSpec, values: Values) -> None:
    """Changes the attributes. Raises what `update_list` raises, and `conflict` for a list that is too large."""
    if values["allow_duplicates"] != contact_list.allow_duplicates:
        check_size(transaction, contact_list.id, "lists update")
    update_list(transaction, _row(transaction, contact_list), values)


def add_list_field(transaction: Transaction, contact_list: ListSpec, name: str, type_: str, options: str) -> None:
    """Adds a field, of which each line has an option. Raises what `add_field` raises, and `conflict` for a list that is
    too large for another identifier."""
    if type_ in ADDRESS_KEYS:
        check_size(transaction, contact_list.id, "lists add-field")
    lines = [line.strip() for line in options.splitlines() if line.strip()]
    add_field(transaction, _row(transaction, contact_list), name, type_, lines)


def remove_list(transaction: Transaction, contact_list: ListSpec, confirmation: str) -> None:
    """Deletes the list with its contacts. Raises `invalid_string` unless its name was typed, and `conflict` for
    one that is too large."""
    if confirmation != name_of(contact_list):
        detail = f"Nothing was deleted. Enter the name of the list, {name_of(contact_list)}, to confirm."
        raise ServiceError("invalid_string", field="confirmation", detail=detail)
    check_size(transaction, contact_list.id, "lists delete")
    delete_list(transaction, contact_list)


def name_of(contact_list: ListSpec) -> str:
    """The name of a list; one that somebody has stored without a name has a general one."""
    return contact_list.name or "Unnamed list"


def _row(transaction: Transaction, contact_list: ListSpec) -> List:
    return transaction.get_one(List, contact_list.id)
