"""The indexes on list fields, part of `flask lists` (docs/querying.md#what-an-index-answers)."""

from __future__ import annotations

import click

from app.cli.base import Group, Unavailable, WrongValue, account_option, json_option, print_done, print_rows
from app.cli.find_contacts import find_list
from app.db.field_indexes import FieldIndex, TooManyIndexes, create_index, drop_index, index_names
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.lists.fields import FIELD_TYPES, RANGES

group = Group("lists")
"""Its commands become those of `app.cli.lists`."""


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
