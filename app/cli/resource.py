"""The commands of a defined noun, from `list` to `delete` (docs/architecture.md#resource-definitions)."""

from __future__ import annotations

from typing import Any

import click

from app.accounts.find import find_account
from app.cli.base import Group, account_option, accounts_option, json_option, print_done, print_row, print_rows
from app.http.context import services
from app.resources.definition import Attribute, Choice, Flag, Number, Reference, ResourceDefinition
from app.resources.rows import (
    create_item,
    find_item,
    given_by_texts,
    row_of,
    rows_of_account,
    rows_of_installation,
    update_item,
)


def commands_of(resource: ResourceDefinition) -> Group:
    """The group of the noun, with all its commands."""
    group = Group(resource.plural, help=resource.meaning)
    for add in (_add_list, _add_show, _add_create, _add_update, _add_delete):
        add(group, resource)
    return group


def _add_list(group: Group, resource: ResourceDefinition) -> None:
    @group.command("list", help=resource.sentences["list"])
    @accounts_option
    @json_option
    def list_(account: str | None, as_json: bool) -> None:
        with services().database.read() as session:
            if account is None:
                rows = rows_of_installation(session, resource)
            else:
                rows = rows_of_account(session, resource, find_account(session, account).id)
        print_rows(rows, as_json)


def _add_show(group: Group, resource: ResourceDefinition) -> None:
    @group.command("show", help=resource.sentences["show"])
    @click.argument(resource.key)
    @account_option
    @json_option
    def show(account: str | None, as_json: bool, **named: str) -> None:
        with services().database.read() as session:
            item = find_item(session, resource, find_account(session, account).id, named[resource.key])
            row = row_of(session, resource, item)
        print_row(row, as_json)


def _add_create(group: Group, resource: ResourceDefinition) -> None:
    @group.command("create", help=resource.sentences["create"], params=_options(resource, updates=False))
    @click.argument(resource.key)
    @account_option
    @json_option
    def create(account: str | None, as_json: bool, **options: Any) -> None:
        with services().database.write() as transaction:
            account_id = find_account(transaction, account).id
            item = create_item(transaction, resource, account_id, given_by_texts(resource, _texts(options)))
            row = row_of(transaction, resource, item)
        print_row(row, as_json)


def _add_update(group: Group, resource: ResourceDefinition) -> None:
    @group.command("update", help=resource.sentences["update"], params=_options(resource, updates=True))
    @click.argument(resource.key)
    @account_option
    @json_option
    def update(account: str | None, as_json: bool, **options: Any) -> None:
        with services().database.write() as transaction:
            item = find_item(transaction, resource, find_account(transaction, account).id, options.pop(resource.key))
            update_item(transaction, resource, item, given_by_texts(resource, _texts(options)))
            row = row_of(transaction, resource, item)
        print_row(row, as_json)


def _add_delete(group: Group, resource: ResourceDefinition) -> None:
    @group.command("delete", help=resource.sentences["delete"])
    @click.argument(resource.key)
    @account_option
    @json_option
    def delete(account: str | None, as_json: bool, **named: str) -> None:
        key = named[resource.key]
        with services().database.write() as transaction:
            transaction.delete(find_item(transaction, resource, find_account(transaction, account).id, key))
        print_done(f"deleted {resource.noun} {key}", {resource.key: key, "deleted": True}, as_json)


def _texts(options: dict[str, Any]) -> dict[str, str]:
    """The options that were given, as a form gives its fields."""
    return {name: str(value) for name, value in options.items() if value is not None and value is not False}


def _options(resource: ResourceDefinition, *, updates: bool) -> list[click.Parameter]:
    """An option for each given attribute but the key."""
    return [
        _option(one, updates=updates)
        for one in resource.given
        if one.key != resource.key and not (updates and one.is_fixed)
    ]


def _option(attribute: Attribute, *, updates: bool) -> click.Option:
    nothing = f"; {'0' if isinstance(attribute.kind, Number) else 'empty'}: {attribute.nothing}"
    help_text = f"{attribute.meaning}{nothing if attribute.nothing else ''}."
    declared = [f"--{attribute.name}", attribute.name]
    match attribute.kind:
        case Choice(words):
            is_required = attribute.is_required and not updates
            return click.Option(declared, type=click.Choice(list(words)), required=is_required, help=help_text)
        case Number():
            return click.Option(declared, type=float, metavar="N", help=help_text)
        case Flag():
            return click.Option(declared, is_flag=True, help=help_text)
        case Reference():
            return click.Option(declared, metavar="NAME|ID", help=help_text)
    return click.Option(declared, required=attribute.is_required and not updates, help=help_text)
