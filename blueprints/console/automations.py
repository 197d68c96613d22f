"""Automations: searching them, one with its steps and its runs, and pausing it (docs/console.md#automations)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE
from app.clock import now
from app.console import automation_runs
from app.console.automation_runs import cancel_run, path_of_run, read_run
from app.console.automations import PATH, find_automation, path_of_automation, read_automation, search, sought
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs, of_address
from app.db.database import ReadSession, Transaction
from app.db.models import Account
from app.db.models import Automation as Row
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page, search_within
from app.http.context import services
from app.http.paths import path_id
from app.infrastructure.redis_client import AUTOMATIONS as QUEUE
from app.runs.pause import pause, resume
from app.runs.read import KINDS, RUN_FILTERS, RUN_STATES, STATES
from blueprints.console.blueprint import blp
from schemas.automations import ResumptionSchema
from schemas.base import load

FILE_COLUMNS = (
    *("id", "name", "kind", "list_id", "trigger", "state", "version"),
    *("waiting", "held", "paused_time", "creation_time", "last_modified_time"),
)
RUN_COLUMNS = tuple(RUN_FILTERS)


@blp.route("/automations")
class Automations(MethodView):
    """The automations of an account."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        return search_page(SEARCH, states=STATES, kinds=KINDS)


@blp.route("/automations.csv")
class AutomationsFile(MethodView):
    """The automations of the page as a file."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            found = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        return csv_file("automations.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in found))


@blp.route("/automations/<automation_id>")
class OneAutomation(MethodView):
    """One automation."""

    @blp.scope("report.view")
    def get(self, automation_id: str) -> Response:
        """The steps of the automation with their counts, and its runs that match the query."""
        return _one(automation_id)


@blp.route("/automations/<automation_id>/runs.csv")
class RunsFile(MethodView):
    """The runs of an automation as a file."""

    @blp.scope("report.view")
    def get(self, automation_id: str) -> Response:
        """The runs that match the query, the last to enter first."""
        with services().database.read() as session:
            automation = _automation(session, automation_id)
            pairs = _runs_search(automation).query()
            found = _runs(session, automation, pairs, IN_A_FILE)[0]
        return csv_file("runs.csv", RUN_COLUMNS, ([run.item[name] for name in RUN_COLUMNS] for run in found))


@blp.route("/automations/<automation_id>/pause")
class Pause(MethodView):
    """Pausing an automation."""

    @blp.scope("contact.update")
    def post(self, automation_id: str) -> Response:
        """Pauses it: what falls due is held. A paused one stays so."""
        return _changed(automation_id, lambda transaction, one: pause(transaction, one.account_id, one.id))


@blp.route("/automations/<automation_id>/resume")
class Resume(MethodView):
    """Resuming an automation."""

    @blp.scope("contact.update")
    def post(self, automation_id: str) -> Response:
        """Resumes it; `held` says what becomes of what is held. An active one stays so."""

        def change(transaction: Transaction, automation: Row) -> None:
            how = load(ResumptionSchema(), {"held": request.form.get("held", "send")})["held"]
            transaction.after_commit(lambda: services().wake_ups.wake(QUEUE))
            resume(transaction, automation.account_id, automation.id, how)

        return _changed(automation_id, change)


def _automation(session: ReadSession | Transaction, automation_id: str) -> Row:
    return find_automation(session, chosen_account_id(), path_id(automation_id))


def _one(automation_id: str, error: ServiceError | None = None) -> Response:
    who, refused = signed_in(), texts_of(error)
    with services().database.read() as session:
        automation = _automation(session, automation_id)
        return search_within(
            _runs_search(automation),
            session,
            session.get_one(Account, automation.account_id),
            status_of(error),
            refused,
            one=read_automation(session, automation),
            run_states=RUN_STATES,
            at=lambda path: link(path, [], automation.account_id),
            may_pause="contact.update" in who.scopes,
            sees_contacts="contact.view" in who.scopes,
            sees_lists="list.view" in who.scopes,
        )


def _changed(automation_id: str, change: Callable[[Transaction, Row], object]) -> Response:
    """The page of the automation again, which tells of a refusal."""
    try:
        with services().database.write() as transaction:
            automation = _automation(transaction, automation_id)
            account_id = automation.account_id
            change(transaction, automation)
    except ServiceError as error:
        if error.code == "not_found":
            raise
        return _one(automation_id, error)
    return goes_to(link(path_of_automation(path_id(automation_id)), [], account_id))


def _runs(session: ReadSession, automation: Row, pairs: Pairs, limit: int) -> tuple[Any, Pairs | None]:
    keys, sees_contacts = services().settings.secret_keys, "contact.view" in signed_in().scopes
    return automation_runs.search(session, keys, automation, pairs, limit, sees_contacts=sees_contacts)


def _runs_search(automation: Row) -> Search:
    """The search of the runs of an automation."""
    path = path_of_automation(automation.id)

    def read(session: ReadSession, _account: Account, pairs: Pairs) -> tuple[Mapping[str, Any], Pairs | None]:
        found, older = _runs(session, automation, pairs, ON_A_PAGE)
        return {"items": found}, older

    file = f"{path}/runs.csv"
    return Search(
        path,
        automation.name,
        "automation.html",
        of_address,
        read,
        nothing={"items": []},
        time="trigger_time",
        file=file,
    )


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[Mapping[str, Any], Pairs | None]:
    found, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    return {"items": found}, older


SEARCH = Search(PATH, "Automations", "automations.html", sought, _read, nothing={"items": []})


# One run of an automation: where its contact is, why, and when it goes on (docs/console.md#automations).


@blp.route("/automations/<automation_id>/runs/<run_id>")
class OneRun(MethodView):
    """One run."""

    @blp.scope("report.view")
    def get(self, automation_id: str, run_id: str) -> Response:
        """Where the run is, and the steps that it has passed."""
        who = signed_in()
        with services().database.read() as session:
            automation = find_automation(session, chosen_account_id(), path_id(automation_id))
            sees_contacts = "contact.view" in who.scopes
            found = read_run(session, automation, path_id(run_id), now(), sees_contacts=sees_contacts)
        return page(
            "automation_run.html",
            one=found,
            automation=automation,
            of=path_of_automation(automation.id),
            at=lambda path: link(path, [], automation.account_id),
            may_manage=MANAGE in who.scopes,
            sees_contacts=sees_contacts,
        )


@blp.route("/automations/<automation_id>/runs/<run_id>/cancel")
class Cancel(MethodView):
    """Ending a run."""

    @blp.scope(MANAGE)
    def post(self, automation_id: str, run_id: str) -> Response:
        """Ends the run: its contact is sent nothing more by it."""
        with services().database.write() as transaction:
            automation = find_automation(transaction, chosen_account_id(), path_id(automation_id))
            cancel_run(transaction, automation, path_id(run_id))
            path, account_id = path_of_run(automation.id, path_id(run_id)), automation.account_id
        return goes_to(link(path, [], account_id))
