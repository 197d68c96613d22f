"""Writing the outcomes of many recipients: one transaction, a fixed number of statements, whatever their number.

Only rows that the worker still has a lease of are written. A row whose lease ran out meanwhile may belong to another
worker, and the late result no longer counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Update, case, func, update

from app.clock import this_second
from app.contacts.blocked import ChangedContacts
from app.contacts.events import contact_events
from app.db.bulk_update import BulkUpdate, RowValues
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import Recipient, table_of
from app.events.outbox import record_many
from app.events.payloads import Payload
from app.recipients.row import RecipientRow
from app.recipients.states import RecipientState
from app.recipients.store import add_steps, as_recipient, select_recipients
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.bounce_blocking import apply_to_addresses
from app.sends.outcomes.domain_deferrals import update_backoffs
from app.sends.outcomes.transitions import RetryRules, Transition, decide_transition

WRITTEN = ("state", "reason", "due_time", "sent_time", "gateway_id", "segments", "rendered_bytes", "email", "mobile")


def write_outcomes(
    transaction: Transaction, worker: str, results: Sequence[AttemptResult], rules: RetryRules
) -> list[Transition]:
    """Writes the attempt results of rows that are still leased to `worker`, and returns their transitions."""
    rows = _locked_rows(transaction, worker, [result.recipient_id for result in results]) if results else {}
    latest = {(result.recipient_id, result.attempt): result for result in results}
    transitions = [
        decide_transition(rows[recipient_id], result, rules)
        for (recipient_id, attempt), result in latest.items()
        if recipient_id in rows and rows[recipient_id].attempts == attempt
    ]
    if transitions:
        _update_recipients(transaction, transitions)
        changed = apply_to_addresses(transaction, transitions)
        update_backoffs(transaction, transitions)
        _record_events(transaction, transitions, changed)
        add_steps(transaction, [_step(one) for one in transitions])
        _count(transaction, transitions)
    return transitions


def _locked_rows(transaction: Transaction, worker: str, ids: list[int]) -> dict[int, RecipientRow]:
    """The rows that are still the worker's, locked until the end of the transaction."""
    statement = (
        select_recipients()
        .where(in_json(Recipient.id, ids), Recipient.state == RecipientState.SENDING, Recipient.worker == worker)
        .order_by(Recipient.id)
        .with_for_update(of=Recipient)
    )
    return {row.id: as_recipient(row) for row in transaction.execute(statement)}


def _update_recipients(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    _UPDATE.run(transaction, [_column_values(one) for one in transitions])


def _update_statement(row: RowValues) -> Update:
    """The address of a contact is kept once something was or may have been sent, or was given up, so that the report
    shows where it went."""
    columns = table_of(Recipient).c
    values: dict[str, Any] = {
        "state": row["state"],
        "reason": row["reason"],
        "email": func.coalesce(columns.email, row["email"]),
        "mobile": func.coalesce(columns.mobile, row["mobile"]),
        "open_type": case((columns.type == "sms", "sms"), else_=columns.open_type),
        "worker": None,
        "lease_time": None,
    }
    for name in ("due_time", "sent_time", "gateway_id", "segments", "rendered_bytes"):
        values[name] = func.coalesce(row[name], columns[name])
    return update(table_of(Recipient)).where(columns.id == row["row"]).values(values)


_UPDATE = BulkUpdate(
    {"row": Recipient.id.type, **{name: table_of(Recipient).c[name].type for name in WRITTEN}}, _update_statement
)


def _column_values(transition: Transition) -> dict[str, Any]:
    attempt_result = transition.attempt_result
    is_final_or_uncertain = transition.event or transition.state is RecipientState.UNCERTAIN
    address = attempt_result.address if is_final_or_uncertain else None
    is_email = transition.recipient.type == "email"
    result = attempt_result.result
    return {
        "row": transition.recipient.id,
        "state": transition.state,
        "reason": transition.reason,
        "due_time": transition.due_time,
        "sent_time": transition.sent_time,
        "gateway_id": result.gateway_id if result else None,
        "segments": result.segments if result else None,
        "rendered_bytes": attempt_result.rendered,
        "email": address if is_email else None,
        "mobile": None if is_email else address,
    }


def _count(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    for one in transitions:
        if one.counter:
            recipient, moment = one.recipient, one.attempt_result.moment
            count_in_group(transaction, recipient.account_id, recipient.group_id, moment, **{one.counter: 1})


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


def _payload(transition: Transition) -> Payload:
    attempt_result = transition.attempt_result
    return transition.recipient.event(
        transition.event or "", attempt_result.moment, transition.event_fields, address=attempt_result.address
    )


def _step(transition: Transition) -> dict[str, Any]:
    attempt_result = transition.attempt_result
    note = attempt_result.result.note if attempt_result.result else None
    return transition.recipient.step(transition.step, transition.detail, attempt_result.moment, note=note)
