"""Status figures of an installation over all accounts: queued and unfinished work, and how long it has waited.

Each is one statement, whose cost depends on the unfinished work: those of the send queue read its partial indexes, and
none counts the history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import BigInteger, ColumnElement, Select, and_, cast, func, null, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.automations.run_states import IS_HELD, IS_WAITING
from app.db.models import Account, AutomationRun, Event, QueueEntry, RelayRefusal, Webhook
from app.events.batch_contents import oldest_waiting, waiting_events
from app.recipients.conditions import IS_READY, IS_SENDING, entry_in_state
from app.recipients.states import RecipientState
from app.sends.outcomes.relay_refusals import IS_NOTICED
from app.sends.queue_begin import QueueBegin
from app.settings import Settings

FROM_THE_FIRST = QueueBegin()
LATE = timedelta(seconds=60)


def status(
    session: Session, settings: Settings, moment: datetime, begin: QueueBegin = FROM_THE_FIRST
) -> dict[str, int | float | None]:
    """Numbers of recipients and events per status, and for some the age of the oldest in seconds; None if there is
    none.

    `due` can be sent now and `deferred` later; `in_flight` are claimed, `abandoned` of them under an expired lease;
    `uncertain` may have arrived; those `held` came with a restored backup, as did waiting events of `webhooks_held`;
    those `paused` wait for the end of a pause. `relays_refusing` are transports that refuse everything of an account.
    `events_waiting` have not been accepted by their webhook, and `webhooks_in_flight` have a request in flight.
    `runs_…` are those of automations: `late` ones have been due for a minute, `held` ones fell due in a pause, or came
    with a restored backup. `test_…` are those of them that are of test accounts (docs/testing.md). `begin` is where the
    send queue begins, if it is known.
    """
    shown: dict[str, int | float | None] = {}
    ages = _since(settings)
    for name, statement in {**figures(moment, begin), **_figures_of_tests(moment, begin)}.items():
        count, oldest = session.execute(statement).one()
        shown[name] = count
        if name in ages:
            since = ages[name](oldest) if count else None
            shown[f"{name}_oldest_seconds"] = None if since is None else _seconds(moment - since)
    return shown


def figures(moment: datetime, begin: QueueBegin = FROM_THE_FIRST) -> dict[str, Select[int, Any]]:
    """The statement of each figure: the number, and the time or event from which the age of the oldest is derived."""
    due_time, ready_time, lease_time = QueueEntry.due_time, QueueEntry.ready_time, QueueEntry.lease_time
    leased = and_(IS_SENDING, lease_time >= begin.lease)
    return {
        "due": _entries(and_(IS_READY, ready_time >= begin.ready, due_time <= moment), ready_time),
        # An entry that is due later is ready later.
        "deferred": _entries(and_(IS_READY, ready_time > moment, due_time > moment), ready_time),
        "in_flight": _entries(leased, lease_time),
        "abandoned": _entries(and_(leased, lease_time < moment), lease_time),
        "uncertain": _entries(entry_in_state(RecipientState.UNCERTAIN), due_time),
        "held": _held(),
        "paused": _paused(),
        "relays_refusing": select(func.count(), null()).select_from(RelayRefusal).where(*IS_NOTICED),
        "events_waiting": _events_waiting(),
        "runs_waiting": _runs(and_(IS_WAITING, AutomationRun.due_time > moment)),
        "runs_due": _runs(and_(IS_WAITING, AutomationRun.due_time <= moment)),
        "runs_late": _runs(and_(IS_WAITING, AutomationRun.due_time <= moment - LATE)),
        "runs_held": _runs(IS_HELD),
        "webhooks_in_flight": select(func.count(), null()).select_from(Webhook).where(Webhook.lease_time.is_not(None)),
        "webhooks_held": select(func.count(), null()).select_from(Webhook).where(Webhook.held_to.is_not(None)),
    }


def _figures_of_tests(moment: datetime, begin: QueueBegin) -> dict[str, Select[int, Any]]:
    tests = select(Account.id).where(Account.test_of.is_not(None))
    of_tests = QueueEntry.account_id.in_(tests)
    due = and_(IS_READY, QueueEntry.ready_time >= begin.ready, QueueEntry.due_time <= moment, of_tests)
    sending = and_(IS_SENDING, QueueEntry.lease_time >= begin.lease, of_tests)
    uncertain = and_(entry_in_state(RecipientState.UNCERTAIN), of_tests)
    return {
        "test_due": _entries(due, QueueEntry.ready_time),
        "test_in_flight": _entries(sending, QueueEntry.lease_time),
        "test_uncertain": _entries(uncertain, QueueEntry.due_time),
        "test_events_waiting": _events_waiting(Webhook.account_id.in_(tests)),
    }


def _entries(condition: ColumnElement[bool], order: InstrumentedAttribute[Any]) -> Select[int, Any]:
    """By the index on the time of the order: PostgreSQL considers all indexes equal after it has analyzed the table
    while it was empty, and reads in that order only by one of them."""
    entries = select(QueueEntry.due_time).where(condition).order_by(order).subquery()
    return select(func.count(), func.min(entries.c.due_time)).select_from(entries)


def _held() -> Select[int, Any]:
    """By the index of what is held, in its order."""
    held = select(QueueEntry.recipient_id).where(entry_in_state(RecipientState.HELD)).order_by(QueueEntry.recipient_id)
    return select(func.count(), null()).select_from(held.subquery())


def _paused() -> Select[int, Any]:
    """By the index of what is paused, in its order."""
    columns = QueueEntry.pause_id, QueueEntry.recipient_id
    paused = select(*columns).where(entry_in_state(RecipientState.PAUSED)).order_by(*columns)
    return select(func.count(), null()).select_from(paused.subquery())


def _runs(condition: ColumnElement[bool]) -> Select[int, Any]:
    return select(func.count(), func.min(AutomationRun.due_time)).select_from(AutomationRun).where(condition)


def _events_waiting(*conditions: ColumnElement[bool]) -> Select[int, Any]:
    """The events of each webhook are counted in the order of the index, from its position on."""
    oldest = oldest_waiting(Webhook.id, Webhook.position, 1, Event.payload).scalar_subquery()
    first = oldest_waiting(Webhook.id, Webhook.position, 1).scalar_subquery()
    of_webhooks = select(waiting_events().label("waiting"), first.label("first"), oldest.label("payload"))
    webhooks = of_webhooks.where(*conditions).subquery()
    payload = select(webhooks.c.payload).where(webhooks.c.first.is_not(None)).order_by(webhooks.c.first).limit(1)
    waiting = cast(func.coalesce(func.sum(webhooks.c.waiting), 0), BigInteger)
    return select(waiting, payload.scalar_subquery()).select_from(webhooks)


def _since(settings: Settings) -> Mapping[str, Callable[[Any], datetime | None]]:
    """Figure -> since when the oldest has waited. A claimed entry keeps its due time, and an uncertain one is due at
    the end of its wait."""
    wait = timedelta(seconds=settings.uncertain_wait)
    return {
        "due": lambda due_time: due_time,
        "in_flight": lambda due_time: due_time,
        "uncertain": lambda due_time: due_time - wait,
        "events_waiting": event_time,
        "runs_due": lambda due_time: due_time,
    }


def event_time(payload: str) -> datetime | None:
    """The time of the event (docs/webhooks.md#events)."""
    timestamp = orjson.loads(payload).get("timestamp")
    return datetime.fromisoformat(timestamp) if timestamp else None


def _seconds(age: timedelta) -> float:
    return max(0.0, round(age.total_seconds(), 1))
