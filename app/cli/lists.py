"""`flask lists`: lists of contacts and their fields."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cli.base import (
    CommandResult,
    Group,
    NamedItem,
    Row,
    Unavailable,
    WrongValue,
    accounts_option,
    by_name_or_id,
    given_options,
    row_with_table,
    rows_of_accounts,
)
from app.cli.find_contacts import list_named
from app.cli.resource import options_of
from app.contacts.counts import number_of_contacts, recount_contacts
from app.contacts.delete import delete_list
from app.db.database import Transaction
from app.db.field_indexes import FieldIndex, TooManyIndexes, create_index, drop_index, index_names
from app.db.models import Account, List
from app.distribution import COMMAND_LINE
from app.ids import shown_id
from app.lists.attributes import ATTRIBUTES
from app.lists.define import add_field, create_list, fields_of, update_list
from app.lists.fields import FIELD_TYPES, RANGES, ListSpec
from app.resources.definition import given_attributes, shown_values
from app.services import Services
from app.settings import Settings

group = Group("lists", help="Lists of contacts and their fields.")
LIST = by_name_or_id(List)
LIST_SPEC = NamedItem(LIST.parameter, list_named)

# The indexes on list fields, part of `flask lists` (docs/querying.md#what-an-index-answers).


def index_of(key: str, type_: str) -> FieldIndex:
    """The index of a field with that key and type. Raises `WrongValue` for a type without ranges."""
    kind = RANGES.get(FIELD_TYPES[type_])
    if kind is None:
        raise WrongValue(f"type: a field of the type {type_} has no ranges, so it needs no index")
    return FieldIndex(key, kind)


def make_index(settings: Settings, index: FieldIndex) -> bool:
    """Creates the index; returns False if it exists already."""
    try:
        return create_index(settings.database_url, index)
    except TooManyIndexes as error:
        raise Unavailable(f"{error}: drop one with `{COMMAND_LINE} lists drop-index`") from None


@group.runs("index-field", LIST_SPEC)
@click.argument("key")
def index_field(parts: Services, contact_list: ListSpec, key: str) -> CommandResult:
    """Create an index for ranges of a number or date field. It serves the fields with this KEY in all lists."""
    fields = {field.key: field for field in contact_list.value_fields}
    if key not in fields:
        raise WrongValue(f"key: the list has no field with the key {key}")
    index = index_of(key, fields[key].type)
    made = make_index(parts.settings, index)
    facts = {"name": index.name, "key": index.key, "kind": index.kind, "created": made}
    return CommandResult(f"{'created' if made else 'there is already'} the index {index.name}", facts)


@group.runs("indexes", "installation")
def indexes(parts: Services) -> list[Row]:
    """Show the indexes on list fields. They serve all accounts."""
    return [{"name": name} for name in index_names(parts.settings.database_url)]


@group.runs("drop-index", "installation")
@click.argument("name")
def drop_index_(parts: Services, name: str) -> CommandResult:
    """Drop the index NAME on a list field."""
    if not drop_index(parts.settings.database_url, name):
        raise WrongValue(f"name: there is no index {name} on a list field")
    return CommandResult(f"dropped the index {name}", {"name": name, "dropped": True})


OPTIONS = [attribute for attribute in given_attributes(ATTRIBUTES) if attribute.key != "name"]


def _row(row: List) -> Row:
    return shown_values(ATTRIBUTES, row)


def _full(session: Session, row: List) -> Row:
    fields = [
        {"name": field.name, "key": field.key, "type": field.type, "options": field.options}
        for field in fields_of(session, row)
    ]
    return {**_row(row), "contacts": number_of_contacts(session, row.id), "fields": fields}


_print_full = row_with_table("fields", "fields:")


@group.reads("list", "all accounts")
def list_(session: Session, account: Account) -> list[Row]:
    """Show the lists of one account or of all accounts."""
    return [_row(row) for row in _lists(session, account)]


def _lists(session: Session, account: Account) -> list[List]:
    statement = select(List).where(List.account_id == account.id)
    return list(session.scalars(statement.order_by(List.name, List.id)))


@group.reads("show", LIST, _print_full)
def show(session: Session, contact_list: List) -> Row:
    """Show a list and its fields."""
    return _full(session, contact_list)


@group.writes("create", shows=_print_full, params=options_of(OPTIONS, updates=False))
@click.argument("name")
@click.option("--field", "fields", metavar="NAME:TYPE", multiple=True, help="A field without options. Repeatable.")
def create(transaction: Transaction, account: Account, name: str, fields: tuple[str, ...], **options: Any) -> Row:
    """Create a list. To add fields with options, use add-field."""
    made = create_list(transaction, account.id, {"name": name, **given_options(**options)})
    for field in fields:
        field_name, _, type_ = field.rpartition(":")
        add_field(transaction, made, field_name or type_, type_)
    return _full(transaction, made)


@group.writes("update", LIST, _print_full, params=options_of(OPTIONS, updates=True))
@click.option("--name", help="The new name.")
def update(transaction: Transaction, contact_list: List, name: str | None, **options: Any) -> Row:
    """Change a list."""
    update_list(transaction, contact_list, given_options(**options) | ({} if name is None else {"name": name}))
    return _full(transaction, contact_list)


@group.writes("delete", LIST_SPEC)
@click.confirmation_option(prompt="Delete the list and all its contacts?", help="Do not ask.")
def delete(transaction: Transaction, contact_list: ListSpec) -> CommandResult:
    """Delete a list with its contacts; webhooks receive an event for each contact."""
    contacts = delete_list(transaction, contact_list)
    facts = {"id": shown_id(contact_list.id), "name": contact_list.name, "contacts": contacts, "deleted": True}
    return CommandResult(f"deleted list {contact_list.name}", facts)


@group.runs("recount", "installation")
@accounts_option
def recount(parts: Services, account: str | None) -> list[Row]:
    """Recount the contacts of each list, after contacts were restored or changed in the database itself; shows the old
    and the new counts."""
    with parts.database.read() as session:
        lists = rows_of_accounts(session, account, lambda owner: [{"list": row} for row in _lists(session, owner)])
    rows: list[Row] = []
    for list_row in lists:
        contact_list = list_row["list"]
        with parts.database.write() as transaction:
            counted, present = recount_contacts(transaction, contact_list.account_id, contact_list.id)
        facts = {"id": shown_id(contact_list.id), "counted": counted, "contacts": present}
        rows.append({"account": list_row.get("account"), **facts})
    return rows


@group.runs("add-field", LIST, _print_full)
@click.argument("name")
@click.argument("type_", metavar="TYPE")
@click.option(
    "--option",
    "options",
    multiple=True,
    help="An option of a Dropdown, Radio Buttons or Checkbox field. Repeatable.",
)
@click.option("--index", is_flag=True, help="Create an index for ranges of the field (number and date fields).")
def add_field_(
    parts: Services, contact_list: List, *, name: str, type_: str, options: tuple[str, ...], index: bool
) -> Row:
    """Add a field. TYPE is a type from the documentation, such as "Text Field"."""
    with parts.database.write() as transaction:
        stored_list = transaction.get_one(List, contact_list.id)
        added = add_field(transaction, stored_list, name, type_, options)
        field_index = index_of(added.key, added.type) if index else None
        row = _full(transaction, stored_list)
    if field_index is not None:
        make_index(parts.settings, field_index)
    return row
