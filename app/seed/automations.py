"""Seeding automations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.automations.definition import Definition
from app.automations.parse import parse_definition
from app.runs.define import apply_automation
from app.seed.context import SeedContext
from app.seed.shape import located


def automation(value: Any, path: str) -> Definition:
    """The definition of an automation."""
    with located(path):
        return parse_definition(value)


def apply_automations(context: SeedContext, entries: Sequence[Definition]) -> None:
    """Automations, found by their name; one that differs from its newest version gets another."""
    limit = context.services.settings.max_automations
    for index, definition in enumerate(entries):
        with located(f"{context.path}.automations[{index}]"):
            row, created, updated = apply_automation(context.transaction, context.account.id, definition, limit)
        context.report.automations.append({"id": row.id, "name": row.name})
        context.report.count("automation", created=created, updated=updated)
