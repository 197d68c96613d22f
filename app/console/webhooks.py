"""Webhooks of an account, one with its deliveries, and one delivery with its request
(docs/console-contents.md#webhooks)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.audit.values import host_of
from app.clock import now
from app.console.offers import Offer, chosen, newest
from app.console.queries import Pairs, older_query
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Event, List, Webhook, WebhookAttempt, WebhookSecret
from app.db.models.webhooks import UNCHECKED_BAR
from app.errors import ServiceError
from app.events.batch_contents import oldest_waiting
from app.events.outbox import Payload
from app.events.redeliver import payloads_of, replay_since
from app.events.signing import request_body
from app.events.webhooks import list_secrets
from app.ids import id_in
from app.query.cursors import CURSOR, CursorScope, Position
from app.query.times import instant_span
from app.secret_keys import SecretKeys

PATH = "/console/webhooks"
MAX_WEBHOOKS = 200
"""Webhooks of an account that the page shows."""
BEHIND_SECONDS = 60
"""From this age of its oldest event on a webhook counts as behind."""
MAX_SHOWN_EVENTS = 50
"""How many events of a delivery a page shows."""


@dataclass(frozen=True, slots=True)
class WebhookState:
    """A webhook, and the age in seconds of the oldest event that waits for it; None if none does."""

    webhook: Webhook
    waiting_seconds: float | None

    @property
    def host(self) -> str | None:
        """The part of the URL that may be shown to everybody."""
        return host_of(self.webhook.url)

    @property
    def path(self) -> str:
        """The path of the webhook's page."""
        return f"{PATH}/{self.webhook.id}"

    @property
    def is_checked(self) -> bool:
        """Whether a worker is still to look up where its host leads."""
        return self.webhook.barred == UNCHECKED_BAR

    @property
    def state(self) -> str:
        """The state of the webhook, in one word or two."""
        if self.webhook.barred is not None:
            return "being checked" if self.is_checked else "refused"
        if self.webhook.held_to is not None:
            return "held"
        if self.webhook.failures:
            return "failing"
        return "behind" if (self.waiting_seconds or 0) > BEHIND_SECONDS else "accepting"


def webhook_states(session: Session, account_id: int) -> Sequence[WebhookState]:
    """The account's webhooks in the order of their registration: one statement, which reads one event of each."""
    statement = _with_oldest_event().where(Webhook.account_id == account_id)
    return [_state(row) for row in session.execute(statement.order_by(Webhook.id).limit(MAX_WEBHOOKS))]


def webhook_state(session: Session, account_id: int | None, webhook_id: int) -> WebhookState:
    """The account's webhook, or that of any account for None. Raises `not_found`."""
    statement = _with_oldest_event().where(Webhook.id == webhook_id)
    row = session.execute(
        statement if account_id is None else statement.where(Webhook.account_id == account_id)
    ).first()
    if row is None:
        raise ServiceError("not_found", detail=f"There is no webhook {webhook_id}.")
    return _state(row)


def _with_oldest_event() -> Any:
    return select(Webhook, oldest_waiting(Webhook.id, Webhook.position, 1, Event.payload).scalar_subquery())


def _state(row: Any) -> WebhookState:
    webhook, payload = row
    if payload is None:
        return WebhookState(webhook, None)
    since = datetime.fromisoformat(orjson.loads(payload)["timestamp"])
    return WebhookState(webhook, max(0.0, (now() - since).total_seconds()))


@dataclass(frozen=True, slots=True)
class WebhookPage:
    """A webhook with its secrets, the lists that it has chosen, and its newest deliveries."""

    webhook_state: WebhookState
    secrets: Sequence[WebhookSecret]
    lists: Sequence[Offer]
    deliveries: Sequence[WebhookAttempt]
    older: Pairs | None


def read_webhook(
    session: Session, secret_keys: SecretKeys, webhook_state: WebhookState, pairs: Pairs, limit: int
) -> WebhookPage:
    """What the page of a webhook shows. `pairs` may have the cursor of older deliveries, and nothing else; raises
    `invalid_query_syntax`."""
    webhook = webhook_state.webhook
    deliveries, older = deliveries_of(session, secret_keys, webhook, pairs, limit)
    return WebhookPage(
        webhook_state, list_secrets(session, webhook), _chosen_lists(session, webhook), deliveries, older
    )


def deliveries_of(
    session: Session, secret_keys: SecretKeys, webhook: Webhook, pairs: Pairs, limit: int
) -> tuple[Sequence[WebhookAttempt], Pairs | None]:
    """The newest deliveries from the cursor on, and the query of older ones."""
    cursors = CursorScope(secret_keys, webhook.account_id, f"{PATH}/{webhook.id}")
    newest = select(WebhookAttempt).where(WebhookAttempt.webhook_id == webhook.id)
    position = _position(cursors, pairs)
    if position is not None:
        newest = newest.where(WebhookAttempt.id < position.item[0])
    attempts = session.scalars(newest.order_by(WebhookAttempt.id.desc()).limit(limit + 1)).all()
    last = Position((attempts[limit - 1].id,)) if len(attempts) > limit else None
    return attempts[:limit], older_query(cursors, [], last)


def _position(cursors: CursorScope, pairs: Pairs) -> Position | None:
    position = None
    for name, value in pairs:
        position = cursors.read(value, []) if name == CURSOR else None
        if position is None:
            detail = f"{name}: this page does not have this parameter, or the link belongs to another page."
            raise ServiceError("invalid_query_syntax", field=name, detail=detail)
    return position


def _chosen_lists(session: Session, webhook: Webhook) -> Sequence[Offer]:
    ids = webhook.chosen_lists or []
    offers = {offer.id: offer for offer in chosen(session, List, webhook.account_id, ids)}
    return [offers.get(list_id, Offer(list_id, f"{list_id} (deleted)")) for list_id in ids]


def offered_lists(session: Session, account_id: int, chosen_lists: Sequence[Offer] = ()) -> Sequence[Offer]:
    """The lists that the form of a choice offers: those that are chosen, and the newest: one statement."""
    ids = {offer.id for offer in chosen_lists}
    return [*chosen_lists, *(offer for offer in newest(session, List, account_id) if offer.id not in ids)]


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """A delivery with the first of its events, how many are kept, and what proves its body: the claims of its
    signature, and the key ids that have signed it. `body_sha256` is None unless all events are kept."""

    attempt: WebhookAttempt
    events: Sequence[Payload]
    kept_events: int
    claims: Mapping[str, str]
    key_ids: Sequence[str]
    body_sha256: str | None


def find_delivery(session: Session, webhook: Webhook, delivery_id: int) -> WebhookAttempt:
    """The delivery of the webhook. Raises `not_found`."""
    webhook_filter = WebhookAttempt.webhook_id == webhook.id, WebhookAttempt.account_id == webhook.account_id
    attempt = session.scalars(select(WebhookAttempt).where(*webhook_filter, WebhookAttempt.id == delivery_id)).first()
    if attempt is None:
        raise ServiceError("not_found", detail="There is no such delivery; deliveries are kept for RETAIN_LOGS.")
    return attempt


def read_delivery(
    session: Session, issuer: str, webhook: Webhook, attempt: WebhookAttempt, *, whole_urls: bool
) -> DeliveryPage:
    """What the page of a delivery shows (docs/webhooks.md#signature), with the URL of a webhook that fails or with its
    host."""
    payloads = payloads_of(session, attempt)
    secrets = [secret.key_id for secret in list_secrets(session, webhook) if secret.creation_time <= attempt.time]
    claims = {"iss": issuer, "sub": str(webhook.id), "jti": attempt.batch_id}
    digest = hashlib.sha256(request_body(payloads)).hexdigest() if len(payloads) == attempt.events else None
    events = [orjson.loads(text) for text in payloads[:MAX_SHOWN_EVENTS]]
    shown_events = events if whole_urls else [_with_host(event) for event in events]
    return DeliveryPage(attempt, shown_events, len(payloads), claims, secrets, digest)


def _with_host(event: Payload) -> Payload:
    """The event with the host of the webhook that it is about, in place of its URL."""
    return {**event, "url": host_of(event["url"])} if event.get("object") == "webhook" and "url" in event else event


# Trying webhooks out and sending events again in the console, as the command line does
# (docs/console-contents.md#webhooks).


def lists_of_form(
    session: Session, account_id: int, ids: Sequence[str], text: str, kept: Sequence[int] = ()
) -> Sequence[int] | None:
    """The ids of the lists that are chosen, and of those of which each line of the text has the name or the id; None
    for none. One that was chosen before may be deleted: `kept`. Raises `invalid_id`."""
    numbers = [id_ for id_ in map(id_in, ids) if id_]
    present = {offer.id for offer in chosen(session, List, account_id, numbers)} | {*numbers} & {*kept}
    absent = next((id_ for id_ in ids if id_in(id_) not in present), None)
    if absent is not None:
        raise ServiceError("invalid_id", field="list", detail=f"the account has no list {absent!r}")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    return [*present, *(find_by_name_or_id(session, List, account_id, name, "list").id for name in names)] or None


def time_of(text: str) -> datetime:
    """The time of a form, in UTC. Raises `invalid_iso_date_time`."""
    seconds = ":00" if text.count(":") == 1 else ""
    try:
        return instant_span(f"{text}{seconds}", None)[0]
    except ValueError:
        detail = f"{text!r} is not a date or a time such as 2026-01-31T10:00."
        raise ServiceError("invalid_iso_date_time", field="since", detail=detail) from None


def replay_webhook(transaction: Transaction, webhook: Webhook, since: datetime) -> None:
    """Sends it again what it was sent since then, as far as events are kept. Raises `conflict` if nothing was."""
    if not replay_since(transaction, webhook, since):
        raise ServiceError(
            "conflict", field="since", detail="No events that are still kept were sent to it since then."
        )
