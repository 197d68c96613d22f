"""`flask contacts`: the people in a list, including system lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.cli import forget_person, import_file
from app.cli.base import (
    CommandResult,
    Group,
    NamedItem,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    json_option,
    limit_option,
    list_option,
    pairs_of,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.cli.csv_files import export_options, export_rows, format_to_write
from app.cli.find_contacts import contact_row, find_contact, find_list, list_named, without_links
from app.contacts.acts import record_list_export
from app.contacts.by_hand import ContactActs, ContactAddresses
from app.contacts.cells import column_key, columns_of, contact_from_cells, flat
from app.contacts.counts import number_of_contacts
from app.contacts.read import contact_shape, page_contacts
from app.contacts.same_address import find_pairs
from app.db.database import Transaction
from app.db.models import Account, Contact
from app.db.pages import pages_of
from app.errors import ServiceError
from app.http.context import services
from app.ids import shown_id
from app.lists.fields import ListSpec
from app.query.grammar import parse_collection
from app.query.reader import columns, read_page, renderer

group = Group("contacts", help="Contacts of a list; also those of system lists, which the API cannot change.")
group.add_command(forget_person.forget_)
group.add_command(forget_person.export_)
group.add_command(import_file.import_)

# `flask contacts export`: all contacts of a list as a CSV file.


@group.command("export")
@export_options
@list_option
@account_option
@json_option
def export(
    file: str, *, delimiter: str | None, encoding: str | None, list_: str, account: str | None, as_json: bool
) -> None:
    """Write all contacts of a list to a CSV file that can be imported again. Use - for standard output."""
    with services().database.read() as session:
        contact_list = find_list(session, account, list_)
        total = number_of_contacts(session, contact_list.id)
        pages = _pages(session, contact_list)
        form = format_to_write(delimiter, encoding)
        record_list_export(services().database, contact_list, total)
        export_rows(file, form, columns_of(contact_list), pages, total, as_json=as_json)


def _pages(session: Session, contact_list: ListSpec) -> Iterator[list[dict[str, Any]]]:
    """The contacts, the oldest first."""
    shape = contact_shape(contact_list.value_fields)
    everything = parse_collection([], shape.resource)
    statement = columns(shape, everything).where(Contact.list_id == contact_list.id)
    show = renderer(shape, everything)
    for page in pages_of(session, statement, (Contact.creation_time, Contact.id)):
        yield [flat(show(row)) for row in page]


CONTACT_LIST = NamedItem(
    click.option("--list", "named", metavar="NAME|ID", required=True, help="The list."), list_named
)
values_argument = click.argument("values", nargs=-1, metavar="KEY=VALUE...")

Pairs = Sequence[tuple[str, str]]
"""Parameters of a query."""

TABLE_COLUMNS = (
    "account",
    "id",
    "email",
    "mobile",
    "subscribed.email",
    "subscribed.mobile",
    "blocked.email",
    "blocked.mobile",
    "is_active",
)


def _draft(contact_list: ListSpec, values: Sequence[str]) -> dict[str, Any]:
    """The attributes in `KEY=VALUE` arguments; an empty value clears an attribute."""
    cells = {}
    for assignment in values:
        head, equals, text = assignment.partition("=")
        key = column_key(contact_list, head)
        if not equals or key is None:
            raise WrongValue(f"{assignment!r} must be KEY=VALUE with a key of the list's contacts, such as email")
        cells[key] = text
    draft, errors = contact_from_cells(contact_list, cells, clear=True)
    if errors:
        raise ServiceError.of(errors)
    return draft


def _acts(transaction: Transaction, contact_list: ListSpec) -> ContactActs:
    return ContactActs(transaction, services().settings.secret_key, contact_list, allow_system=True)


def _requested_identifier(contact: Contact) -> ContactAddresses:
    return ContactAddresses(contact.id, contact.email, contact.mobile)


def _print_contact(attributes: Row, as_json: bool) -> None:
    print_row(attributes if as_json else flat(attributes), as_json)


def _print_contacts(rows: list[Row], as_json: bool) -> None:
    print_rows(rows if as_json else [_in_table(flat(row)) for row in rows], as_json)


@group.reads("list", "installation", _print_contacts)
@click.argument("filters", nargs=-1, metavar="[FILTER...]")
@click.option(
    "--list",
    "list_",
    metavar="NAME|ID",
    help="The list. Without it, only the attributes that all contacts have are shown.",
)
@limit_option
@accounts_option
def list_command(
    session: Session, *, filters: tuple[str, ...], list_: str | None, limit: int, account: str | None
) -> list[Row]:
    """Show contacts, newest first. Filters work as in the API, for example plan=gold score:in=5.."""
    pairs = [("limit", str(limit)), *pairs_of(filters)]
    if list_ is not None:
        return _rows_of_list(session, list_named(session, find_account(session, account).id, list_), pairs)
    return rows_of_accounts(session, account, lambda owner: _rows_of_account(session, owner, pairs))


def _rows_of_list(session: Session, contact_list: ListSpec, pairs: Pairs) -> list[Row]:
    query = parse_collection(pairs, contact_shape(contact_list.value_fields).resource)
    return [without_links(item) for item in page_contacts(session, contact_list, query).items]


def _rows_of_account(session: Session, account: Account, pairs: Pairs) -> list[Row]:
    shape = contact_shape()
    page = read_page(session, shape, parse_collection(pairs, shape.resource), Contact.account_id == account.id)
    return [without_links(item) for item in page.items]


def _in_table(row: Row) -> Row:
    return {name: row[name] for name in TABLE_COLUMNS if name in row}


@group.reads("show", CONTACT_LIST, _print_contact)
@click.argument("contact")
def show(session: Session, contact_list: ListSpec, contact: str) -> Row:
    """Show a contact. CONTACT is its id, email or mobile."""
    return contact_row(session, contact_list, find_contact(session, contact_list, contact).id)


@group.reads("same-address", "all accounts")
@limit_option
def same_address(session: Session, account: Account, limit: int) -> list[Row]:
    """Show contacts with the same email address in two spellings, such as x@bücher.example and
    x@xn--bcher-kva.example, in lists that allow no duplicates. A search by address finds the older contact."""
    return [pair._asdict() for pair in find_pairs(session, account.id, limit)]


@group.writes("create", CONTACT_LIST, _print_contact, needs_key=True)
@values_argument
def create(transaction: Transaction, contact_list: ListSpec, values: tuple[str, ...]) -> Row:
    """Create a contact, for example with email=ann@example.com first_name=Ann subscribed.email=no."""
    contact_id = _acts(transaction, contact_list).create(_draft(contact_list, values))
    return contact_row(transaction, contact_list, contact_id)


@group.writes("update", CONTACT_LIST, _print_contact, needs_key=True)
@click.argument("contact")
@values_argument
def update(transaction: Transaction, contact_list: ListSpec, contact: str, values: tuple[str, ...]) -> Row:
    """Change a contact. CONTACT is its id, email or mobile. An empty value clears an attribute."""
    stored_contact, draft = find_contact(transaction, contact_list, contact), _draft(contact_list, values)
    _acts(transaction, contact_list).update(_requested_identifier(stored_contact), draft)
    return contact_row(transaction, contact_list, stored_contact.id)


@group.writes("delete", CONTACT_LIST, needs_key=True)
@click.argument("contact")
def delete(transaction: Transaction, contact_list: ListSpec, contact: str) -> CommandResult:
    """Delete a contact. CONTACT is its id, email or mobile."""
    stored_contact = find_contact(transaction, contact_list, contact)
    _acts(transaction, contact_list).delete(_requested_identifier(stored_contact))
    facts = {"id": stored_contact.id, "list_id": shown_id(contact_list.id), "deleted": True}
    return CommandResult(f"deleted contact {stored_contact.id}", facts)
