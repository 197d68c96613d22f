"""Automations for tests: stored as the service stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from app.automations.parse import read_definition
from app.db.models import AutomationRun
from app.runs.define import create_automation
from app.runs.releases import RunReleases
from app.services import Services


def add_automation(services: Services, account_id: int, list_id: int, document: Mapping[str, Any]) -> int:
    """Stores the automation of a list and returns its id."""
    with services.database.write() as transaction:
        definition = read_definition({**document, "list": str(list_id)})
        return create_automation(transaction, account_id, definition, services.settings.max_automations).id


def runs_of(services: Services, automation_id: int) -> list[AutomationRun]:
    """The runs of the automation, in the order in which they began."""
    with services.database.read() as session:
        statement = select(AutomationRun).where(AutomationRun.automation_id == automation_id)
        return list(session.scalars(statement.order_by(AutomationRun.id)))


def release_held(services: Services) -> None:
    """Lets go of all runs that pauses have held which have ended."""
    releases = RunReleases(services)
    releases.look()
    while releases.has_left:
        releases.take_turn()
