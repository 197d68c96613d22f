"""`flask lists`: lists of contacts and their fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.cli.base import (
    Group,
    Row,
    Unavailable,
    WrongValue,
    account_option,
    accounts_option,
    echo,
    given_options,
    json_option,
    print_done,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.cli.find_contacts import find_list
from app.contacts.counts import number_of_contacts, recount_contacts
from app.contacts.delete import delete_list
from app.db.field_indexes import FieldIndex, TooManyIndexes, create_index, drop_index, index_names
from app.db.lookup import find_by_name_or_id
from app.db.models import List
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.ids import shown_id
from app.lists.define import add_field, create_list, fields_of, update_list
from app.lists.fields import FIELD_TYPES, RANGES

group = Group("lists", help="Lists of contacts and their fields.")

# The indexes on list fields, part of `flask lists` (docs/querying.md#what-an-index-answers).


def index_of(key: str, type_: str) -> FieldIndex:
    """The index of a field with that key and type. Raises `WrongValue` for a type without ranges."""
    kind = RANGES.get(FIELD_TYPES[type_])
    if kind is None:
        raise WrongValue(f"type: a field of the type {type_} has no ranges, and needs no index of its own")
    return FieldIndex(key, kind)


def make_index(index: FieldIndex) -> bool:
    """Creates the index; returns False if it exists already."""
    try:
        return create_index(_url(), index)
    except TooManyIndexes as error:
        raise Unavailable(f"{error}: drop one with `{COMMAND_LINE} lists drop-index`") from None


@group.command("index-field")
@click.argument("list_", metavar="LIST")
@click.argument("key")
@account_option
@json_option
def index_field(list_: str, key: str, account: str | None, as_json: bool) -> None:
    """Create an index for ranges of a number or date field, which serves the fields with this KEY in all lists."""
    with services().database.read() as session:
        fields = {field.key: field for field in find_list(session, account, list_).value_fields}
    if key not in fields:
        raise WrongValue(f"key: the list has no field with the key {key}")
    index = index_of(key, fields[key].type)
    made = make_index(index)
    facts = {"name": index.name, "key": index.key, "kind": index.kind, "created": made}
    print_done(f"{'made' if made else 'there is already'} the index {index.name}", facts, as_json)


@group.command("indexes")
@json_option
def indexes(as_json: bool) -> None:
    """Show the indexes on list fields, which serve all accounts."""
    print_rows([{"name": name} for name in index_names(_url())], as_json)


@group.command("drop-index")
@click.argument("name")
@json_option
def drop_index_(name: str, as_json: bool) -> None:
    """Drop the index on a list field with this NAME."""
    if not drop_index(_url(), name):
        raise WrongValue(f"name: there is no index {name} on a list field")
    print_done(f"dropped the index {name}", {"name": name, "dropped": True}, as_json)


def _url() -> str:
    return services().settings.database_url


def attribute_options(command: Any) -> Any:
    """The options of `create` and `update`."""
    for option in (
        click.option(
            "--stop-word", multiple=True, help="A reply that unsubscribes; may be repeated; replaces all stop words."
        ),
        click.option(
            "--allow-duplicates/--no-duplicates",
            default=None,
            help="Whether several contacts may have the same address.",
        ),
        click.option(
            "--system/--no-system",
            default=None,
            help="Whether it is a system list, whose contacts the API cannot change.",
        ),
    ):
        command = option(command)
    return command


def _attributes(stop_word: tuple[str, ...], **options: Any) -> dict[str, Any]:
    return given_options(**options) | ({"stop_words": list(stop_word)} if stop_word else {})


def _row(row: List) -> Row:
    return {
        "id": shown_id(row.id),
        "name": row.name,
        "system": row.system,
        "allow_duplicates": row.allow_duplicates,
        "stop_words": row.stop_words,
        "creation_time": row.creation_time,
        "last_modified_time": row.last_modified_time,
    }


def _full(session: Session, row: List) -> Row:
    fields = [
        {"name": field.name, "key": field.key, "type": field.type, "options": field.options}
        for field in fields_of(session, row)
    ]
    return {**_row(row), "contacts": number_of_contacts(session, row.id), "fields": fields}


def _print_full(row: Row, as_json: bool) -> None:
    if as_json:
        print_row(row, as_json)
        return
    print_row({key: value for key, value in row.items() if key != "fields"}, as_json)
    echo("fields:")
    print_rows(row["fields"], as_json)


def _find(session: Session, account: str | None, name: str) -> List:
    """The account's list with that name or id."""
    return find_by_name_or_id(session, List, find_account(session, account).id, name, "list")


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the lists of an account, or of all."""
    with services().database.read() as session:
        rows = rows_of_accounts(session, account, lambda one: map(_row, _lists(session, one)))
    print_rows(rows, as_json)


def _lists(session: Session, account_id: int) -> Iterable[List]:
    return session.scalars(select(List).where(List.account_id == account_id).order_by(List.name, List.id))


@group.command("show")
@click.argument("list_", metavar="LIST")
@account_option
@json_option
def show(list_: str, account: str | None, as_json: bool) -> None:
    """Show a list with its fields."""
    with services().database.read() as session:
        row = _full(session, _find(session, account, list_))
    _print_full(row, as_json)


@group.command("create")
@click.argument("name")
@click.option("--field", "fields", metavar="NAME:TYPE", multiple=True, help="A field without options; may be repeated.")
@attribute_options
@account_option
@json_option
def create(name: str, fields: tuple[str, ...], account: str | None, as_json: bool, **options: Any) -> None:
    """Create a list; fields with options are added by add-field."""
    with services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        made = create_list(transaction, account_id, {"name": name, **_attributes(**options)})
        for field in fields:
            field_name, _, type_ = field.rpartition(":")
            add_field(transaction, made, field_name or type_, type_)
        row = _full(transaction, made)
    _print_full(row, as_json)


@group.command("update")
@click.argument("list_", metavar="LIST")
@click.option("--name", help="The new name.")
@attribute_options
@account_option
@json_option
def update(list_: str, name: str | None, account: str | None, as_json: bool, **options: Any) -> None:
    """Change a list."""
    attributes = _attributes(**options) | ({} if name is None else {"name": name})
    with services().database.write() as transaction:
        found = _find(transaction, account, list_)
        update_list(transaction, found, attributes)
        row = _full(transaction, found)
    _print_full(row, as_json)


@group.command("delete")
@click.argument("list_", metavar="LIST")
@click.confirmation_option(prompt="Delete the list with all its contacts?")
@account_option
@json_option
def delete(list_: str, account: str | None, as_json: bool) -> None:
    """Delete a list with its contacts."""
    with services().database.write() as transaction:
        found = find_list(transaction, account, list_)
        contacts = delete_list(transaction, found)
    facts = {"id": shown_id(found.id), "name": found.name, "contacts": contacts, "deleted": True}
    print_done(f"deleted list {found.name}", facts, as_json)


@group.command("recount")
@accounts_option
@json_option
def recount(account: str | None, as_json: bool) -> None:
    """Recount the contacts of each list, after contacts were restored or changed in the database itself."""
    with services().database.read() as session:
        lists = rows_of_accounts(session, account, lambda one: map(_row_with_account, _lists(session, one)))
    rows = []
    for one in lists:
        with services().database.write() as transaction:
            counted, present = recount_contacts(transaction, one["account_id"], one["id"])
        rows.append({"account": one.get("account"), "id": shown_id(one["id"]), "counted": counted, "contacts": present})
    print_rows(rows, as_json)


def _row_with_account(row: List) -> Row:
    return {"id": row.id, "account_id": row.account_id}


@group.command("add-field")
@click.argument("list_", metavar="LIST")
@click.argument("name")
@click.argument("type_", metavar="TYPE")
@click.option("--option", "options", multiple=True, help="A choice of a Dropdown, Radio Buttons or Checkbox field.")
@click.option("--index", is_flag=True, help="Create an index for ranges of the field, a number or date.")
@account_option
@json_option
def add_field_(
    *, list_: str, name: str, type_: str, options: tuple[str, ...], index: bool, account: str | None, as_json: bool
) -> None:
    """Add a field of one of the types that the documentation lists, such as "Text Field"."""
    with services().database.write() as transaction:
        found = _find(transaction, account, list_)
        added = add_field(transaction, found, name, type_, options)
        wanted = index_of(added.key, added.type) if index else None
        row = _full(transaction, found)
    if wanted is not None:
        make_index(wanted)
    _print_full(row, as_json)
