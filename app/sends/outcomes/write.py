"""Writing what became of many recipients: one transaction, a fixed number of statements, whatever their number.

Only rows that the worker still holds are written. A worker whose lease ran out meanwhile finds its row gone to
another, and what it has to tell of it no longer counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Update, bindparam, case, func, select, update

from app.clock import this_second
from app.contacts.blocked import ChangedContacts
from app.contacts.events import contact_events
from app.db.bulk import insert_rows
from app.db.bulk_update import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import Group, Recipient, RecipientStep, Send, table_of
from app.events.outbox import record_many
from app.events.payloads import Payload, recipient_event
from app.recipients.states import RecipientState
from app.sends.delivery.domain_backoff import update_backoffs
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.bounce_blocking import apply_to_addresses
from app.sends.outcomes.transitions import Held, RetryRules, Transition, decide_transition

OF_RECIPIENT = (
    Recipient.id,
    Recipient.account_id,
    Recipient.uuid,
    Recipient.type,
    Recipient.group_id,
    Send.group_name,
    Recipient.message_id,
    Recipient.list_id,
    Recipient.contact_id,
    Recipient.email,
    Recipient.mobile,
    Recipient.creation_time,
    Recipient.attempts,
    Send.request_id,
    Send.from_address,
)

WRITTEN = ("state", "reason", "due_time", "sent_time", "gateway_id", "segments", "rendered_bytes", "email", "mobile")
COUNTERS = ("delivered", "bounced", "failed_contacts")


def write_outcomes(
    transaction: Transaction, worker: str, verdicts: Sequence[AttemptResult], rules: RetryRules
) -> list[Transition]:
    """Writes the verdicts on rows that `worker` still holds, and tells what followed from them."""
    held = _held(transaction, worker, [verdict.recipient_id for verdict in verdicts]) if verdicts else {}
    latest = {(verdict.recipient_id, verdict.attempt): verdict for verdict in verdicts}
    made = [
        decide_transition(held[recipient_id], verdict, rules)
        for (recipient_id, attempt), verdict in latest.items()
        if recipient_id in held and held[recipient_id].attempts == attempt
    ]
    if made:
        _write_recipients(transaction, made)
        touched = apply_to_addresses(transaction, made)
        update_backoffs(transaction, made)
        _tell(transaction, made, touched)
        insert_rows(transaction, RecipientStep, [_step(one) for one in made])
        # Last here as everywhere: workers that write outcomes of one group wait for each other from here on.
        _count(transaction, made)
    return made


def _held(transaction: Transaction, worker: str, ids: list[int]) -> dict[int, Held]:
    """The rows that are still the worker's, locked until the end of the transaction."""
    statement = (
        select(*OF_RECIPIENT)
        .join(Send, Send.id == Recipient.send_id)
        .where(in_json(Recipient.id, ids), Recipient.state == RecipientState.SENDING, Recipient.worker == worker)
        .order_by(Recipient.id)
        .with_for_update(of=Recipient)
    )
    return {row.id: Held._make(row) for row in transaction.execute(statement)}


def _write_recipients(transaction: Transaction, made: Sequence[Transition]) -> None:
    _UPDATE_OF_RECIPIENTS.run(transaction, [_columns(one) for one in made])


def _update_of_recipients(row: RowValues) -> Update:
    """The address of a contact is kept once something was or may have been sent, or was given up, so that the report
    tells where it went."""
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


_UPDATE_OF_RECIPIENTS = BulkUpdate(
    {"row": Recipient.id.type, **{name: table_of(Recipient).c[name].type for name in WRITTEN}}, _update_of_recipients
)


def _columns(one: Transition) -> dict[str, Any]:
    address = one.verdict.address if one.event or one.state is RecipientState.UNCERTAIN else None
    is_email = one.held.type == "email"
    result = one.verdict.result
    return {
        "row": one.held.id,
        "state": one.state,
        "reason": one.reason,
        "due_time": one.due_time,
        "sent_time": one.sent_time,
        "gateway_id": result.gateway_id if result else None,
        "segments": result.segments if result else None,
        "rendered_bytes": one.verdict.rendered,
        "email": address if is_email else None,
        "mobile": None if is_email else address,
    }


def _count(transaction: Transaction, made: Sequence[Transition]) -> None:
    """Counters of a group change once. Groups in ascending order: two workers then never wait for each other."""
    counts: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTERS, 0))
    for one in made:
        if one.counter:
            counts[one.held.group_id][one.counter] += 1
    if not counts:
        return
    columns = table_of(Group).c
    statement = (
        update(table_of(Group))
        .where(columns.id == bindparam("row"))
        .values({name: columns[name] + bindparam(f"more_{name}") for name in COUNTERS})
    )
    rows = [
        {"row": group, **{f"more_{name}": more for name, more in counts[group].items()}} for group in sorted(counts)
    ]
    transaction.connection().execute(statement, rows)


def _tell(transaction: Transaction, made: Sequence[Transition], touched: ChangedContacts) -> None:
    """What became of the recipients, and then what changed by it of contacts."""
    told: dict[int, list[Transition]] = defaultdict(list)
    for one in made:
        if one.event:
            told[one.held.account_id].append(one)
    accounts, moment = dict.fromkeys([*told, *touched]), this_second()
    record_many(
        transaction,
        {
            one: chain(map(_payload, told.get(one, ())), contact_events("updated", touched.get(one, ()), moment))
            for one in accounts
        },
    )


def _payload(one: Transition) -> Payload:
    held, address = one.held, one.verdict.address
    is_email = held.type == "email"
    return recipient_event(
        one.event or "",
        recipient_id=held.id,
        uuid=held.uuid,
        group_id=held.group_id,
        group_name=held.group_name,
        message_id=held.message_id,
        message_type=held.type,
        list_id=held.list_id,
        contact_id=held.contact_id,
        email=(address or held.email) if is_email else None,
        mobile=None if is_email else (address or held.mobile),
        moment=one.verdict.moment,
        **one.extra,
    )


def _step(one: Transition) -> dict[str, Any]:
    return {
        "account_id": one.held.account_id,
        "recipient_id": one.held.id,
        "time": one.verdict.moment,
        "step": one.step,
        "detail": one.detail,
        "note": one.verdict.result.note if one.verdict.result else None,
    }
