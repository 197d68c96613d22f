"""`flask contacts`: the people in a list, including system lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
from sqlalchemy.orm import Session

from app.cli import forget_person, import_file
from app.cli.base import (
    Group,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    json_option,
    limit_option,
    list_option,
    print_done,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.cli.csv_files import export_options, export_rows, format_to_write
from app.cli.find_contacts import find_contact, find_list, shown, without_links
from app.contacts.acts import record_list_export
from app.contacts.by_hand import ContactActs, Named
from app.contacts.cells import column_key, columns_of, contact_from_cells, flat
from app.contacts.counts import number_of_contacts
from app.contacts.read import contact_shape, page_contacts
from app.contacts.same_address import find_pairs
from app.db.database import Transaction
from app.db.models import Contact
from app.db.pages import pages_of
from app.errors import ServiceError
from app.http.context import services
from app.ids import shown_id
from app.lists.fields import ListSpec
from app.query.grammar import parse_collection
from app.query.reader import columns, read_page, renderer

group = Group("contacts", help="Contacts of a list.")
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
    """Write all contacts of a list to a CSV file, which can be imported again; - is standard output."""
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


values_argument = click.argument("values", nargs=-1, metavar="KEY=VALUE...")

Pairs = Sequence[tuple[str, str]]
"""Parameters of a query."""

IN_TABLE = (
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
    for one in values:
        head, equals, text = one.partition("=")
        key = column_key(contact_list, head)
        if not equals or key is None:
            raise WrongValue(f"{one!r} must be KEY=VALUE with a key of the list's contacts, such as email")
        cells[key] = text
    draft, errors = contact_from_cells(contact_list, cells, clear=True)
    if errors:
        raise ServiceError.of(errors)
    return draft


def _acts(transaction: Transaction, contact_list: ListSpec) -> ContactActs:
    return ContactActs(transaction, services().settings.secret_key, contact_list, allow_system=True)


def _named(contact: Contact) -> Named:
    return Named(contact.id, contact.email, contact.mobile)


def _print(session: Session, contact_list: ListSpec, contact_id: int, as_json: bool) -> None:
    attributes = shown(session, contact_list, contact_id)
    print_row(attributes if as_json else flat(attributes), as_json)


@group.command("list")
@click.argument("filters", nargs=-1, metavar="[FILTER...]")
@click.option(
    "--list", "list_", metavar="NAME|ID", help="The list; without it, the attributes that contacts of all lists have."
)
@limit_option
@accounts_option
@json_option
def list_command(filters: tuple[str, ...], list_: str | None, limit: int, account: str | None, as_json: bool) -> None:
    """Show contacts, the newest first; filters are those of the API, as in plan=gold score:in=5.."""
    pairs = [("limit", str(limit)), *((name, value) for name, _, value in (one.partition("=") for one in filters))]
    with services().database.read() as session:
        if list_ is None:
            rows = rows_of_accounts(session, account, lambda one: _of_account(session, one, pairs))
        else:
            rows = _of_list(session, find_list(session, account, list_), pairs)
    print_rows(rows if as_json else [_in_table(flat(row)) for row in rows], as_json)


def _of_list(session: Session, contact_list: ListSpec, pairs: Pairs) -> list[Row]:
    query = parse_collection(pairs, contact_shape(contact_list.value_fields).resource)
    return [without_links(item) for item in page_contacts(session, contact_list, query).items]


def _of_account(session: Session, account_id: int, pairs: Pairs) -> list[Row]:
    shape = contact_shape()
    page = read_page(session, shape, parse_collection(pairs, shape.resource), Contact.account_id == account_id)
    return [without_links(item) for item in page.items]


def _in_table(row: Row) -> Row:
    return {name: row[name] for name in IN_TABLE if name in row}


@group.command("show")
@click.argument("contact")
@list_option
@account_option
@json_option
def show(contact: str, list_: str, account: str | None, as_json: bool) -> None:
    """Show a contact, named by its id, email or mobile."""
    with services().database.read() as session:
        contact_list = find_list(session, account, list_)
        _print(session, contact_list, find_contact(session, contact_list, contact).id, as_json)


@group.command("same-address")
@limit_option
@accounts_option
@json_option
def same_address(limit: int, account: str | None, as_json: bool) -> None:
    """Show contacts of a list that have one email address in two spellings, such as x@bücher.example and
    x@xn--bcher-kva.example, although the list allows no duplicates. The older one is found by the address."""
    with services().database.read() as session:
        rows = rows_of_accounts(
            session, account, lambda one: [pair._asdict() for pair in find_pairs(session, one, limit)]
        )
    print_rows(rows, as_json)


@group.command("create")
@values_argument
@list_option
@account_option
@json_option
def create(values: tuple[str, ...], list_: str, account: str | None, as_json: bool) -> None:
    """Create a contact, as in: email=ann@example.com first_name=Ann subscribed.email=no."""
    with services().database.write() as transaction:
        contact_list = find_list(transaction, account, list_)
        contact_id = _acts(transaction, contact_list).create(_draft(contact_list, values))
        _print(transaction, contact_list, contact_id, as_json)


@group.command("update")
@click.argument("contact")
@values_argument
@list_option
@account_option
@json_option
def update(contact: str, values: tuple[str, ...], list_: str, account: str | None, as_json: bool) -> None:
    """Change a contact, named by its id, email or mobile; an empty value clears an attribute."""
    with services().database.write() as transaction:
        contact_list = find_list(transaction, account, list_)
        found, draft = find_contact(transaction, contact_list, contact), _draft(contact_list, values)
        _acts(transaction, contact_list).update(_named(found), draft)
        _print(transaction, contact_list, found.id, as_json)


@group.command("delete")
@click.argument("contact")
@list_option
@account_option
@json_option
def delete(contact: str, list_: str, account: str | None, as_json: bool) -> None:
    """Delete a contact, named by its id, email or mobile."""
    with services().database.write() as transaction:
        contact_list = find_list(transaction, account, list_)
        found = find_contact(transaction, contact_list, contact)
        _acts(transaction, contact_list).delete(_named(found))
    facts = {"id": found.id, "list_id": shown_id(contact_list.id), "deleted": True}
    print_done(f"deleted contact {found.id}", facts, as_json)
