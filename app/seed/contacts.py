"""Seeding contacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from app.addresses import ADDRESS_KINDS, NormalizedAddress, normalize_address
from app.contacts import upsert
from app.contacts.cells import check_attributes
from app.db.models import List
from app.errors import ServiceError
from app.lists.find import get_list
from app.seed.context import SeedContext
from app.seed.shape import SeedError, located

Entry = Mapping[str, Any]


def apply_contacts(
    context: SeedContext, row: List, entries: Sequence[Entry], path: str, unsubscribers: Sequence[Entry]
) -> None:
    """Contacts of a list, found by its unique identifier, including those of a system list.

    A contact with `subscribed: true` must not be among the file's `unsubscribers`: the two would undo each other at
    every load.
    """
    if not entries:
        return
    contact_list = get_list(context.transaction, context.account.id, row.id)
    unsubscribed = _unsubscribed(unsubscribers, row.name)
    checked = []
    for index, entry in enumerate(entries):
        place = f"{path}.contacts[{index}]"
        attributes, errors = check_attributes(contact_list, {name: _plain(value) for name, value in entry.items()})
        with located(place):
            if errors:
                raise ServiceError.of(errors)
        _check_not_unsubscribed(attributes, unsubscribed, place)
        checked.append(attributes)
    with located(path):
        upserted = upsert.upsert_contacts(context.transaction, contact_list, checked, allow_system=True)
    context.report.created["contact"] += upserted.created
    context.report.updated["contact"] += upserted.updated
    if upserted.left_out:
        context.report.notes.append(
            f"  list {row.name}: contacts left out, because they were forgotten: {upserted.left_out}"
        )


def _plain(value: Any) -> Any:
    """Converts YAML dates to the strings that contacts have."""
    return value.isoformat() if isinstance(value, date) else value


def _unsubscribed(unsubscribers: Sequence[Entry], list_name: str | None) -> set[NormalizedAddress]:
    """The addresses that the file unsubscribes from the list."""
    return {
        normalize_address(kind, entry[kind])
        for entry in unsubscribers
        if entry.get("list") in (None, list_name)
        for kind in ADDRESS_KINDS
        if entry.get(kind) is not None
    }


def _check_not_unsubscribed(attributes: Entry, unsubscribed: set[NormalizedAddress], path: str) -> None:
    for kind, wanted in attributes.get("subscribed", {}).items():
        if wanted and attributes.get(kind) is not None and normalize_address(kind, attributes[kind]) in unsubscribed:
            raise SeedError(f"{path}.subscribed.{kind}", "is true, but the file names the address under unsubscribers")
