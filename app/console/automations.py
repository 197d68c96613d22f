"""Automations: searching them, one with its tree of steps and their counts, and its runs
(docs/console-contents.md#automations)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from app.addresses import AddressKind
from app.audit.values import host_of
from app.automations.definition import Branch, Definition, Send, Step
from app.automations.drawing import describe, entry_lines
from app.automations.facts import EndReason
from app.automations.parse import parse_stored
from app.automations.run_states import IS_LIVE
from app.automations.versions import load_versions
from app.clock import timestamp
from app.console.queries import Pairs, SearchPage, SearchRequest
from app.contacts.get_or_create import find_by_address
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.lookup import find_with_id
from app.db.models import Automation, AutomationRun, AutomationVersion, Contact, List
from app.errors import ServiceError
from app.ids import existing
from app.query.conditions import Query
from app.query.parameters import check_visible
from app.query.reader import Page
from app.runs.define import newest_version
from app.runs.pause import CANCEL_REASON, DELETION_REASON, DROP_REASON, FAILURE_REASON, RESTORE_REASON, cancel
from app.runs.read import (
    AUTOMATIONS_SHAPE,
    CONTACT_FILTERS,
    RUNS_SHAPE,
    StepCounts,
    count_states,
    count_steps,
    page_automations,
    page_runs,
    passed_steps,
)

PATH = "/console/automations"
COUNTER_WORDS = {"sent": "accepted", "failed_contacts": "failed"}
"""Counter of messages -> its name on the page, where that is another."""
WordCount = tuple[str, int]
"""A word and a number."""


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step with its counts: the runs that are `here`, how many have passed it with which result, and what became of
    the messages that it has sent. `sides` are those of a branch by their words, without empty ones."""

    name: str
    does: str
    here: int
    results: Sequence[WordCount]
    reported_counts: Sequence[WordCount]
    sides: Sequence[tuple[str, Sequence[ShownStep]]] = ()


@dataclass(frozen=True, slots=True)
class AutomationPage:
    """An automation with who enters and who leaves, its steps, and those that only earlier versions have."""

    row: Automation
    list_name: str
    entry: Sequence[str]
    steps: Sequence[ShownStep]
    earlier_steps: Sequence[ShownStep]

    @property
    def path(self) -> str:
        """The path of the automation's page."""
        return path_of_automation(self.row.id)


def path_of_automation(automation_id: int) -> str:
    """The path of the page of an automation."""
    return f"{PATH}/{automation_id}"


def search(search_request: SearchRequest) -> SearchPage:
    """The account's automations that match, the newest first, each with the name of its list and the numbers of its
    runs that wait and that are held: three statements. Deleted ones are found by their state alone. Raises the errors
    of the query."""
    search_page = search_request.read_page(PATH, AUTOMATIONS_SHAPE.resource, page_automations)
    names = _names_of_lists(
        search_request.session, search_request.account_id, [row.list_id for row in search_page.rows]
    )
    states = count_states(search_request.session, search_request.account_id)
    items = [
        {
            **item,
            "list": names.get(row.list_id, ""),
            **{state: states[row.id][state] if row.id in states else 0 for state in ("waiting", "held")},
        }
        for item, row in zip(search_page.items, search_page.rows, strict=True)
    ]
    return replace(search_page, items=items)


def _names_of_lists(session: Session, account_id: int, ids: Sequence[int]) -> Mapping[int, str]:
    statement = select(List.id, List.name).where(List.account_id == account_id, in_json(List.id, ids))
    return {row.id: row.name or "" for row in session.execute(statement)}


def find_automation(session: Session, account_id: int | None, automation_id: int) -> Automation:
    """The account's automation, or that of any account for None. Raises `not_found`."""
    return find_with_id(session, Automation, account_id, automation_id, "automation")


def read_automation(session: Session, automation: Automation, *, whole_urls: bool) -> AutomationPage:
    """What the page of an automation shows beside its runs, with the URLs that it calls or with their hosts: five
    statements, however many runs have ended."""
    definition = parse_stored(newest_version(session, automation).definition)
    counts = count_steps(session, automation.account_id, automation.id)
    names = _names_of_lists(session, automation.account_id, [automation.list_id])
    return AutomationPage(
        automation,
        names.get(automation.list_id, ""),
        list(entry_lines(definition)),
        list(_shown_steps(definition.steps, counts, whole_urls=whole_urls)),
        list(_earlier(definition, counts)),
    )


def _shown_steps(steps: Sequence[Step], counts: Mapping[str, StepCounts], *, whole_urls: bool) -> Iterator[ShownStep]:
    for step in steps:
        does = describe(step, str if whole_urls else host_of)
        shown_step = _shown_step(step.name, does, counts, sends=isinstance(step, Send))
        if isinstance(step, Branch):
            sides = (("then", step.then), ("else", step.otherwise))
            shown_sides = [
                (word, list(_shown_steps(side, counts, whole_urls=whole_urls))) for word, side in sides if side
            ]
            shown_step = replace(shown_step, sides=shown_sides)
        yield shown_step


def _earlier(definition: Definition, counts: Mapping[str, StepCounts]) -> Iterator[ShownStep]:
    """The steps with counts that the newest version does not have."""
    for name in sorted(counts):
        if name and name not in definition.by_name:
            yield _shown_step(name, "", counts, sends=True)


def _shown_step(name: str, does: str, counts: Mapping[str, StepCounts], *, sends: bool) -> ShownStep:
    step_counts = counts[name] if name in counts else StepCounts()
    reported = [(COUNTER_WORDS.get(name, name), count) for name, count in step_counts.reported.items() if count]
    return ShownStep(name, does, step_counts.here, sorted(step_counts.results.items()), reported if sends else ())


# Runs of automations: searching them, and one with where it is, why, and when it goes on
# (docs/console-contents.md#automations).

ADDRESS_FILTERS: tuple[AddressKind, ...] = ("email", "mobile")
MAX_CONTACTS = 100
"""How many contacts of a list with one address have their runs found by it: the oldest ones."""
MAX_RUNS = 10
"""How many runs the page of a contact shows."""
END_REASON_WORDS: Mapping[str, str] = {
    EndReason.COMPLETED: "The run has completed its last step.",
    EndReason.STOPPED: "A step ended the run.",
    EndReason.LEFT: "The contact met the conditions for leaving.",
    EndReason.DATE_PAST: "The date to wait for had already passed.",
    EndReason.NO_DATE: "The contact has no date to wait for.",
    EndReason.CONTACT_DELETED: "The contact was deleted.",
    EndReason.CONTACT_INACTIVE: "The contact was not active when the next step was due.",
    CANCEL_REASON: "Somebody cancelled the run.",
    DELETION_REASON: "The automation was deleted.",
    FAILURE_REASON: "The next step failed in every attempt because of an internal error.",
    DROP_REASON: "An operator dropped the run after a restore.",
}
"""Reason -> why a run ended."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run in a table: the API's properties, with when it goes on, and the address of its contact, which is None for
    one that is deleted or has none, or whose address the reader may not see."""

    item: Mapping[str, Any]
    path: str
    due_time: datetime | None
    address: str | None


def path_of_run(automation_id: int, run_id: int) -> str:
    """The path of the page of a run."""
    return f"{path_of_automation(automation_id)}/runs/{run_id}"


def search_runs(search_request: SearchRequest, automation: Automation, *, sees_contacts: bool) -> SearchPage:
    """The runs of the automation that match, the last to enter first: three statements at most. Beside the API's
    filters there are `email` and `mobile`, which need `contact.view`. Raises the errors of the query, and
    `permission_denied`."""
    check_visible(search_request.pairs, () if sees_contacts else (*ADDRESS_FILTERS, *CONTACT_FILTERS))
    within = _by_contact(search_request.session, automation, search_request.pairs)
    if within is None:
        return SearchPage((), None)

    def read(session: Session, account_id: int, query: Query) -> Page:
        return page_runs(session, account_id, automation.id, query, sees_contacts=sees_contacts)

    search_page = replace(search_request, pairs=within).read_page(
        path_of_automation(automation.id), RUNS_SHAPE.resource, read
    )
    details = _run_details(search_request.session, automation, [row.id for row in search_page.rows])
    return replace(
        search_page, items=[_run(automation, item, details[item["id"]], sees_contacts) for item in search_page.items]
    )


def _by_contact(session: Session, automation: Automation, pairs: Pairs) -> Pairs | None:
    """The query with the ids of contacts in place of an address; None if no contact of the list has it."""
    addresses: list[tuple[AddressKind, str]] = [
        (kind, text) for name, text in pairs for kind in ADDRESS_FILTERS if name == kind
    ]
    if not addresses:
        return pairs
    if len(addresses) > 1:
        raise ServiceError("invalid_query_syntax", field=addresses[1][0], detail="Runs are found by one address.")
    (kind, text) = addresses[0]
    statement, values = find_by_address(kind, [text], account_id=automation.account_id, list_id=automation.list_id)
    ids = sorted(contact_id for _, contact_id in statement.tuples(session, **values))[:MAX_CONTACTS]
    others = [pair for pair in pairs if pair[0] not in ADDRESS_FILTERS]
    return [*others, ("contact_id:in", ",".join(map(str, ids)))] if ids else None


def _run_details(session: Session, automation: Automation, ids: Sequence[int]) -> Mapping[int, Any]:
    """Id of a run -> what the API does not tell of it."""
    contact_of_run = and_(Contact.list_id == AutomationRun.list_id, Contact.id == AutomationRun.contact_id)
    statement = (
        select(AutomationRun.id, AutomationRun.shifted_seconds, AutomationRun.due_time, Contact.email, Contact.mobile)
        .outerjoin(Contact, contact_of_run)
        .where(AutomationRun.account_id == automation.account_id, in_json(AutomationRun.id, ids))
    )
    return {row.id: row for row in session.execute(statement)}


def _run(automation: Automation, item: Mapping[str, Any], details: Any, sees_contacts: bool) -> Run:
    address = (details.email or details.mobile) if sees_contacts else None
    due_time = None if item["state"] == "ended" else _shifted(automation, details)
    return Run(item, path_of_run(automation.id, item["id"]), due_time, address)


def _shifted(automation: Automation, run: Any) -> datetime:
    """When the run is due, with what pauses have added since that was written."""
    due_time: datetime = run.due_time
    return due_time + timedelta(seconds=max(0, automation.shifted_seconds - run.shifted_seconds))


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run of a contact that has not ended, with the name of its automation."""

    automation: str
    path: str
    state: str
    step: str
    due_time: datetime


def runs_of_contact(session: Session, account_id: int, list_id: int, contact_id: int) -> Sequence[LiveRun]:
    """The contact's runs that have not ended, the last to enter first, up to `MAX_RUNS`: one statement."""
    contact_filter = AutomationRun.contact_id == contact_id, AutomationRun.list_id == list_id, IS_LIVE
    statement = (
        select(AutomationRun, Automation)
        .join(Automation, Automation.id == AutomationRun.automation_id)
        .where(AutomationRun.account_id == account_id, *contact_filter)
        .order_by(AutomationRun.trigger_time.desc(), AutomationRun.id.desc())
    )
    return [
        LiveRun(
            automation.name, path_of_run(automation.id, run.id), run.state, run.step or "", _shifted(automation, run)
        )
        for run, automation in session.execute(statement.limit(MAX_RUNS))
    ]


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run with its version, the words for where it is, why and when it goes on, and the steps that it has passed.
    `address` is as in `Run`, and `has_contact` says whether the contact still exists."""

    row: AutomationRun
    path: str
    version: int
    does: str | None
    """What the step does that is next."""
    why: Sequence[str]
    passed_steps: Sequence[Mapping[str, Any]]
    has_contact: bool
    address: str | None


def find_run(session: Session, automation: Automation, run_id: int) -> AutomationRun:
    """The run of the automation. Raises `not_found`."""
    automation_filter = AutomationRun.account_id == automation.account_id, AutomationRun.automation_id == automation.id
    run = session.scalars(select(AutomationRun).where(*automation_filter, AutomationRun.id == run_id)).first()
    return existing(run, "run", run_id)


def read_run(
    session: Session, automation: Automation, run_id: int, moment: datetime, *, sees_contacts: bool, whole_urls: bool
) -> RunPage:
    """What the page of a run shows, with the URL that its next step calls or with its host. Raises `not_found`."""
    row = find_run(session, automation, run_id)
    version = load_versions(session, [row.version_id])[row.version_id]
    step = version.definition.step(row.step) if row.step else None
    passed = passed_steps(session, row.account_id, row.id)
    contact_filter = Contact.account_id == row.account_id, Contact.list_id == row.list_id
    statement = select(Contact.email, Contact.mobile).where(*contact_filter, Contact.id == row.contact_id)
    contact = session.execute(statement).first()
    address = (contact.email or contact.mobile) if contact is not None and sees_contacts else None
    return RunPage(
        row,
        path_of_run(automation.id, row.id),
        session.scalars(select(AutomationVersion.number).where(AutomationVersion.id == row.version_id)).one(),
        describe(step, str if whole_urls else host_of) if step else None,
        list(_why(automation, row, version.step_names, moment)),
        passed,
        contact is not None,
        address,
    )


def _why(automation: Automation, run: AutomationRun, step_names: Mapping[int, str], moment: datetime) -> Iterator[str]:
    """Why the run stands where it does, and when it goes on."""
    due_time = _shifted(automation, run)
    due = timestamp(due_time)
    if run.state == "ended":
        yield END_REASON_WORDS.get(run.reason or "", f"{run.reason}.")
    elif run.state == "held" and run.reason == RESTORE_REASON:
        yield "The run comes from a restored backup. It is held until an operator releases it."
    elif run.state == "held":
        yield f"The next step fell due at {due}, while the automation was paused. It is held until somebody resumes it."
    elif run.attempts:
        times = "once" if run.attempts == 1 else f"{run.attempts} times"
        yield f"The next step has failed {times} because of an internal error. The next attempt is due at {due}."
    elif due_time <= moment:
        yield f"The next step has been due since {due}. A worker carries it out as soon as possible."
    elif run.watched_step is not None:
        watched_name = step_names.get(run.watched_step, "")
        event = f"the message of the step “{watched_name}” is {run.watched_event}"
        yield f"The run waits until {event}, at most until {due}."
    else:
        yield f"The next step is due at {due}."
    if run.state == "waiting" and automation.state == "paused":
        yield "The automation is paused. Steps that fall due are held."
    if run.state != "ended" and run.skips_next:
        yield "The next message, change or call is skipped, because it fell due during a pause."


def cancel_run(transaction: Transaction, automation: Automation, run_id: int) -> None:
    """Ends the run: its contact is sent nothing more by it. One that has ended stays so. Raises `not_found`."""
    run = find_run(transaction, automation, run_id)
    cancel(transaction, run.account_id, run.id)
