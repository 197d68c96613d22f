"""Pausing an account, a list or a domain, and going on (docs/console.md#queues)."""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.console.pauses import PauseForm, add_pause, end_pause
from app.console.queues import PATH
from app.console.scopes import MANAGE
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id
from app.http.console.pages import goes_to
from app.http.console.searches import link
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp
from blueprints.console.queues import queues_page


@blp.route("/queues/pauses")
class Pauses(MethodView):
    """What is paused."""

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Pauses what the form says, of the account; for operators of the one that `account` or the form names."""
        form = PauseForm(**{name: request.form.get(name, "").strip() for name in PauseForm.__slots__})
        try:
            with services().database.write() as transaction:
                add_pause(transaction, chosen_account_id(), form)
        except ServiceError as error:
            if error.code == "not_found":
                raise
            return queues_page(error, form)
        return goes_to(link(PATH))


@blp.route("/queues/pauses/<pause_id>/end")
class EndPause(MethodView):
    """Going on."""

    @blp.scope(MANAGE)
    def post(self, pause_id: str) -> Response:
        """Ends the pause."""
        with services().database.write() as transaction:
            end_pause(transaction, services(), chosen_account_id(), path_id(pause_id))
        return goes_to(link(PATH))
