"""One run of an automation: where its contact is, why, and when it goes on (docs/console.md#automations)."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.clock import now
from app.console.automation_runs import cancel_run, path_of_run, read_run
from app.console.automations import find_automation, path_of_automation
from app.console.scopes import MANAGE
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page
from app.http.console.searches import link
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp


@blp.route("/automations/<automation_id>/runs/<run_id>")
class OneRun(MethodView):
    """One run."""

    @blp.scope("report.view")
    def get(self, automation_id: str, run_id: str) -> Response:
        """Where it is, and the steps that it has passed."""
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
        """Ends it: its contact is sent nothing more by it."""
        with services().database.write() as transaction:
            automation = find_automation(transaction, chosen_account_id(), path_id(automation_id))
            cancel_run(transaction, automation, path_id(run_id))
            path, account_id = path_of_run(automation.id, path_id(run_id)), automation.account_id
        return goes_to(link(path, [], account_id))
