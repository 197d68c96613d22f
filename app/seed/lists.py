"""Seeding lists and their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.lookup import find_by_name
from app.db.models import List
from app.lists.define import add_field, create_list, fields_of, update_field, update_list
from app.seed.shape import located
from app.seed.target import Target

OWN = ("name", "system", "allow_duplicates", "stop_words")

Described = Mapping[str, Any]


def bring_lists(target: Target, described: Sequence[Described]) -> list[tuple[str, List, Sequence[Described]]]:
    """Lists, found by their name, with their fields. Gives path, list and described contacts of each."""
    brought = []
    for index, one in enumerate(described):
        path = f"{target.path}.lists[{index}]"
        row = _bring_list(target, one, path)
        target.report.lists.append({"id": row.id, "name": row.name})
        brought.append((path, row, one.get("contacts", [])))
    return brought


def _bring_list(target: Target, described: Described, path: str) -> List:
    attributes = {name: described[name] for name in OWN if name in described}
    row = find_by_name(target.transaction, List, target.account.id, described["name"])
    created, updated = row is None, False
    with located(path):
        if row is None:
            row = create_list(target.transaction, target.account.id, attributes)
        else:
            updated = update_list(target.transaction, row, attributes)
    updated |= _bring_fields(target, row, described.get("fields", []), path)
    target.report.count("list", created=created, updated=updated)
    return row


def _bring_fields(target: Target, row: List, described: Sequence[Described], path: str) -> bool:
    """Fields, found by their name; tells whether any changed. Without `options` a known field keeps those it has."""
    changed = False
    present = {field.name: field for field in fields_of(target.transaction, row)}
    for index, one in enumerate(described):
        with located(f"{path}.fields[{index}]"):
            field = present.get(one["name"])
            if field is None:
                present[one["name"]] = add_field(
                    target.transaction, row, one["name"], one["type"], one.get("options", [])
                )
                changed = True
            else:
                options = one.get("options", field.options)
                changed |= update_field(target.transaction, row, field, one["type"], options)
    return changed
