"""Writing the outcomes of many recipients: one transaction, a fixed number of statements, whatever their number.

Only recipients that the worker still leases are written. One whose lease ran out meanwhile may belong to
another worker, and the late result no longer counts. A recipient that is settled leaves the send queue
(app/sends/outcomes/queue_entries.py); of any other only the entry there is written, unless its message may have
arrived.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Update, case, func, update

from app.automations.definition import Did
from app.automations.watches import end_waits
from app.clock import this_second
from app.contacts.blocked import ChangedContacts
from app.contacts.events import contact_events
from app.db.bulk_update import BulkUpdate, RowValues
from app.db.counters import count_in_group, hour_of
from app.db.database import Transaction
from app.db.id_bounds import between_ids
from app.db.in_json import in_json
from app.db.models import QueueEntry, Recipient, table_of
from app.events.outbox import record_many
from app.events.payloads import Payload
from app.recipients.row import RecipientRow
from app.recipients.states import UNSETTLED, RecipientState
from app.recipients.store import add_steps, as_recipient, select_recipients
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.bounce_blocking import apply_to_addresses
from app.sends.outcomes.domain_deferrals import update_backoffs
from app.sends.outcomes.queue_entries import rendered_before, settle_or_requeue
from app.sends.outcomes.relay_refusals import HAS_REFUSAL, update_refusals
from app.sends.outcomes.transitions import RetryRules, Transition, decide_transition

WRITTEN = ("state", "reason", "attempts", "sent_time", "gateway_id", "segments", "rendered_bytes", "email", "mobile")


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
    add_steps(transaction, [_step(one) for one in transitions])
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
    _UPDATE.run(transaction, [values for one in transitions if (values := _column_values(one))])


def _update_statement(row: RowValues) -> Update:
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


_UPDATE = BulkUpdate(
    {"row": Recipient.id.type, **{name: table_of(Recipient).c[name].type for name in WRITTEN}},
    _update_statement,
    id_column=table_of(Recipient).c.id,
)


def _column_values(transition: Transition) -> dict[str, Any]:
    """The columns to write of the recipient: none while it stays in the queue, unless its message may have arrived."""
    attempt_result, is_settled = transition.attempt_result, transition.state not in UNSETTLED
    address = attempt_result.address if is_settled or transition.state is RecipientState.UNCERTAIN else None
    is_email = transition.recipient.type == "email"
    result = attempt_result.result
    facts = {
        "gateway_id": result.gateway_id if result else None,
        "segments": result.segments if result else None,
        "email": address if is_email else None,
        "mobile": None if is_email else address,
    }
    if not is_settled and not any(facts.values()):
        return {}
    return {
        "row": transition.recipient.id,
        "state": transition.state if is_settled else RecipientState.QUEUED,
        "reason": transition.reason,
        "attempts": transition.recipient.attempts,
        "sent_time": transition.sent_time,
        "rendered_bytes": attempt_result.rendered,
        **facts,
    }


def _count(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    """Each group and hour once: most recipients of a batch share them."""
    counts = Counter(
        (one.recipient.account_id, one.recipient.group_id, hour_of(one.attempt_result.moment), one.counter)
        for one in transitions
        if one.counter
    )
    for (account_id, group_id, hour, counter), count in counts.items():
        count_in_group(transaction, account_id, group_id, hour, **{counter: count})


def _record_events(transaction: Transaction, transitions: Sequence[Transition], changed: ChangedContacts) -> None:
    """The events of the recipients, and after them those of the contacts that changed."""
    by_account: dict[int, list[Transition]] = defaultdict(list)
    for one in transitions:
        if one.event:
            by_account[one.recipient.account_id].append(one)
    accounts, moment = dict.fromkeys([*by_account, *changed]), this_second()
    record_many(
        transaction,
        {
            account_id: chain(
                map(_payload, by_account.get(account_id, ())),
                contact_events("updated", changed.get(account_id, ()), moment),
            )
            for account_id in accounts
        },
    )


def _happened(transitions: Sequence[Transition]) -> dict[Did, list[int]]:
    """What became of messages that steps of automations have sent."""
    happened: dict[Did, list[int]] = {"delivered": [], "bounced": []}
    for one in transitions:
        if one.recipient.step_id is not None and one.counter in ("delivered", "bounced"):
            happened[one.counter].append(one.recipient.id)
    return happened


def _payload(transition: Transition) -> Payload:
    attempt_result = transition.attempt_result
    return transition.recipient.event(
        transition.event or "", attempt_result.moment, transition.event_fields, address=attempt_result.address
    )


def _step(transition: Transition) -> dict[str, Any]:
    attempt_result = transition.attempt_result
    note = attempt_result.result.note if attempt_result.result else None
    return transition.recipient.step(
        transition.step, transition.detail, attempt_result.moment, note=note, transport=attempt_result.transport
    )
