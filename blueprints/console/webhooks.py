"""Webhooks: their state, one with its deliveries, and what is changed in place (docs/console.md#webhooks)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE
from app.console.queries import IN_A_FILE, ON_A_PAGE
from app.console.webhooks import (
    PATH,
    WebhookState,
    deliveries_of,
    find_delivery,
    lists_named,
    read_delivery,
    read_webhook,
    replay_webhook,
    time_of,
    webhook_state,
    webhook_states,
)
from app.db.database import Transaction
from app.db.models import Webhook, WebhookAttempt
from app.db.models.webhooks import UNCHECKED
from app.errors import ServiceError
from app.events.guarded_connection import has_name
from app.events.outbox import NAMES
from app.events.redeliver import redeliver, send_test
from app.events.webhooks import (
    check_again,
    choose_events,
    create_webhook,
    delete_webhook,
    new_key_id,
    new_secret,
    remove_secret,
    rotate_secret,
    well_formed_url,
)
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import account_of_request, choose_account, csv_file, link, named_account_id
from app.http.context import services
from app.http.paths import path_id
from app.http.responses import query_pairs
from app.network_checks.ask import RENEWED, ask
from blueprints.console.blueprint import blp

FILE_COLUMNS = ("id", "host", "state", "failures", "failing_since", "waiting_seconds", "dropped_events")
DELIVERY_COLUMNS = ("id", "time", "batch_id", "events", "status", "outcome", "milliseconds", "detail")


@blp.route("/webhooks")
class Webhooks(MethodView):
    """The webhooks of an account."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """The webhooks of the account, with their states."""
        return _list()

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Registers the URL of the form, and shows its secret, only this once. A worker looks up where its host
        leads."""
        form = {"url": request.form.get("url", "").strip(), "lists": request.form.get("lists", "")}
        events, settings, secret = request.form.getlist("event"), services().settings, new_secret()
        try:
            url = well_formed_url(settings, form["url"])
            barred = UNCHECKED if has_name(url) and not settings.webhook_allow_private else None
            with services().database.write() as transaction:
                account = account_of_request(transaction)
                signers = [(new_key_id([]), secret)]
                made = create_webhook(transaction, settings, account.id, url, signers, barred=barred)
                lists = lists_named(transaction, account.id, form["lists"])
                choose_events(transaction, made, events or None, lists)
                if barred:
                    ask(transaction, services(), "webhook", account.id, made.id)
        except ServiceError as error:
            return _list(error, form={**form, "events": events})
        return _with_secret(made.id, new_key_id([]), secret)


@blp.route("/webhooks.csv")
class WebhooksFile(MethodView):
    """The webhooks of the page as a file."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """A row for each webhook."""
        with services().database.read() as session:
            shown = webhook_states(session, account_of_request(session).id)
        rows = ([getattr(one, name, getattr(one.webhook, name, None)) for name in FILE_COLUMNS] for one in shown)
        return csv_file("webhooks.csv", FILE_COLUMNS, rows)


@blp.route("/webhooks/<webhook_id>")
class OneWebhook(MethodView):
    """One webhook."""

    @blp.scope("contact.view")
    def get(self, webhook_id: str) -> Response:
        """The choice of the webhook, its secrets by their ids, and its deliveries."""
        return _one(webhook_id)


@blp.route("/webhooks/<webhook_id>/deliveries.csv")
class DeliveriesFile(MethodView):
    """The deliveries to a webhook as a file."""

    @blp.scope("contact.view")
    def get(self, webhook_id: str) -> Response:
        """The newest ones."""
        with services().database.read() as session:
            webhook = _webhook(session, webhook_id)
            found = deliveries_of(session, services().settings.secret_keys, webhook, [], IN_A_FILE)[0]
        rows = ([getattr(one, name) for name in DELIVERY_COLUMNS] for one in found)
        return csv_file("deliveries.csv", DELIVERY_COLUMNS, rows)


@blp.route("/webhooks/<webhook_id>/test")
class Test(MethodView):
    """Trying a webhook out."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str) -> Response:
        """Sends it a test event."""
        return _changed(webhook_id, send_test)


@blp.route("/webhooks/<webhook_id>/check")
class Check(MethodView):
    """Checking the host of a webhook again."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str) -> Response:
        """Has a worker look up where the host of one that was refused leads by now."""

        def check(transaction: Transaction, webhook: Webhook) -> None:
            check_again(webhook)
            ask(transaction, services(), "webhook", webhook.account_id, webhook.id)

        return _changed(webhook_id, check)


@blp.route("/webhooks/<webhook_id>/replay")
class Replay(MethodView):
    """Sending events again."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str) -> Response:
        """Sends again what the webhook was sent since the time of the form."""
        since = request.form.get("since", "").strip()
        return _changed(webhook_id, lambda transaction, one: replay_webhook(transaction, one, time_of(since)))


@blp.route("/webhooks/<webhook_id>/choice")
class Choice(MethodView):
    """What a webhook receives."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str) -> Response:
        """Sets the events and lists of the form, from now on; all, where it names none."""
        events, lists = request.form.getlist("event"), request.form.get("lists", "")

        def choose(transaction: Transaction, webhook: Webhook) -> None:
            named = lists_named(transaction, webhook.account_id, lists)
            choose_events(transaction, webhook, events or None, named)

        return _changed(webhook_id, choose)


@blp.route("/webhooks/<webhook_id>/rotate")
class Rotate(MethodView):
    """A further secret."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str) -> Response:
        """Makes a secret, and shows it, only this once."""
        made: list[str] = []

        def rotate(transaction: Transaction, webhook: Webhook) -> None:
            made[:] = rotate_secret(transaction, services().settings, webhook)

        refused = _changed(webhook_id, rotate)
        return _with_secret(path_id(webhook_id), *made) if made else refused


@blp.route("/webhooks/<webhook_id>/remove-secret")
class RemoveSecret(MethodView):
    """Removing a secret."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str) -> Response:
        """Removes the one that the form names by its key id."""
        key_id = request.form.get("key_id", "")
        return _changed(webhook_id, lambda transaction, one: remove_secret(transaction, one, key_id))


@blp.route("/webhooks/<webhook_id>/delete")
class Delete(MethodView):
    """Deleting a webhook."""

    @blp.scope(MANAGE)
    def post(self, webhook_id: str) -> Response:
        """Deletes the webhook, with the events that wait for it."""
        with services().database.write() as transaction:
            webhook = _webhook(transaction, webhook_id)
            account_id = webhook.account_id
            delete_webhook(transaction, webhook)
        return goes_to(link(PATH, [], account_id))


def _may_manage() -> bool:
    return MANAGE in signed_in().scopes


def _webhook(session: Any, webhook_id: str) -> Webhook:
    return webhook_state(session, signed_in().account_id, path_id(webhook_id)).webhook


def _list(error: ServiceError | None = None, form: dict[str, Any] | None = None) -> Response:
    if error is not None and error.code == "not_found":
        raise error
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, "Webhooks")
        account = account_of_request(session)
        shown = webhook_states(session, account.id)
    known = {"may_manage": _may_manage(), "names": NAMES, "form": form or {}, "refused": texts_of(error)}
    links = {"action": link(PATH), "csv": link(f"{PATH}.csv")}
    return page("webhooks.html", status_of(error), account=account, items=shown, **known, **links)


def _one(webhook_id: str, error: ServiceError | None = None) -> Response:
    pairs = [one for one in query_pairs() if one[0] != "account"]
    with services().database.read() as session:
        state = webhook_state(session, signed_in().account_id, path_id(webhook_id))
        found = read_webhook(session, services().settings.secret_keys, state, pairs, ON_A_PAGE)
    links = {
        "older": link(state.path, found.older) if found.older else None,
        "newest": link(state.path) if pairs else None,
        "csv": link(f"{state.path}/deliveries.csv"),
    }
    known = {"may_manage": _may_manage(), "names": NAMES, "refused": texts_of(error)}
    return page("webhook.html", status_of(error), found=found, one=state, renewed=RENEWED, **known, **links)


def _changed(webhook_id: str, change: Callable[[Transaction, Webhook], Any]) -> Response:
    """The page of the webhook again, which tells of a refusal."""
    try:
        with services().database.write() as transaction:
            change(transaction, _webhook(transaction, webhook_id))
    except ServiceError as error:
        if error.code == "not_found":
            raise
        return _one(webhook_id, error)
    return goes_to(f"{PATH}/{path_id(webhook_id)}")


def _with_secret(webhook_id: int, key_id: str, secret: str) -> Response:
    return page("webhook_secret.html", of=f"{PATH}/{webhook_id}", key_id=key_id, secret=secret)


# One delivery to a webhook: its request, what proves it, and the answer (docs/console.md#webhooks).


@blp.route("/webhooks/<webhook_id>/deliveries/<delivery_id>")
class OneDelivery(MethodView):
    """One delivery."""

    @blp.scope("contact.view")
    def get(self, webhook_id: str, delivery_id: str) -> Response:
        """The request of the delivery and the answer, and how its signature is verified."""
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
