"""Reading one run with the steps that it has passed (docs/endpoints.md#automations)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import AutomationPassedStep, AutomationRun, AutomationStep, Recipient
from app.ids import existing
from app.query.conditions import Query
from app.query.fields import Resource
from app.query.reader import Property, as_timestamp, read_one
from app.runs.read import RUN_FILTERS, RUN_PROPERTIES, RUNS, without_contacts

WITH_PASSED_STEPS = {
    **RUN_PROPERTIES,
    # Replaced by the rows of the steps.
    "passed_steps": Property(AutomationRun.id),
}
RUN = replace(
    RUNS, resource=Resource("run", "runs", RUN_FILTERS, tuple(WITH_PASSED_STEPS)), properties=WITH_PASSED_STEPS
)
"""One run, with its history."""
ANONYMOUS_RUN = without_contacts(RUN)


def require_run(session: Session, account_id: int, automation_id: int, run_id: int) -> None:
    """Raises `not_found` unless the automation has the run."""
    of_automation = AutomationRun.account_id == account_id, AutomationRun.automation_id == automation_id
    found = session.execute(select(AutomationRun.id).where(*of_automation, AutomationRun.id == run_id))
    existing(found.one_or_none(), "run", run_id)


def get_run(
    session: Session, account_id: int, automation_id: int, run_id: int, query: Query, *, sees_contacts: bool
) -> dict[str, Any]:
    """One run of the automation. Raises `not_found`."""
    within = {
        AutomationRun.account_id: account_id,
        AutomationRun.automation_id: automation_id,
        AutomationRun.id: run_id,
    }
    shown = existing(read_one(session, RUN if sees_contacts else ANONYMOUS_RUN, query, within), "run", run_id)
    if "passed_steps" in shown:
        shown["passed_steps"] = [
            {**passed, "time": as_timestamp(passed["time"], query.zone)}
            for passed in passed_steps(session, account_id, run_id)
        ]
    return shown


def passed_steps(session: Session, account_id: int, run_id: int) -> list[dict[str, Any]]:
    """What the run has passed, in its order; `uuid` is that of the recipient of a step that sent, while it is kept."""
    passed = AutomationPassedStep
    columns = passed.step_id, AutomationStep.name, AutomationStep.kind, passed.time, passed.result, passed.detail
    statement = (
        select(*columns, Recipient.uuid)
        .join(AutomationStep, AutomationStep.id == passed.step_id)
        .outerjoin(Recipient, Recipient.id == passed.recipient_id)
        .where(passed.account_id == account_id, passed.run_id == run_id)
        .order_by(passed.id)
    )
    return list(map(dict, session.execute(statement).mappings()))
