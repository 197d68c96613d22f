"""Automations: searching them, one with its steps and its runs, and pausing it
(docs/console-contents.md#automations)."""

from __future__ import annotations

from flask import Response, request

from app.accounts.auth import MANAGE
from app.clock import now
from app.console.automations import (
    PATH,
    cancel_run,
    find_automation,
    path_of_automation,
    path_of_run,
    read_automation,
    read_run,
    search,
    search_runs,
)
from app.console.losses import MAX_RUNS, held_runs
from app.console.queries import address_filter, name_filter
from app.db.database import ReadSession, Transaction
from app.db.models import Account, Automation
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, may
from app.http.console.notices import Done
from app.http.console.pages import link, page
from app.http.console.questions import Question
from app.http.console.searches import Search
from app.http.context import services
from app.http.paths import path_id
from app.infrastructure.redis_client import AUTOMATIONS as QUEUE
from app.runs.pause import pause as pause_automation
from app.runs.pause import resume as resume_automation
from app.runs.read import AUTOMATION_KINDS, AUTOMATION_STATES, RUN_FILTERS, RUN_STATES
from blueprints.console.blueprint import blp
from schemas.automations import ResumptionSchema
from schemas.base import load

SEARCH = Search(
    path=PATH,
    title="Automations",
    template="automations.html",
    text_filter=name_filter,
    find=search,
    columns=(
        *("id", "name", "kind", "list_id", "trigger", "state", "version"),
        *("waiting", "held", "paused_time", "creation_time", "last_modified_time"),
    ),
    context=lambda: {"states": AUTOMATION_STATES, "kinds": AUTOMATION_KINDS},
)
blp.searches(SEARCH, "report.view")


@blp.shows("/automations/<automation_id>", "report.view")
def automation(error: ServiceError | None = None, *, automation_id: str) -> Response:
    """The steps of an automation with their counts, and its runs that match the query."""
    with services().database.read() as session:
        automation = _automation(session, automation_id)
        return _runs(automation).page_within(
            session,
            session.get_one(Account, automation.account_id),
            error,
            automation_page=read_automation(session, automation, whole_urls=may(MANAGE)),
            run_states=RUN_STATES,
            at=lambda path: link(path, [], automation.account_id),
            may_pause=may("contact.update"),
            sees_contacts=may("contact.view"),
            sees_lists=may("list.view"),
        )


@blp.shows("/automations/<automation_id>/runs.csv", "report.view")
def runs_file(automation_id: str) -> Response:
    """The runs that match the query as a file, the last to enter first."""
    with services().database.read() as session:
        automation = _automation(session, automation_id)
        search_of_runs = _runs(automation)
        rows = search_of_runs.rows(session, session.get_one(Account, automation.account_id))
    return search_of_runs.file_of(rows, automation.account_id)


@blp.changes("/automations/<automation_id>/pause", "contact.update", refused=automation)
def pause(transaction: Transaction, automation_id: str) -> Done:
    """Pauses an automation: what falls due is held. A paused one stays so."""
    automation = _automation(transaction, automation_id)
    has_begun = pause_automation(transaction, automation.account_id, automation.id)
    undo = link(f"{path_of_automation(automation.id)}/resume", [], automation.account_id) if has_begun else None
    return Done(_path(automation), f"{automation.name} was paused. Steps that fall due are held.", undo)


HELD_RUN_WORDS = {
    "send": "Their next steps are carried out now. They may send messages.",
    "skip": "Their next messages, changes and calls are skipped. They are not carried out later.",
}
"""What becomes of the runs that a pause holds -> what the question says. To delay them loses nothing."""


def _before_resuming(session: ReadSession, automation_id: str) -> Question | None:
    automation = _automation(session, automation_id)
    words, number = HELD_RUN_WORDS.get(request.form.get("held", "send")), held_runs(session, automation)
    if words is None or not number:
        return None
    held = f"{'At least ' if number >= MAX_RUNS else ''}{number:,} {'run is' if number == 1 else 'runs are'} held."
    return Question(f"Resume {automation.name}?", [held, words], "Resume automation", _path(automation))


@blp.changes("/automations/<automation_id>/resume", "contact.update", refused=automation, asks=_before_resuming)
def resume(transaction: Transaction, automation_id: str) -> Done:
    """Resumes an automation; `held` says what becomes of what is held. An active one stays so."""
    automation = _automation(transaction, automation_id)
    how = load(ResumptionSchema(), {"held": request.form.get("held", "send")})["held"]
    transaction.after_commit(lambda: services().wake_ups.wake(QUEUE))
    resume_automation(transaction, automation.account_id, automation.id, how)
    return Done(_path(automation), f"{automation.name} was resumed.")


def _automation(session: ReadSession | Transaction, automation_id: str) -> Automation:
    return find_automation(session, chosen_account_id(), path_id(automation_id))


def _path(automation: Automation) -> str:
    return link(path_of_automation(automation.id), [], automation.account_id)


def _runs(automation: Automation) -> Search:
    """The search of the runs of an automation."""
    path = path_of_automation(automation.id)
    return Search(
        path=path,
        title=automation.name,
        template="automation.html",
        text_filter=address_filter,
        find=lambda search_request: search_runs(search_request, automation, sees_contacts=may("contact.view")),
        columns=tuple(RUN_FILTERS),
        row=lambda run: run.item,
        time="trigger_time",
        file_path=f"{path}/runs.csv",
    )


# One run of an automation: where its contact is, why, and when it goes on (docs/console-contents.md#automations).


@blp.shows("/automations/<automation_id>/runs/<run_id>", "report.view")
def run(automation_id: str, run_id: str) -> Response:
    """Where a run is, and the steps that it has passed."""
    sees_contacts, may_manage = may("contact.view"), may(MANAGE)
    with services().database.read() as session:
        of = _automation(session, automation_id)
        run_page = read_run(session, of, path_id(run_id), now(), sees_contacts=sees_contacts, whole_urls=may_manage)
    return page(
        "automation_run.html",
        run_page=run_page,
        automation=of,
        of=path_of_automation(of.id),
        at=lambda path: link(path, [], of.account_id),
        may_manage=may_manage,
        sees_contacts=sees_contacts,
    )


def _before_cancelling(session: ReadSession, automation_id: str, run_id: str) -> Question:
    of = _automation(session, automation_id)
    run_page = read_run(session, of, path_id(run_id), now(), sees_contacts=may("contact.view"), whole_urls=True)
    where = [f"It is at the step {run_page.row.step}."] if run_page.row.step else []
    facts = [*where, *run_page.why, "Its contact gets no more messages from it. This cannot be undone."]
    whose = f" for {run_page.address}" if run_page.address else ""
    return Question(
        f"Cancel this run of {of.name}{whose}?", facts, "Cancel run", link(run_page.path, [], of.account_id)
    )


@blp.changes("/automations/<automation_id>/runs/<run_id>/cancel", MANAGE, asks=_before_cancelling)
def cancel(transaction: Transaction, automation_id: str, run_id: str) -> Done:
    """Ends a run: its contact is sent nothing more by it."""
    of = _automation(transaction, automation_id)
    cancel_run(transaction, of, path_id(run_id))
    return Done(
        link(path_of_run(of.id, path_id(run_id)), [], of.account_id),
        "The run has ended. Its contact gets no more messages from it.",
    )
