"""Seeding lists and their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.lookup import find_by_name
from app.db.models import List
from app.ids import shown_id
from app.lists.define import add_field, create_list, fields_of, update_field, update_list
from app.seed.context import SeedContext
from app.seed.shape import located

OWN = ("name", "system", "allow_duplicates", "stop_words")

Entry = Mapping[str, Any]


def apply_lists(context: SeedContext, entries: Sequence[Entry]) -> list[tuple[str, List, Sequence[Entry]]]:
    """Lists, found by their name, with their fields. Returns path, list and contact entries of each."""
    applied = []
    for index, entry in enumerate(entries):
        path = f"{context.path}.lists[{index}]"
        row = _apply_list(context, entry, path)
        context.report.lists.append({"id": shown_id(row.id), "name": row.name})
        applied.append((path, row, entry.get("contacts", [])))
    return applied


def _apply_list(context: SeedContext, entry: Entry, path: str) -> List:
    attributes = {name: entry[name] for name in OWN if name in entry}
    row = find_by_name(context.transaction, List, context.account.id, entry["name"])
    created, updated = row is None, False
    with located(path):
        if row is None:
            row = create_list(context.transaction, context.account.id, attributes)
        else:
            updated = update_list(context.transaction, row, attributes)
    updated |= _apply_fields(context, row, entry.get("fields", []), path)
    context.report.count("list", created=created, updated=updated)
    return row


def _apply_fields(context: SeedContext, row: List, entries: Sequence[Entry], path: str) -> bool:
    """Fields, found by their name; returns whether any changed. Without `options` a known field keeps those it has."""
    changed = False
    present = {field.name: field for field in fields_of(context.transaction, row)}
    for index, entry in enumerate(entries):
        with located(f"{path}.fields[{index}]"):
            field = present.get(entry["name"])
            if field is None:
                present[entry["name"]] = add_field(
                    context.transaction, row, entry["name"], entry["type"], entry.get("options", [])
                )
                changed = True
            else:
                options = entry.get("options", field.options)
                changed |= update_field(context.transaction, row, field, entry["type"], options)
    return changed
