"""Automations, as programs set them up: each by its whole definition (docs/management.md#automations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from app.automations.paths import automation_path
from app.db.database import Transaction
from app.db.models import Automation
from app.lists.paths import list_path
from app.management.noun import CreatedRow, Details, Item, ManagedNoun, Manager, Values, shape_of, with_properties
from app.query.fields import FilterType
from app.runs.define import create_automation, rename_automation, update_automation
from app.runs.delete import delete_automation
from app.runs.read import AUTOMATION_KINDS, AUTOMATION_SHAPE, AUTOMATIONS_SHAPE, WHOLE_DEFINITION, steps_of

DRAFT = "draft"
"""The only value: a definition that was read."""
STATES = ("active", "paused")
FILTERS = {
    "id": FilterType.INTEGER,
    "name": FilterType.STRING,
    "kind": FilterType.ENUM,
    "list_id": FilterType.INTEGER,
    "state": FilterType.ENUM,
    "creation_time": FilterType.TIMESTAMP,
    "last_modified_time": FilterType.TIMESTAMP,
}


def _links(row: Any) -> Item:
    return {"list": {"href": list_path(row.list_id)}, "runs": {"href": f"{automation_path(row.id)}/runs"}}


def _steps(
    session: Session, manager: Manager, automation_ids: Sequence[int], _zone: ZoneInfo | None
) -> Mapping[int, Item]:
    """The steps of the versions of the only automation."""
    return {row_id: {"steps": steps_of(session, manager.account_id, row_id)} for row_id in automation_ids}


def create(transaction: Transaction, manager: Manager, values: Values) -> CreatedRow:
    """Creates an active automation. Raises what `create_automation` raises."""
    most = manager.services.settings.max_automations
    return CreatedRow(create_automation(transaction, manager.account_id, values[DRAFT], most), {})


def update(transaction: Transaction, manager: Manager, row: Automation, values: Values) -> None:
    """Gives an automation another definition, by a new version. Raises what `rename_automation` and `update_automation`
    raise."""
    rename_automation(transaction, manager.account_id, row.id, values[DRAFT].definition.name)
    update_automation(transaction, row, values[DRAFT])


def delete(transaction: Transaction, manager: Manager, row: Automation) -> None:
    """Deletes an automation: no contact enters it any more, and its runs end."""
    delete_automation(transaction, manager.account_id, row.id)


SHAPE = shape_of(
    Automation,
    "automation",
    "automations",
    AUTOMATIONS_SHAPE.properties,
    FILTERS,
    links=_links,
    keys=(Automation.list_id,),
    options={"kind": AUTOMATION_KINDS, "state": STATES},
)
AUTOMATIONS = ManagedNoun(
    model=Automation,
    shape=SHAPE,
    whole=with_properties(SHAPE, {**AUTOMATION_SHAPE.properties, "definition": WHOLE_DEFINITION}),
    details=(Details(("steps",), _steps),),
    create=create,
    update=update,
    delete=delete,
    is_managed=(Automation.state != "deleted",),
)
