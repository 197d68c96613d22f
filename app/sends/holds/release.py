"""Releasing and dropping messages that are held, in short transactions.

A message that shows a sign of arrival was sent since the backup was made: releasing it writes that it was, and does not
send it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Row, and_, case, or_, update

from app.audit.record import Act, record_at_once
from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import QueueEntry, Recipient
from app.db.outage import is_unavailable
from app.db.write_turns import WriteTurns
from app.recipients.conditions import CURRENT_ADDRESS, IS_OF_TEST_ACCOUNT
from app.recipients.row import add_steps, step_row
from app.recipients.states import FailReason, RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.holds.held import HeldMessages, count_held, held_messages
from app.sends.outcomes.arrival import acknowledge
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.recovery import signs_of_arrival
from app.sends.outcomes.settle import settle
from app.sends.outcomes.transitions import RetryRules, Transition
from app.services import Services
from app.transports.base import DeliveryResult, Outcome

logger = logging.getLogger(__name__)

CHUNK_SIZE = 500
"""Results of journals that are written together."""
SETTLER = "settling held messages"
"""The worker of an entry while its outcome is written."""
FINAL_OUTCOMES = (Outcome.ACCEPTED, Outcome.REFUSED)
RELEASE_DETAIL = "released by an operator after a restore"
ASSUMED_SENT_REPLY = "an operator says that it was sent before the restore"
DropOutcome = Literal["sent", "failed"]
DROP_OUTCOMES: tuple[DropOutcome, ...] = ("sent", "failed")
COLUMNS = (
    *(Recipient.id, Recipient.account_id, QueueEntry.attempts),
    *(CURRENT_ADDRESS.label("address"), IS_OF_TEST_ACCOUNT.label("is_test")),
)
HeldRows = Sequence[Row[Any]]


@dataclass(slots=True)
class ReleaseCounts:
    """How many messages were released, and how many had arrived instead."""

    released: int = 0
    arrived: int = 0


def release_messages(services: Services, selection: HeldMessages, advance: Callable[[int], None]) -> ReleaseCounts:
    """Puts the held messages that are meant back into the queue, each due when it was; one that may have arrived is due
    now. `advance` is called with the number of each transaction."""
    _record(services, "recipient.released", selection)
    total = ReleaseCounts()

    def work(transaction: Transaction, rows: HeldRows) -> None:
        done = _release_rows(transaction, services, rows)
        total.arrived += done.arrived
        total.released += done.released

    _in_turns(services, selection, work, advance)
    return total


def drop_messages(
    services: Services, selection: HeldMessages, outcome: DropOutcome, advance: Callable[[int], None]
) -> int:
    """Ends the held messages that are meant without sending them: as sent, or as failed. Returns how many."""
    _record(services, "recipient.dropped", selection)
    total = 0

    def work(transaction: Transaction, rows: HeldRows) -> None:
        nonlocal total
        total += _drop_rows(transaction, services, rows, outcome)

    _in_turns(services, selection, work, advance)
    return total


def _record(services: Services, action: str, selection: HeldMessages) -> None:
    with services.database.read() as session:
        held = sum(row.messages for row in count_held(session, selection))
    if held:
        record_at_once(services.database, Act(action, selection.account_id, counts={"recipients": held}))


def release_some(
    transaction: Transaction, services: Services, selection: HeldMessages, ids: Sequence[int]
) -> ReleaseCounts:
    """Releases those of the messages that are held and meant, in this transaction. The ids are at most a chunk."""
    rows = _lock(transaction, selection, after=0, size=len(ids), ids=ids)
    return _release_rows(transaction, services, rows)


def drop_some(
    transaction: Transaction, services: Services, selection: HeldMessages, ids: Sequence[int], outcome: DropOutcome
) -> int:
    """Ends those of the messages that are held and meant without sending them, in this transaction; returns how
    many."""
    rows = _lock(transaction, selection, after=0, size=len(ids), ids=ids)
    return _drop_rows(transaction, services, rows, outcome)


def settle_as_journalled(
    services: Services, results: Sequence[AttemptResult], part: Callable[[], AbstractContextManager[Transaction]]
) -> int:
    """Writes the outcomes that journals have of held messages: they were not in the database when the backup was made.
    What was deferred stays held. `part` begins a part of the transaction that restores them. Returns how many were
    written."""
    in_order = sorted(results, key=lambda result: result.attempt)
    final_results = {
        result.recipient_id: result for result in in_order if result.result and result.result.outcome in FINAL_OUTCOMES
    }

    def settle(ids: Sequence[int]) -> int:
        """What cannot be written is found by halving, and stays held: no line of a journal prevents a restore."""
        try:
            with part() as transaction:
                rows = _lock(transaction, HeldMessages(), after=0, size=len(ids), ids=ids)
                attempted = [row for row in rows if row.attempts <= final_results[row.id].attempt]
                _settle(transaction, services, attempted, {row.id: final_results[row.id].result for row in attempted})
                return len(attempted)
        except Exception as error:
            if is_unavailable(error):
                raise
            if len(ids) == 1:
                extra = {"recipient_id": ids[0]}
                logger.error(
                    "a result in a journal cannot be written: its message stays held", exc_info=error, extra=extra
                )
                return 0
        half = len(ids) // 2
        return settle(ids[:half]) + settle(ids[half:])

    ordered = sorted(final_results)
    return sum(settle(ordered[first : first + CHUNK_SIZE]) for first in range(0, len(ordered), CHUNK_SIZE))


def _in_turns(
    services: Services,
    selection: HeldMessages,
    work: Callable[[Transaction, HeldRows], None],
    advance: Callable[[int], None],
) -> None:
    """Runs the work on all that are meant, chunk by chunk in the order of their ids."""
    turns, last = WriteTurns(services.database), 0
    while not services.stopping.is_set():
        size = turns.size

        def chunk(transaction: Transaction, after: int = last, size: int = size) -> list[int]:
            rows = _lock(transaction, selection, after=after, size=size)
            if rows:
                work(transaction, rows)
            return [row.id for row in rows]

        ids = turns.take(size, chunk)
        advance(len(ids))
        if len(ids) < size:
            return
        last = ids[-1]


def _lock(
    transaction: Transaction, selection: HeldMessages, *, after: int, size: int, ids: Sequence[int] | None = None
) -> HeldRows:
    """The next held messages that are meant, locked: as everywhere, recipients before their entries."""
    statement = held_messages(selection, *COLUMNS).where(QueueEntry.recipient_id > after)
    if ids is not None:
        statement = statement.where(in_json(QueueEntry.recipient_id, ids))
    locked = statement.order_by(QueueEntry.recipient_id).limit(size)
    return transaction.execute(locked.with_for_update(key_share=True, of=[Recipient, QueueEntry])).all()


def _release_rows(transaction: Transaction, services: Services, rows: HeldRows) -> ReleaseCounts:
    signs = signs_of_arrival(transaction, [row.id for row in rows])
    arrived = [row for row in rows if row.id in signs]
    replies = {row.id: f"no answer is known, but it has arrived: {signs[row.id]}" for row in arrived}
    _settle(transaction, services, arrived, {id_: DeliveryResult.accepted(said) for id_, said in replies.items()})
    _release(transaction, [row for row in rows if row.id not in signs])
    return ReleaseCounts(len(rows) - len(arrived), len(arrived))


def _drop_rows(transaction: Transaction, services: Services, rows: HeldRows, outcome: DropOutcome) -> int:
    result = DeliveryResult.accepted(ASSUMED_SENT_REPLY) if outcome == "sent" else None
    _settle(transaction, services, rows, dict.fromkeys((row.id for row in rows), result))
    return len(rows)


def _settle(
    transaction: Transaction, services: Services, rows: HeldRows, results: Mapping[int, DeliveryResult | None]
) -> None:
    """Writes an outcome for each of the locked rows; without a result it was dropped."""
    if not rows:
        return
    moment, attempts = now(), []
    for row in rows:
        result = results[row.id]
        reason = FailReason.DROPPED if result is None else None
        attempts.append(AttemptResult(row.id, row.attempts, row.address, moment, result, reason, is_test=row.is_test))
    transitions = settle(transaction, SETTLER, attempts, RetryRules.of(services.settings))
    _acknowledge(transaction, [transition for transition in transitions if transition.state is RecipientState.SENT])


def _acknowledge(transaction: Transaction, sent: Sequence[Transition]) -> None:
    """Counts what receipts have confirmed while text messages were held that have now ended as sent."""
    signs = signs_of_arrival(transaction, [transition.recipient.id for transition in sent]) if sent else {}
    confirmed = [transition for transition in sent if signs.get(transition.recipient.id) == TimelineStep.ACKNOWLEDGED]
    acknowledge(
        transaction,
        [transition.recipient._replace(mobile=transition.attempt_result.address) for transition in confirmed],
    )


def _release(transaction: Transaction, rows: HeldRows) -> None:
    if not rows:
        return
    moment, entry = now(), QueueEntry
    is_due = or_(entry.held_state == RecipientState.UNCERTAIN.value, entry.due_time <= moment)
    due_time = case((entry.held_state == RecipientState.UNCERTAIN.value, moment), else_=entry.due_time)
    is_scheduled = and_(entry.held_state == RecipientState.SCHEDULED.value, entry.due_time > moment)
    values = {
        "state": case((is_scheduled, RecipientState.SCHEDULED.value), else_=RecipientState.QUEUED.value),
        **{"held_state": None, "due_time": due_time},
        "ready_time": case((is_due, moment), else_=entry.due_time),
    }
    released = update(entry).where(in_json(entry.recipient_id, [row.id for row in rows])).values(values)
    transaction.execute(released, execution_options={"synchronize_session": False})
    steps = [step_row(row.account_id, row.id, TimelineStep.REQUEUED, RELEASE_DETAIL, moment) for row in rows]
    add_steps(transaction, steps)
