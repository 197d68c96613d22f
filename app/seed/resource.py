"""Seeding the rows of a defined noun (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.resources.definition import ResourceDefinition
from app.resources.rows import create_item, item_at, update_item
from app.seed.errors import located
from app.seed.report import SeedContext


def apply_resource(context: SeedContext, resource: ResourceDefinition, entries: Sequence[Mapping[str, Any]]) -> None:
    """Rows, found by their key. One that exists keeps the attributes that its entry does not have; null clears one."""
    transaction, account_id = context.transaction, context.account.id
    for index, entry in enumerate(entries):
        with located(f"{context.path}.{resource.seed_key}[{index}]"):
            item = item_at(transaction, resource, account_id, entry[resource.key])
            updated = item is not None and update_item(transaction, resource, item, entry)
            if item is None:
                create_item(transaction, resource, account_id, entry)
        context.report.count(resource.noun, created=item is None, updated=updated)
