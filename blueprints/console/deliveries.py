"""One delivery to a webhook: its request, what proves it, and the answer (docs/console.md#webhooks)."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response
from flask.views import MethodView

from app.console.scopes import MANAGE
from app.console.webhooks import PATH, WebhookState, find_delivery, read_delivery, webhook_state
from app.db.models import WebhookAttempt
from app.errors import ServiceError
from app.events.redeliver import redeliver
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp


@blp.route("/webhooks/<webhook_id>/deliveries/<delivery_id>")
class OneDelivery(MethodView):
    """One delivery."""

    @blp.scope("contact.view")
    def get(self, webhook_id: str, delivery_id: str) -> Response:
        """Its request and the answer, and how its signature is verified."""
        return _delivery(webhook_id, delivery_id)


@blp.route("/webhooks/<webhook_id>/deliveries/<delivery_id>/redeliver")
class Redeliver(MethodView):
    """Sending the events of a delivery again."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str, delivery_id: str) -> Response:
        """Sends them to the same webhook, behind those that wait."""
        try:
            with services().database.write() as transaction:
                state, attempt = _found(transaction, webhook_id, delivery_id)
                path = state.path
                redeliver(transaction, attempt)
        except ServiceError as error:
            if error.code == "not_found":
                raise
            return _delivery(webhook_id, delivery_id, error)
        return goes_to(path)


def _found(session: Any, webhook_id: str, delivery_id: str) -> tuple[WebhookState, WebhookAttempt]:
    state = webhook_state(session, signed_in().account_id, path_id(webhook_id))
    return state, find_delivery(session, state.webhook, path_id(delivery_id))


def _delivery(webhook_id: str, delivery_id: str, error: ServiceError | None = None) -> Response:
    with services().database.read() as session:
        state, attempt = _found(session, webhook_id, delivery_id)
        found = read_delivery(session, services().settings.public_url, state.webhook, attempt)
    return page(
        "delivery.html",
        status_of(error),
        one=state,
        found=found,
        events=[orjson.dumps(event, option=orjson.OPT_INDENT_2).decode() for event in found.events],
        of=f"{PATH}/{state.webhook.id}",
        refused=[] if error is None else [each.developer_message for each in error.errors],
        may_manage=MANAGE in signed_in().scopes,
    )
