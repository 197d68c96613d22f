"""Writing the outcomes of many recipients: one transaction, a fixed number of statements, whatever their number."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import Update, case, func, select, update

from app.automations.definition import Did
from app.automations.run_states import end_waits
from app.clock import now, this_second
from app.contacts.blocked import ChangedContacts
from app.contacts.events import contact_events
from app.db.bulk import BulkUpdate, RowValues
from app.db.counters import count_in_group, hour_of
from app.db.database import Database, Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import QueueEntry, Recipient, table_of
from app.db.outage import is_blocked, is_unavailable
from app.events.outbox import record_many
from app.infrastructure import logs
from app.infrastructure.metrics import DEFERRALS, OUTCOMES, TRANSPORT_OUTCOMES, account_class
from app.recipients.redaction import without_address
from app.recipients.row import RecipientRow, add_steps, as_recipient, delete_queue_entries, select_recipients
from app.recipients.states import UNSETTLED_STATES, RecipientState
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT_TRANSPORT
from app.sends.outcomes.attempt_result import AttemptResult, internal_fault
from app.sends.outcomes.bounce_blocking import apply_to_addresses
from app.sends.outcomes.domain_deferrals import update_backoffs
from app.sends.outcomes.relay_refusals import HAS_REFUSAL, update_refusals
from app.sends.outcomes.transitions import RetryRules, Transition, decide_transition

logger = logging.getLogger(__name__)


def settle_or_requeue(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    """Deletes the queue entries of settled recipients and updates the others. This takes at most two statements, nearly
    always one, because nearly always all are settled. The caller holds the locks."""
    waiting = [transition for transition in transitions if transition.state in UNSETTLED_STATES]
    delete_queue_entries(
        transaction, [transition.recipient.id for transition in transitions if transition.state not in UNSETTLED_STATES]
    )
    moment = now()
    _UPDATE_ENTRIES.run(transaction, [transition.entry_columns(moment) for transition in waiting])


def rendered_before(recipient_id: Any) -> Any:
    """The bytes that were rendered for the recipient at an earlier attempt."""
    return (
        select(QueueEntry.rendered_bytes)
        .where(QueueEntry.recipient_id == recipient_id)
        .correlate(table_of(Recipient))
        .scalar_subquery()
    )


def _update_entry_statement(row: RowValues) -> Update:
    columns = table_of(QueueEntry).c
    values: dict[str, Any] = {
        "state": row["state"],
        "due_time": row["due_time"],
        "ready_time": row["ready_time"],
        "rendered_bytes": func.coalesce(row["rendered_bytes"], columns.rendered_bytes),
        "worker": None,
        "lease_time": None,
    }
    return update(table_of(QueueEntry)).where(columns.recipient_id == row["row"]).values(values)


_UPDATE_ENTRIES = BulkUpdate(
    {
        "row": QueueEntry.recipient_id.type,
        **{name: table_of(QueueEntry).c[name].type for name in ("state", "due_time", "ready_time", "rendered_bytes")},
    },
    _update_entry_statement,
)


WRITTEN_COLUMNS = (
    "state",
    "reason",
    "attempts",
    "sent_time",
    "gateway_id",
    "segments",
    "rendered_bytes",
    "email",
    "mobile",
)


def write_outcomes(
    transaction: Transaction, worker: str, results: Sequence[AttemptResult], rules: RetryRules
) -> list[Transition]:
    """Writes the attempt results of rows that are still leased to `worker`, and returns their transitions."""
    rows, suspects = _locked_rows(transaction, worker, [result.recipient_id for result in results])
    latest = {(result.recipient_id, result.attempt): result for result in results}
    attempts = [
        (rows[recipient_id], result)
        for (recipient_id, attempt), result in latest.items()
        if recipient_id in rows and rows[recipient_id].attempts == attempt
    ]
    refusing = update_refusals(transaction, attempts, suspects, rules)
    transitions = [decide_transition(row, result, rules, relay_refuses=row.id in refusing) for row, result in attempts]
    if transitions:
        write_transitions(transaction, transitions)
    return transitions


def write_transitions(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    """Writes what changes in the recipients, and all that follows from it. The caller holds the locks of the recipients
    and of their entries."""
    _update_recipients(transaction, transitions)
    settle_or_requeue(transaction, transitions)
    changed = apply_to_addresses(transaction, transitions)
    update_backoffs(transaction, transitions)
    _record_events(transaction, transitions, changed)
    add_steps(transaction, [transition.step_row() for transition in transitions])
    end_waits(transaction, _happened(transitions))
    _count(transaction, transitions)


def _locked_rows(transaction: Transaction, worker: str, ids: list[int]) -> tuple[dict[int, RecipientRow], set[int]]:
    """The recipients that are still the worker's, locked until the end of the transaction: each before its entry, as
    everywhere, so that nobody waits for both at once; and which of them have `HAS_REFUSAL`."""
    if not ids:
        return {}, set()
    statement = (
        select_recipients(HAS_REFUSAL, state=QueueEntry.state, attempts=QueueEntry.attempts)
        .join(QueueEntry, QueueEntry.recipient_id == Recipient.id)
        .where(
            in_json(QueueEntry.recipient_id, ids),
            between_ids(Recipient.id, ids),
            QueueEntry.state == RecipientState.SENDING,
            QueueEntry.worker == worker,
        )
        .order_by(Recipient.id)
        .with_for_update(key_share=True, of=[Recipient, QueueEntry])
    )
    rows = transaction.execute(statement).all()
    return {row.id: as_recipient(row) for row in rows}, {row.id for row in rows if row[-1]}


def _update_recipients(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    _UPDATE_RECIPIENTS.run(
        transaction, [columns for transition in transitions if (columns := transition.recipient_columns())]
    )


def _update_recipient_statement(row: RowValues) -> Update:
    """The address of a contact is stored once a message was or may have been sent, or was given up, so that reports
    show where it was sent."""
    columns = table_of(Recipient).c
    values: dict[str, Any] = {
        "state": row["state"],
        "reason": row["reason"],
        "attempts": row["attempts"],
        "email": func.coalesce(columns.email, row["email"]),
        "mobile": func.coalesce(columns.mobile, row["mobile"]),
        "open_type": case((columns.type == "sms", "sms"), else_=columns.open_type),
        "rendered_bytes": func.coalesce(row["rendered_bytes"], rendered_before(columns.id), columns.rendered_bytes),
    }
    for name in ("sent_time", "gateway_id", "segments"):
        values[name] = func.coalesce(row[name], columns[name])
    return update(table_of(Recipient)).where(columns.id == row["row"]).values(values)


_UPDATE_RECIPIENTS = BulkUpdate(
    {"row": Recipient.id.type, **{name: table_of(Recipient).c[name].type for name in WRITTEN_COLUMNS}},
    _update_recipient_statement,
    id_column=table_of(Recipient).c.id,
)


def _count(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    """Counts in each group and hour once: most recipients of a batch share them."""
    counts = Counter(
        (
            transition.recipient.account_id,
            transition.recipient.group_id,
            hour_of(transition.attempt_result.moment),
            transition.counter,
            tuple(transition.recipient.tags) if transition.recipient.tags else None,
        )
        for transition in transitions
        if transition.counter
    )
    for (account_id, group_id, hour, counter, tags), count in counts.items():
        count_in_group(transaction, account_id, group_id, hour, tags, **{counter: count})


def _record_events(transaction: Transaction, transitions: Sequence[Transition], changed: ChangedContacts) -> None:
    """The events of the recipients, and after them those of the contacts that changed."""
    by_account: dict[int, list[Transition]] = defaultdict(list)
    for transition in transitions:
        if transition.event:
            by_account[transition.recipient.account_id].append(transition)
    accounts, moment = dict.fromkeys([*by_account, *changed]), this_second()
    record_many(
        transaction,
        {
            account_id: chain(
                map(Transition.payload, by_account.get(account_id, ())),
                contact_events("updated", changed.get(account_id, ()), moment),
            )
            for account_id in accounts
        },
    )


def _happened(transitions: Sequence[Transition]) -> dict[Did, list[int]]:
    """What became of messages that steps of automations have sent."""
    happened: dict[Did, list[int]] = {"delivered": [], "bounced": []}
    for transition in transitions:
        if transition.recipient.step_id is not None and transition.counter in ("delivered", "bounced"):
            happened[transition.counter].append(transition.recipient.id)
    return happened


STATUS_SUBJECTS = {
    "1": "address",
    "2": "mailbox",
    "3": "mail_system",
    "4": "network",
    "5": "protocol",
    "6": "content",
    "7": "policy",
}
"""The second part of a status code (RFC 3463), and what it is about."""


def report_transitions(transitions: Sequence[Transition]) -> None:
    """Counts and logs the transitions. Each line has the id of the request that the recipient belongs to."""
    counts = Counter(
        (_account_class(transition), transition.recipient.type, transition.step, _transport(transition))
        for transition in transitions
    )
    for (class_, type_, step, transport), count in counts.items():
        OUTCOMES.labels(class_, type_, step).inc(count)
        if transport is not None:
            TRANSPORT_OUTCOMES.labels(type_, transport, step).inc(count)
    for (type_, reason), count in Counter(_deferrals(transitions)).items():
        DEFERRALS.labels(type_, reason).inc(count)
    logs.log_many(logger, [(transition.step, _fields(transition)) for transition in transitions])


def _account_class(transition: Transition) -> str:
    return account_class(is_test=transition.attempt_result.is_test)


def _transport(transition: Transition) -> str | None:
    """The transport that was used; None for a recipient that was not sent to, or whose message was captured."""
    attempt_result = transition.attempt_result
    is_sent = attempt_result.result is not None and not attempt_result.is_test
    return attempt_result.transport or DEFAULT_TRANSPORT if is_sent else None


def _deferrals(transitions: Sequence[Transition]) -> Iterator[tuple[str, str]]:
    """Type and reason of the deferrals after an attempt."""
    for transition in transitions:
        result = transition.attempt_result.result
        if transition.step is TimelineStep.DEFERRED and result is not None and not transition.attempt_result.is_test:
            subject = (result.status or "").partition(".")[2].partition(".")[0]
            yield transition.recipient.type, STATUS_SUBJECTS.get(subject, "other")


def _fields(transition: Transition) -> dict[str, Any]:
    recipient, result = transition.recipient, transition.attempt_result.result
    address = transition.attempt_result.address or recipient.email or recipient.mobile
    fields: dict[str, Any] = {
        "request_id": recipient.request_id,
        "account_id": recipient.account_id,
        "uuid": recipient.uuid,
        "attempt": recipient.attempts,
        "detail": without_address(transition.detail, address),
    }
    if result and result.note:
        fields["note"] = without_address(result.note, address)
    if transition.attempt_result.transport:
        fields["transport"] = transition.attempt_result.transport
    return fields


LOCK_SECONDS = 0.2
"""Seconds that a transaction waits for each lock once others have kept rows locked for long."""
MAX_WAITS = 16
"""So many of these waits bisecting takes: the sender waits meanwhile. It finds a row that is locked in ten."""


class Written(NamedTuple):
    """How many results were written, and which have to be passed again, because other transactions have locked their
    rows, or might have. Those that were not tried come first."""

    number: int
    left: list[AttemptResult]


def write_bisecting(database: Database, worker: str, results: Sequence[AttemptResult], rules: RetryRules) -> Written:
    """Writes the results of rows that are leased to `worker`, in as many transactions as it takes.

    Raises when the database is unavailable, and when not even a deferral can be written; results written by then stay
    written, and may be passed again.
    """
    number, waits, blocked = 0, 0, list[AttemptResult]()
    parts = [list(results)] if results else []
    while parts and waits < MAX_WAITS:
        part = parts.pop()
        try:
            number += _write(database, worker, part, rules)
        except Exception as error:
            if is_unavailable(error) and not is_blocked(error):
                raise
            waits += is_blocked(error)
            if len(part) > 1:
                parts += [part[len(part) // 2 :], part[: len(part) // 2]]
            elif is_blocked(error):
                blocked += part
            else:
                number += _defer(database, worker, part[0], rules, error)
    return Written(number, [*chain.from_iterable(reversed(parts)), *blocked])


def _defer(database: Database, worker: str, result: AttemptResult, rules: RetryRules, error: Exception) -> int:
    deferred = result._replace(address=None, result=internal_fault(error), skip=None)
    written = _write(database, worker, [deferred], rules)
    logger.error("an attempt result cannot be written", exc_info=error, extra={"recipient_id": result.recipient_id})
    return written


def _write(database: Database, worker: str, results: Sequence[AttemptResult], rules: RetryRules) -> int:
    with database.write() as transaction:
        transaction.limit_lock_waits(LOCK_SECONDS)
        transitions = write_outcomes(transaction, worker, results, rules)
    report_transitions(transitions)
    return len(transitions)
