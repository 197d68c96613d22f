"""Seeding automations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.automations.parse import Draft, read_definition
from app.errors import MAX_LISTED_ERRORS
from app.runs.define import apply_automation
from app.seed.context import SeedContext
from app.seed.shape import located


def automation(value: Any, path: str) -> Draft:
    """The definition of an automation; what is wrong with it is reported with what its account does not have."""
    with located(path):
        return read_definition(value)


def apply_automations(context: SeedContext, entries: Sequence[Draft]) -> None:
    """Automations, found by their name; one that differs from its newest version gets another."""
    limit = context.services.settings.max_automations
    for index, draft in enumerate(entries):
        with located(f"{context.path}.automations[{index}]", most=MAX_LISTED_ERRORS):
            row, created, updated = apply_automation(context.transaction, context.account.id, draft, limit)
        context.report.automations.append({"id": row.id, "name": row.name})
        context.report.count("automation", created=created, updated=updated)
