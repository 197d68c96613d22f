"""How many runs are at each step of an automation, and what came of the steps that were passed
(docs/automations.md#counts)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from app.automations.run_states import IS_LIVE
from app.db.models import Automation, AutomationRun, AutomationStep, AutomationStepCount, GroupCount

REPORTED = ("sent", "delivered", "opened", "clicked", "bounced", "failed_contacts", "unsubscribed")
"""Counters of the report of a step that sends."""


@dataclass(slots=True)
class StepCounts:
    """The counts of one step."""

    here: int = 0
    """Runs that wait at it, or are held there."""
    results: Counter[str] = field(default_factory=Counter)
    """Result -> how many runs have passed it so, deleted ones among them."""
    reported: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REPORTED, 0))


def count_steps(session: Session, account_id: int, automation_id: int) -> Mapping[str, StepCounts]:
    """The counts by the name of the step: three selects, which read counters, and the runs that have not ended from an
    index."""
    counts: defaultdict[str, StepCounts] = defaultdict(StepCounts)
    for name, here in session.execute(_here(account_id, automation_id)):
        counts[name or ""].here = here
    of_automation = AutomationStep.account_id == account_id, AutomationStep.automation_id == automation_id
    passed = (
        select(AutomationStep.name, AutomationStepCount.result, func.sum(AutomationStepCount.passed))
        .join(AutomationStepCount, AutomationStepCount.step_id == AutomationStep.id)
        .where(*of_automation)
        .group_by(AutomationStep.name, AutomationStepCount.result)
    )
    for name, result, count in session.execute(passed):
        counts[name].results[result] = int(count)
    sums = [func.sum(getattr(GroupCount, counter)) for counter in REPORTED]
    reported = (
        select(AutomationStep.name, *sums)
        .join(GroupCount, GroupCount.group_id == AutomationStep.id)
        .where(*of_automation)
        .group_by(AutomationStep.name)
    )
    for row in session.execute(reported):
        counts[row[0]].reported = {counter: int(total) for counter, total in zip(REPORTED, row[1:], strict=True)}
    return counts


def _here(account_id: int, automation_id: int) -> Select[str | None, int]:
    live = AutomationRun.automation_id == automation_id, IS_LIVE
    statement = select(AutomationRun.step, func.count()).where(AutomationRun.account_id == account_id, *live)
    return statement.group_by(AutomationRun.step)


def count_states(session: Session, account_id: int) -> Mapping[int, Counter[str]]:
    """Id of each automation -> state -> how many of its runs are in it, without the ended ones."""
    own = select(Automation.id).where(Automation.account_id == account_id)
    statement = (
        select(AutomationRun.automation_id, AutomationRun.state, func.count())
        .where(AutomationRun.automation_id.in_(own), IS_LIVE)
        .group_by(AutomationRun.automation_id, AutomationRun.state)
    )
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for automation_id, state, count in session.execute(statement):
        counts[automation_id][state] = count
    return counts
