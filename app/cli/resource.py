"""The commands of a defined noun, from `list` to `delete` (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.cli.base import CommandResult, Group, NamedItem, Row, accounts_option
from app.db.database import Transaction
from app.db.models import Account
from app.resources.definition import (
    Attribute,
    Choice,
    Flag,
    Lines,
    Number,
    Reference,
    ResourceDefinition,
    Switch,
    values_of,
)
from app.resources.rows import (
    create_item,
    find_item,
    row_of,
    rows_of_account,
    rows_of_installation,
    update_item,
)


def commands_of(resource: ResourceDefinition) -> Group:
    """The group of the noun, with all its commands."""
    group = Group(resource.plural, help=resource.meaning)
    argument = click.argument("named", metavar=resource.key.upper())
    named = NamedItem(argument, lambda session, *account_and_key: find_item(session, resource, *account_and_key))
    _add_list(group, resource)
    _add_show(group, resource, named)
    _add_create(group, resource)
    _add_update(group, resource, named)
    _add_delete(group, resource, named)
    return group


def _add_list(group: Group, resource: ResourceDefinition) -> None:
    def list_(session: Session, account: str | None) -> Sequence[Row]:
        if account is None:
            return rows_of_installation(session, resource)
        return rows_of_account(session, resource, find_account(session, account).id)

    group.reads("list", of="installation", help=resource.sentences["list"])(accounts_option(list_))


def _add_show(group: Group, resource: ResourceDefinition, named: NamedItem) -> None:
    @group.reads("show", of=named, help=resource.sentences["show"])
    def show(session: Session, item: Any) -> Row:
        return row_of(session, resource, item)


def _add_create(group: Group, resource: ResourceDefinition) -> None:
    @group.writes("create", help=resource.sentences["create"], params=_options_of(resource, updates=False))
    @click.argument(resource.key)
    def create(transaction: Transaction, account: Account, **options: Any) -> Row:
        item = create_item(transaction, resource, account.id, values_of(resource.input_attributes, _texts(options)))
        return row_of(transaction, resource, item)


def _add_update(group: Group, resource: ResourceDefinition, named: NamedItem) -> None:
    params = _options_of(resource, updates=True)

    @group.writes("update", of=named, help=resource.sentences["update"], params=params)
    def update(transaction: Transaction, item: Any, **options: Any) -> Row:
        update_item(transaction, resource, item, values_of(resource.input_attributes, _texts(options)))
        return row_of(transaction, resource, item)


def _add_delete(group: Group, resource: ResourceDefinition, named: NamedItem) -> None:
    @group.writes("delete", of=named, help=resource.sentences["delete"])
    def delete(transaction: Transaction, item: Any) -> CommandResult:
        key = getattr(item, resource.key)
        transaction.delete(item)
        return CommandResult(f"{resource.noun} {key}: {resource.done['delete']}", {resource.key: key, "deleted": True})


def _texts(options: dict[str, Any]) -> dict[str, str]:
    """The options that were given, as a form gives its fields."""
    return {name: str(value) for name, value in options.items() if value is not None and value is not False}


def _options_of(resource: ResourceDefinition, *, updates: bool) -> list[click.Parameter]:
    return options_of(
        (attribute for attribute in resource.input_attributes if attribute.key != resource.key), updates=updates
    )


def options_of(attributes: Iterable[Attribute], *, updates: bool) -> list[click.Parameter]:
    """An option for each of the given attributes, for the command that creates a row or for the one that updates it."""
    return [_option(attribute, updates=updates) for attribute in attributes if not (updates and attribute.is_fixed)]


def _option(attribute: Attribute, *, updates: bool) -> click.Option:
    is_required = attribute.is_required and not updates
    nothing = f" ({'0' if isinstance(attribute.kind, Number) else 'empty'}: {attribute.empty_meaning})"
    help_text = f"{attribute.meaning}{nothing if attribute.empty_meaning else ''}."
    name = attribute.option or attribute.key.replace("_", "-")
    declared = [f"--{name}", attribute.key]
    match attribute.kind:
        case Choice(words) if attribute.empty_meaning is None:
            return click.Option(declared, type=click.Choice(list(words)), required=is_required, help=help_text)
        case Choice(words):
            return click.Option(declared, metavar="|".join(words), help=help_text)
        case Number():
            return click.Option(declared, type=float, metavar="N", help=help_text)
        case Switch(off) if off:
            return click.Option([f"--{name}/--{off}", attribute.key], default=None, help=help_text)
        case Switch():
            return click.Option(declared, type=bool, metavar="on|off", help=help_text)
        case Flag():
            return click.Option(declared, is_flag=True, help=help_text)
        case Lines():
            help_text = f"{help_text} Repeatable; replaces all."
            return click.Option(declared, multiple=True, metavar=attribute.example or None, help=help_text)
        case Reference():
            return click.Option(declared, metavar="NAME|ID", help=help_text)
    return click.Option(declared, required=is_required, metavar=attribute.example or None, help=help_text)
