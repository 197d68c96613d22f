"""The webhook deliveries that told of the steps of a message (docs/console-messages.md#messages).

Events have no index by message, so that of a step is looked for where it must be: behind what a webhook had got before
the step. At most five statements, and a bounded number of rows, whatever waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

from sqlalchemy import Select, Subquery, func, literal, select, union_all
from sqlalchemy.orm import Session

from app.audit.values import host_of
from app.clock import timestamp
from app.console.webhooks import PATH
from app.db.models import Event, Recipient, RecipientStep, Webhook, WebhookAttempt
from app.events.batch_contents import oldest_waiting
from app.events.outbox import Choice
from app.ids import shown_id
from app.recipients.timeline import TimelineStep

MAX_WEBHOOKS = 5
MAX_STEPS = 6
"""The latest steps that make events."""
MAX_EVENTS = 1000
"""Events of a webhook among which that of a step is looked for: those of one request."""
MAX_ATTEMPTS = 100
"""Attempts after a step among which those with its event are looked for."""
MAX_DISORDER = 100
"""Attempts are logged when they end, not in the order in which they began: the id of the first one after a moment is
the lowest of so many."""
EVENT_BY_STEP = {
    TimelineStep.SENT: "sent",
    TimelineStep.BOUNCED: "bounced",
    TimelineStep.FAILED: "failed",
    TimelineStep.OPENED: "opened",
    TimelineStep.OPENED_BY_MACHINE: "opened",
    TimelineStep.CLICKED: "clicked",
    TimelineStep.CLICKED_BY_MACHINE: "clicked",
    TimelineStep.ACKNOWLEDGED: "acknowledged",
    TimelineStep.RECEIVED: "received",
}
"""Step -> the event that it makes."""


@dataclass(frozen=True, slots=True)
class StepDelivery:
    """The latest delivery of the event of a step to a webhook, or that it still waits: then `time` is that of the next
    try, and `path` that of the webhook."""

    host: str | None
    state: str
    time: datetime
    path: str


@dataclass(slots=True)
class _Pair:
    """A step and a webhook that hears of it, with what is found one after the other."""

    step: RecipientStep
    webhook: Webhook
    first_attempt: int | None = None
    after_event: int | None = None
    event: int | None = None


def step_deliveries(
    session: Session, recipient: Recipient, steps: Sequence[RecipientStep]
) -> Mapping[int, Sequence[StepDelivery]]:
    """Id of a step -> the deliveries of its event, by webhook, as far as events and deliveries are kept."""
    pairs = _pairs(session, recipient, steps)
    _find_attempts(session, pairs)
    _find_events(session, pairs, recipient.uuid)
    deliveries: dict[int, list[StepDelivery]] = {}
    for pair, attempt in _latest_attempts(session, [pair for pair in pairs if pair.event is not None]):
        if attempt is not None or (pair.event or 0) > pair.webhook.position:
            deliveries.setdefault(pair.step.id, []).append(_delivery(pair.webhook, attempt))
    return deliveries


def _pairs(session: Session, recipient: Recipient, steps: Sequence[RecipientStep]) -> list[_Pair]:
    telling = [step for step in steps if step.step in EVENT_BY_STEP][-MAX_STEPS:]
    if not telling:
        return []
    statement = select(Webhook).where(Webhook.account_id == recipient.account_id)
    webhooks = session.scalars(statement.order_by(Webhook.id).limit(MAX_WEBHOOKS)).all()
    return [_Pair(step, webhook) for step, webhook in product(telling, webhooks) if _hears(webhook, step, recipient)]


def _hears(webhook: Webhook, step: RecipientStep, recipient: Recipient) -> bool:
    event = EVENT_BY_STEP[TimelineStep(step.step)]
    kind = "sms" if event == "received" else "recipient"
    named = {"object": kind, "event": event, "list_id": shown_id(recipient.list_id)}
    return Choice(webhook.chosen_events, webhook.chosen_lists).accepts(named)


def _find_attempts(session: Session, pairs: Sequence[_Pair]) -> None:
    """The first attempt of each webhook after each step: its event comes behind what was done by then. Without one it
    comes behind what is done now."""
    for pair in pairs:
        pair.after_event = pair.webhook.position
    moments = list(dict.fromkeys(pair.step.time for pair in pairs))
    lowest = {moments[number]: first for number, first in _rows(session, [_lowest_id(moment) for moment in moments])}
    tried = [pair for pair in pairs if lowest[pair.step.time] is not None]
    for number, attempt, after_event in _rows(
        session, [_first_attempt(pair, lowest[pair.step.time]) for pair in tried]
    ):
        tried[number].first_attempt, tried[number].after_event = attempt, after_event


def _lowest_id(moment: datetime) -> Select[Any]:
    """The lowest id among the attempts of all webhooks that began first after the moment."""
    soon = select(WebhookAttempt.id).where(WebhookAttempt.time >= moment)
    return select(func.min(soon.order_by(WebhookAttempt.time).limit(MAX_DISORDER).subquery().c.id))


def _first_attempt(pair: _Pair, lowest: int) -> Select[Any]:
    columns: tuple[Any, ...] = (WebhookAttempt.id, WebhookAttempt.after_event)
    attempts = select(*columns).where(
        WebhookAttempt.webhook_id == pair.webhook.id,
        WebhookAttempt.time >= pair.step.time,
        WebhookAttempt.id >= lowest,
    )
    return attempts.order_by(WebhookAttempt.id).limit(1)


def _find_events(session: Session, pairs: Sequence[_Pair], uuid: str) -> None:
    searched = [pair for pair in pairs if pair.after_event is not None]
    for number, event in _rows(session, [_event(pair, uuid) for pair in searched]):
        searched[number].event = event


def _event(pair: _Pair, uuid: str) -> Select[Any]:
    columns = Event.id, Event.payload
    behind = oldest_waiting(pair.webhook.id, pair.after_event, MAX_EVENTS, *columns).subquery()
    name = EVENT_BY_STEP[TimelineStep(pair.step.step)]
    texts = f'"uuid":"{uuid}"', f'"event":"{name}"', f'"timestamp":"{timestamp(pair.step.time)}"'
    named = select(behind.c.id).where(*(behind.c.payload.contains(text, autoescape=True) for text in texts))
    return named.order_by(behind.c.id).limit(1)


def _latest_attempts(session: Session, pairs: Sequence[_Pair]) -> list[tuple[_Pair, Any]]:
    """The latest attempt with the event of each pair; None if there was none yet."""
    tried = [pair for pair in pairs if pair.first_attempt is not None]
    attempts = {id(tried[row.number]): row for row in _rows(session, [_attempt(pair) for pair in tried])}
    return [(pair, attempts.get(id(pair))) for pair in pairs]


def _attempt(pair: _Pair) -> Select[Any]:
    after = select(WebhookAttempt).where(
        WebhookAttempt.webhook_id == pair.webhook.id, WebhookAttempt.id >= pair.first_attempt
    )
    following = after.order_by(WebhookAttempt.id).limit(MAX_ATTEMPTS).subquery()
    with_event = select(following.c.id, following.c.outcome, following.c.time).where(
        following.c.after_event < pair.event, following.c.last_event >= pair.event
    )
    return with_event.order_by(following.c.id.desc()).limit(1)


def _rows(session: Session, selects: Sequence[Select[Any]]) -> Sequence[Any]:
    """The rows of all, in one statement, each behind the number of its select."""
    if not selects:
        return []
    parts: list[Subquery] = [statement.subquery() for statement in selects]
    return session.execute(
        union_all(*(select(literal(number).label("number"), part) for number, part in enumerate(parts)))
    ).all()


def _delivery(webhook: Webhook, attempt: Any) -> StepDelivery:
    host, path = host_of(webhook.url), f"{PATH}/{webhook.id}"
    if attempt is None:
        state = "held" if webhook.held_to is not None else "waiting"
        return StepDelivery(host, state, webhook.due_time, path)
    return StepDelivery(host, attempt.outcome, attempt.time, f"{path}/deliveries/{attempt.id}")
