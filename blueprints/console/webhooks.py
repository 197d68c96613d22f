"""Webhooks: their state, one with its deliveries, and what is changed in place (docs/console-contents.md#webhooks)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from flask import Response, request

from app.accounts.auth import MANAGE
from app.audit.values import host_of
from app.clock import timestamp
from app.console.losses import loss_of_webhook
from app.console.offers import MAX_OFFERED, Offer
from app.console.queries import FILE_ROWS, PAGE_ROWS
from app.console.webhooks import (
    PATH,
    WebhookState,
    deliveries_of,
    find_delivery,
    lists_of_form,
    offered_lists,
    read_delivery,
    read_webhook,
    replay_webhook,
    time_of,
    webhook_state,
    webhook_states,
)
from app.db.database import ReadSession, Transaction
from app.db.models import Webhook, WebhookAttempt
from app.errors import ServiceError
from app.events.outbox import EVENT_NAMES
from app.events.redeliver import redeliver, send_test
from app.events.webhooks import (
    check_again,
    choose_events,
    delete_webhook,
    find_secret,
    new_key_id,
    new_secret,
    remove_secret,
    rotate_secret,
    well_formed_url,
)
from app.http.console.guard import may, signed_in
from app.http.console.notices import Done
from app.http.console.pages import form_texts, link, page, page_after
from app.http.console.questions import Question
from app.http.console.searches import account_of_request, choose_account, csv_file, named_account_id
from app.http.context import services
from app.http.paths import path_id
from app.http.responses import query_pairs
from app.network_checks.ask import RENEWAL_SECONDS, ask
from app.network_checks.webhooks import register_webhook
from blueprints.console.blueprint import blp

FILE_COLUMNS = ("id", "host", "state", "failures", "failing_since", "waiting_seconds", "dropped_events")
DELIVERY_COLUMNS = ("id", "time", "batch_id", "events", "status", "outcome", "milliseconds", "detail")


@blp.shows("/webhooks", "report.view")
def webhooks(error: ServiceError | None = None, **_parts: str) -> Response:
    """The webhooks of the account, with their states."""
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, "Webhooks")
        account = account_of_request(session)
        states = webhook_states(session, account.id)
        choice = _choice(session, account.id)
    template_values = {"may_manage": may(MANAGE), "form": request.form, **choice}
    links = {"action": link(PATH), "csv": link(f"{PATH}.csv")}
    return page_after(error, "webhooks.html", account=account, items=states, **template_values, **links)


@blp.changes("/webhooks", MANAGE, refused=webhooks)
def create(transaction: Transaction) -> Response:
    """Registers the URL of the form, and shows its secret, only this once. A worker looks up where its host leads."""
    events, settings, signer = request.form.getlist("event"), services().settings, (new_key_id([]), new_secret())
    url = well_formed_url(settings, form_texts("url")["url"])
    account = account_of_request(transaction)
    made = register_webhook(transaction, services(), account.id, url, [signer])
    choose_events(transaction, made, events or None, _chosen_lists(transaction, account.id))
    return _with_secret(made, *signer)


@blp.shows("/webhooks.csv", "report.view")
def webhooks_file() -> Response:
    """The webhooks of the page as a file, a row for each."""
    with services().database.read() as session:
        states = webhook_states(session, account_of_request(session).id)
    rows = ([getattr(state, name, getattr(state.webhook, name, None)) for name in FILE_COLUMNS] for state in states)
    return csv_file("webhooks.csv", FILE_COLUMNS, rows)


@blp.shows("/webhooks/<webhook_id>", "contact.view")
def webhook(error: ServiceError | None = None, *, webhook_id: str) -> Response:
    """The choice of a webhook, its secrets by their ids, and its deliveries."""
    pairs = [pair for pair in query_pairs() if pair[0] != "account"]
    with services().database.read() as session:
        state = webhook_state(session, signed_in().account_id, path_id(webhook_id))
        webhook_page = read_webhook(session, services().settings.secret_keys, state, pairs, PAGE_ROWS)
        choice = _choice(session, state.webhook.account_id, webhook_page.lists)
    links = {
        "older": link(state.path, webhook_page.older) if webhook_page.older else None,
        "newest": link(state.path) if pairs else None,
        "csv": link(f"{state.path}/deliveries.csv"),
    }
    template_values = {"may_manage": may(MANAGE), "renewed": RENEWAL_SECONDS, **choice}
    return page_after(error, "webhook.html", webhook_page=webhook_page, webhook_state=state, **template_values, **links)


@blp.shows("/webhooks/<webhook_id>/deliveries.csv", "contact.view")
def deliveries_file(webhook_id: str) -> Response:
    """The newest deliveries to a webhook as a file."""
    with services().database.read() as session:
        webhook = _webhook(session, webhook_id)
        attempts = deliveries_of(session, services().settings.secret_keys, webhook, [], FILE_ROWS)[0]
    rows = ([getattr(delivery, name) for name in DELIVERY_COLUMNS] for delivery in attempts)
    return csv_file("deliveries.csv", DELIVERY_COLUMNS, rows)


@blp.changes("/webhooks/<webhook_id>/test", MANAGE, refused=webhook)
def test(transaction: Transaction, webhook_id: str) -> Done:
    """Sends a webhook a test event."""
    send_test(transaction, _webhook(transaction, webhook_id))
    return Done(_path(webhook_id), "A test event was queued.")


@blp.changes("/webhooks/<webhook_id>/check", MANAGE, refused=webhook)
def check(transaction: Transaction, webhook_id: str) -> Done:
    """Has a worker look up where the host of a webhook that was refused leads by now."""
    webhook = _webhook(transaction, webhook_id)
    check_again(webhook)
    ask(transaction, services(), "webhook", webhook.account_id, webhook.id)
    return Done(_path(webhook_id), "The check has begun.")


@blp.changes("/webhooks/<webhook_id>/replay", MANAGE, refused=webhook)
def replay(transaction: Transaction, webhook_id: str) -> Done:
    """Sends again what a webhook was sent since the time of the form."""
    replay_webhook(transaction, _webhook(transaction, webhook_id), time_of(form_texts("since")["since"]))
    return Done(_path(webhook_id), "The events since then were queued again.")


@blp.changes("/webhooks/<webhook_id>/choice", MANAGE, refused=webhook)
def choose(transaction: Transaction, webhook_id: str) -> Done:
    """Sets what a webhook receives to the events and lists of the form, from now on; all, where it names none."""
    webhook = _webhook(transaction, webhook_id)
    lists = _chosen_lists(transaction, webhook.account_id, webhook.chosen_lists or ())
    choose_events(transaction, webhook, request.form.getlist("event") or None, lists)
    return Done(_path(webhook_id), "The webhook was saved.")


@blp.changes("/webhooks/<webhook_id>/rotate", MANAGE, refused=webhook)
def rotate(transaction: Transaction, webhook_id: str) -> Response:
    """Makes a further secret, and shows it, only this once."""
    webhook = _webhook(transaction, webhook_id)
    return _with_secret(webhook, *rotate_secret(transaction, services().settings, webhook))


def _before_removing(session: ReadSession, webhook_id: str) -> Question:
    secret = find_secret(session, _webhook(session, webhook_id), request.form.get("key_id", ""))
    key_id = secret.key_id
    facts = [
        f"It has signed requests since {timestamp(secret.creation_time)}.",
        "Requests are no longer signed with it. A receiver that knows no other secret refuses them.",
    ]
    return Question(f"Remove the secret {key_id}?", facts, "Remove secret", _path(webhook_id))


@blp.changes("/webhooks/<webhook_id>/remove-secret", MANAGE, refused=webhook, asks=_before_removing)
def remove(transaction: Transaction, webhook_id: str) -> Done:
    """Removes the secret that the form names by its key id."""
    remove_secret(transaction, _webhook(transaction, webhook_id), request.form.get("key_id", ""))
    return Done(_path(webhook_id), "The secret was removed.")


def _before_deleting(session: ReadSession, webhook_id: str) -> Question:
    webhook = _webhook(session, webhook_id)
    facts = [webhook.url, *loss_of_webhook(session, webhook), "Its waiting events are not sent."]
    return Question(f"Delete the webhook at {host_of(webhook.url)}?", facts, "Delete webhook", _path(webhook_id))


@blp.changes("/webhooks/<webhook_id>/delete", MANAGE, asks=_before_deleting)
def delete(transaction: Transaction, webhook_id: str) -> Done:
    """Deletes a webhook, with the events that wait for it."""
    webhook = _webhook(transaction, webhook_id)
    account_id = webhook.account_id
    delete_webhook(transaction, webhook)
    return Done(link(PATH, [], account_id), "The webhook was deleted.")


def _webhook(session: ReadSession | Transaction, webhook_id: str) -> Webhook:
    return webhook_state(session, signed_in().account_id, path_id(webhook_id)).webhook


def _path(webhook_id: str) -> str:
    return f"{PATH}/{path_id(webhook_id)}"


def _choice(session: ReadSession, account_id: int, chosen_lists: Sequence[Offer] = ()) -> Mapping[str, Any]:
    """What the form of a choice offers."""
    lists = offered_lists(session, account_id, chosen_lists) if may(MANAGE) else ()
    return {"event_names": EVENT_NAMES, "lists": lists, "most_offered": MAX_OFFERED}


def _chosen_lists(transaction: Transaction, account_id: int, kept: Sequence[int] = ()) -> Sequence[int] | None:
    return lists_of_form(transaction, account_id, request.form.getlist("list_id"), request.form.get("lists", ""), kept)


def _with_secret(webhook: Webhook, key_id: str, secret: str) -> Response:
    return page("webhook_secret.html", of=f"{PATH}/{webhook.id}", key_id=key_id, secret=secret)


# One delivery to a webhook: its request, what proves it, and the answer (docs/console-contents.md#webhooks).


@blp.shows("/webhooks/<webhook_id>/deliveries/<delivery_id>", "contact.view")
def delivery(error: ServiceError | None = None, *, webhook_id: str, delivery_id: str) -> Response:
    """The request of a delivery and the answer, and how its signature is verified."""
    with services().database.read() as session:
        state, attempt = _delivery(session, webhook_id, delivery_id)
        issuer = services().settings.public_url
        delivery_page = read_delivery(session, issuer, state.webhook, attempt, whole_urls=may(MANAGE))
    return page_after(
        error,
        "delivery.html",
        webhook_state=state,
        delivery_page=delivery_page,
        events=[orjson.dumps(event, option=orjson.OPT_INDENT_2).decode() for event in delivery_page.events],
        of=state.path,
        may_manage=may(MANAGE),
    )


@blp.changes("/webhooks/<webhook_id>/deliveries/<delivery_id>/redeliver", MANAGE, refused=delivery)
def send_again(transaction: Transaction, webhook_id: str, delivery_id: str) -> Done:
    """Sends the events of a delivery to the same webhook again, behind those that wait."""
    state, attempt = _delivery(transaction, webhook_id, delivery_id)
    redeliver(transaction, attempt)
    return Done(state.path, "The events were queued again.")


def _delivery(
    session: ReadSession | Transaction, webhook_id: str, delivery_id: str
) -> tuple[WebhookState, WebhookAttempt]:
    state = webhook_state(session, signed_in().account_id, path_id(webhook_id))
    return state, find_delivery(session, state.webhook, path_id(delivery_id))
