"""Reading automations, their runs and their counts (docs/automation-endpoints.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Row, Select, and_, case, func, null, select
from sqlalchemy.orm import Session

from app.audit.values import host_of
from app.automations.definition import TRIGGERS
from app.automations.paths import automation_path, run_path
from app.automations.run_states import IS_LIVE
from app.db.index_hints import IndexedCondition, answered_together, planned_for_values
from app.db.models import (
    Automation,
    AutomationPassedStep,
    AutomationRun,
    AutomationStep,
    AutomationStepCount,
    AutomationVersion,
    GroupCount,
    Recipient,
)
from app.db.public_ids import public_id
from app.ids import existing, shown_id
from app.lists.paths import contact_path, list_path
from app.query import compile as compiled
from app.query.conditions import Equals, FilterCondition, Query, is_of_values
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_one, read_page

AUTOMATION_KINDS = ("standard", "advanced")
AUTOMATION_STATES = ("active", "paused", "deleted")
RUN_STATES = ("waiting", "held", "ended")
TRIGGER = case(
    *(
        (and_(Automation.kind == kind, Automation.action == action), name)
        for action, names in TRIGGERS.items()
        for kind, name in names.items()
    )
)
TRIGGER_NAMES = tuple(name for names in TRIGGERS.values() for name in names.values())


def _links(row: Row[Any]) -> dict[str, Any]:
    path = automation_path(row.id)
    return {"self": {"href": path}, "list": {"href": list_path(row.list_id)}, "runs": {"href": f"{path}/runs"}}


PROPERTIES = {
    "id": Property(Automation.id),
    "name": Property(Automation.name),
    "kind": Property(Automation.kind),
    "list_id": Property(public_id(Automation.list_id)),
    "trigger": Property(TRIGGER),
    "state": Property(Automation.state),
    "version": Property(Automation.version),
    "paused_time": Property(Automation.paused_time, as_timestamp),
    "creation_time": Property(Automation.creation_time, as_timestamp),
    "last_modified_time": Property(Automation.last_modified_time, as_timestamp),
}
FILTERS = {
    "id": Filter("id", FilterType.INTEGER),
    "name": Filter("name", FilterType.STRING),
    "kind": Filter("kind", FilterType.ENUM, AUTOMATION_KINDS),
    "list_id": Filter("list_id", FilterType.INTEGER),
    "trigger": Filter("trigger", FilterType.ENUM, TRIGGER_NAMES),
    "state": Filter("state", FilterType.ENUM, AUTOMATION_STATES),
    "version": Filter("version", FilterType.INTEGER),
    "paused_time": Filter("paused_time", FilterType.TIMESTAMP),
    "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    "last_modified_time": Filter("last_modified_time", FilterType.TIMESTAMP),
}
AUTOMATIONS_SHAPE = Shape(
    resource=Resource("automation", "automations", FILTERS, tuple(PROPERTIES), copied=("list_id",)),
    properties=PROPERTIES,
    keys=(Automation.id, Automation.list_id),
    links=_links,
    order=(Automation.creation_time, Automation.id),
    filters={"list_id": Automation.list_id},
)

NEWEST_DEFINITION = (
    select(AutomationVersion.definition)
    .where(AutomationVersion.automation_id == Automation.id, AutomationVersion.number == Automation.version)
    .correlate(Automation)
    .scalar_subquery()
)


def _converted(part: Any, conversions: Mapping[str, Callable[[Any], Any]]) -> Any:
    """A part of a definition with the attributes of these names converted."""
    if isinstance(part, list):
        return [_converted(element, conversions) for element in part]
    if isinstance(part, dict):
        return {
            name: conversions[name](value) if name in conversions else _converted(value, conversions)
            for name, value in part.items()
        }
    return part


# What a step sets stays: fields of a list may have the names of attributes.
DEFINITION_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {"message_id": shown_id, "set": dict}


def _whole_definition(definition: Any, _zone: ZoneInfo | None) -> Any:
    """The definition with the ids of messages as everybody outside sees them."""
    return _converted(definition, DEFINITION_CONVERSIONS)


def _definition_with_hosts(definition: Any, _zone: ZoneInfo | None) -> Any:
    """The same with the hosts of the URLs that are called: the rest may have a secret in it."""
    return _converted(definition, {**DEFINITION_CONVERSIONS, "call": host_of})


WHOLE_DEFINITION = Property(NEWEST_DEFINITION, _whole_definition)
"""The newest definition as its author wrote it, for those who may manage."""
PROPERTIES_WITH_DEFINITION = {
    **PROPERTIES,
    "definition": Property(NEWEST_DEFINITION, _definition_with_hosts),
    # Replaced by the rows of the steps.
    "steps": Property(Automation.id),
}
AUTOMATION_SHAPE = replace(
    AUTOMATIONS_SHAPE,
    resource=Resource("automation", "automations", FILTERS, tuple(PROPERTIES_WITH_DEFINITION)),
    properties=PROPERTIES_WITH_DEFINITION,
)
"""One automation, with its newest definition, in which called URLs are hosts, and the ids of its steps."""

RUN_PROPERTIES = {
    "id": Property(AutomationRun.id),
    "contact_id": Property(AutomationRun.contact_id),
    "version": Property(
        select(AutomationVersion.number)
        .where(AutomationVersion.id == AutomationRun.version_id)
        .correlate(AutomationRun)
        .scalar_subquery()
    ),
    "state": Property(AutomationRun.state),
    "reason": Property(AutomationRun.reason),
    "step": Property(AutomationRun.step),
    "trigger_time": Property(AutomationRun.trigger_time, as_timestamp),
    "due_time": Property(case((AutomationRun.state != "ended", AutomationRun.due_time)), as_timestamp),
    "end_time": Property(AutomationRun.end_time, as_timestamp),
}
RUN_FILTERS = {
    "id": Filter("id", FilterType.INTEGER),
    "contact_id": Filter("contact_id", FilterType.INTEGER),
    "version": Filter("version", FilterType.INTEGER),
    "state": Filter("state", FilterType.ENUM, RUN_STATES),
    "reason": Filter("reason", FilterType.STRING),
    "step": Filter("step", FilterType.STRING),
    "trigger_time": Filter("trigger_time", FilterType.TIMESTAMP),
    "due_time": Filter("due_time", FilterType.TIMESTAMP),
    "end_time": Filter("end_time", FilterType.TIMESTAMP),
}


def _run_links(row: Row[Any]) -> dict[str, Any]:
    return {
        "self": {"href": run_path(row.automation_id, row.id)},
        "automation": {"href": automation_path(row.automation_id)},
        "contact": {"href": contact_path(row.list_id, row.contact_id)},
    }


RUNS_SHAPE = Shape(
    resource=Resource("run", "runs", RUN_FILTERS, tuple(RUN_PROPERTIES)),
    properties=RUN_PROPERTIES,
    keys=(AutomationRun.id, AutomationRun.automation_id, AutomationRun.list_id, AutomationRun.contact_id),
    links=_run_links,
    order=(AutomationRun.trigger_time, AutomationRun.id),
)


CONTACT_FILTERS = ("contact_id",)
"""Filters of runs that tell whose run it is (docs/requests.md#confidentiality)."""


def without_contacts(shape: Shape) -> Shape:
    """The shape for keys that may not see contacts."""

    def links(row: Row[Any]) -> dict[str, Any]:
        return {name: link for name, link in _run_links(row).items() if name != "contact"}

    hidden = {name: Property(null()) for name in CONTACT_FILTERS}
    return replace(shape, properties={**shape.properties, **hidden}, links=links)


ANONYMOUS_RUNS_SHAPE = without_contacts(RUNS_SHAPE)


def page_automations(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's automations. Deleted ones are shown only where the query filters by the state."""
    scope = [Automation.account_id == account_id]
    if not any(condition.filter.name == "state" for condition in query.conditions):
        scope.append(Automation.state != "deleted")
    return read_page(session, AUTOMATIONS_SHAPE, query, *scope)


def require_automation(session: Session, account_id: int, automation_id: int) -> None:
    """Raises `not_found` unless the account has the automation."""
    automation_filter = Automation.account_id == account_id, Automation.id == automation_id
    rows = session.execute(select(Automation.id).where(*automation_filter))
    existing(rows.one_or_none(), "automation", automation_id)


def get_automation(session: Session, account_id: int, automation_id: int, query: Query) -> dict[str, Any]:
    """One automation. Raises `not_found`."""
    row = read_one(session, AUTOMATION_SHAPE, query, {Automation.account_id: account_id, Automation.id: automation_id})
    item = existing(row, "automation", automation_id)
    if "steps" in item:
        item["steps"] = steps_of(session, account_id, automation_id)
    return item


def steps_of(session: Session, account_id: int, automation_id: int) -> list[dict[str, Any]]:
    """The steps of all versions, the oldest first: `id`, `name` and `kind`."""
    automation_filter = AutomationStep.account_id == account_id, AutomationStep.automation_id == automation_id
    statement = select(AutomationStep.id, AutomationStep.name, AutomationStep.kind).where(*automation_filter)
    return list(map(dict, session.execute(statement.order_by(AutomationStep.id)).mappings()))


def page_runs(session: Session, account_id: int, automation_id: int, query: Query, *, sees_contacts: bool) -> Page:
    """A page of the automation's runs, the last to enter first."""
    scope = [AutomationRun.account_id == account_id, AutomationRun.automation_id == automation_id]
    indexed = []
    if about_live := tuple(filter(_excludes_ended, query.conditions)):
        is_matched = and_(IS_LIVE, *compiled.where(Query(conditions=about_live), RUNS_SHAPE.filter_columns))
        ids = select(AutomationRun.id.label("id")).where(*scope, is_matched).order_by(AutomationRun.state)
        indexed.append(IndexedCondition(is_matched, [ids], leads=False))
    with planned_for_values(session):
        scope += answered_together(session, AutomationRun.id, indexed, counts=query.counts_only)
        return read_page(session, RUNS_SHAPE if sees_contacts else ANONYMOUS_RUNS_SHAPE, query, *scope)


def _excludes_ended(condition: FilterCondition) -> bool:
    """Whether it matches only runs that have not ended, by their state or by the step that they are at: the index of
    live runs answers."""
    if condition.filter.name == "state":
        return (Equals("ended") in condition.alternatives) is (condition.op == "ne")
    return condition.filter.name == "step" and is_of_values(condition)


PROPERTIES_WITH_STEPS = {
    **RUN_PROPERTIES,
    # Replaced by the rows of the steps.
    "passed_steps": Property(AutomationRun.id),
}
RUN_SHAPE = replace(
    RUNS_SHAPE,
    resource=Resource("run", "runs", RUN_FILTERS, tuple(PROPERTIES_WITH_STEPS)),
    properties=PROPERTIES_WITH_STEPS,
)
"""One run, with its history."""
ANONYMOUS_RUN_SHAPE = without_contacts(RUN_SHAPE)


def require_run(session: Session, account_id: int, automation_id: int, run_id: int) -> None:
    """Raises `not_found` unless the automation has the run."""
    automation_filter = AutomationRun.account_id == account_id, AutomationRun.automation_id == automation_id
    rows = session.execute(select(AutomationRun.id).where(*automation_filter, AutomationRun.id == run_id))
    existing(rows.one_or_none(), "run", run_id)


def get_run(
    session: Session, account_id: int, automation_id: int, run_id: int, query: Query, *, sees_contacts: bool
) -> dict[str, Any]:
    """One run of the automation. Raises `not_found`."""
    within = {
        AutomationRun.account_id: account_id,
        AutomationRun.automation_id: automation_id,
        AutomationRun.id: run_id,
    }
    run = existing(read_one(session, RUN_SHAPE if sees_contacts else ANONYMOUS_RUN_SHAPE, query, within), "run", run_id)
    if "passed_steps" in run:
        run["passed_steps"] = [
            {**passed, "time": as_timestamp(passed["time"], query.zone)}
            for passed in passed_steps(session, account_id, run_id)
        ]
    return run


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


REPORT_COUNTERS = ("sent", "delivered", "opened", "clicked", "bounced", "failed_contacts", "unsubscribed")
"""Counters of the report of a step that sends."""


@dataclass(slots=True)
class StepCounts:
    """The counts of one step."""

    here: int = 0
    """Runs that wait at it, or are held there."""
    results: Counter[str] = field(default_factory=Counter)
    """Result -> how many runs have passed it so, deleted ones among them."""
    reported: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REPORT_COUNTERS, 0))


def count_steps(session: Session, account_id: int, automation_id: int) -> Mapping[str, StepCounts]:
    """The counts by the name of the step: three selects, which read counters, and the runs that have not ended from an
    index."""
    counts: defaultdict[str, StepCounts] = defaultdict(StepCounts)
    for name, here in session.execute(_here(account_id, automation_id)):
        counts[name or ""].here = here
    automation_filter = AutomationStep.account_id == account_id, AutomationStep.automation_id == automation_id
    passed = (
        select(AutomationStep.name, AutomationStepCount.result, func.sum(AutomationStepCount.passed))
        .join(AutomationStepCount, AutomationStepCount.step_id == AutomationStep.id)
        .where(*automation_filter)
        .group_by(AutomationStep.name, AutomationStepCount.result)
    )
    for name, result, count in session.execute(passed):
        counts[name].results[result] = int(count)
    sums = [func.sum(getattr(GroupCount, counter)) for counter in REPORT_COUNTERS]
    reported = (
        select(AutomationStep.name, *sums)
        .join(GroupCount, GroupCount.group_id == AutomationStep.id)
        .where(*automation_filter)
        .group_by(AutomationStep.name)
    )
    for row in session.execute(reported):
        counts[row[0]].reported = {counter: int(total) for counter, total in zip(REPORT_COUNTERS, row[1:], strict=True)}
    return counts


def _here(account_id: int, automation_id: int) -> Select[str | None, int]:
    live = AutomationRun.automation_id == automation_id, IS_LIVE
    statement = select(AutomationRun.step, func.count()).where(AutomationRun.account_id == account_id, *live)
    return statement.group_by(AutomationRun.step)


def count_states(session: Session, account_id: int) -> Mapping[int, Counter[str]]:
    """Id of each automation -> state -> how many of its runs are in it, without the ended ones."""
    automation_ids = select(Automation.id).where(Automation.account_id == account_id)
    statement = (
        select(AutomationRun.automation_id, AutomationRun.state, func.count())
        .where(AutomationRun.automation_id.in_(automation_ids), IS_LIVE)
        .group_by(AutomationRun.automation_id, AutomationRun.state)
    )
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for automation_id, state, count in session.execute(statement):
        counts[automation_id][state] = count
    return counts
