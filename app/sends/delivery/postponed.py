"""Claimed recipients that are due but not sent now: a pause concerns them, or their domain's back-off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta

from sqlalchemy import Update, select, update
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.clock import now
from app.db.bulk import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact, DomainBackoff, QueueEntry, Send, table_of
from app.recipients.row import step_row
from app.recipients.states import RecipientState, WaitReason
from app.recipients.store import add_steps
from app.recipients.timeline import TimelineStep
from app.sends.delivery.claim import SENDING, postpone
from app.sends.delivery.recipient import Claimed
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.outcomes.domain_deferrals import FAILURE_THRESHOLD, PROBE_TIMEOUT, Backoff, load_backoffs
from app.sends.pauses.read import ActivePause, active_pauses, lock_active, test_accounts


def domains_of(session: Session, claimed: Iterable[Claimed]) -> dict[int, str]:
    """By the ids of recipients; one select if any is named by its contact, whose address it has."""
    emails = [row for row in claimed if row.type == "email"]
    contact_ids = {row.contact_id for row in emails if row.email is None and row.contact_id is not None}
    contacts = select(Contact.id, Contact.email).where(Contact.id.in_(contact_ids)) if contact_ids else None
    addresses = {row.id: row.email for row in session.execute(contacts)} if contacts is not None else {}
    found = {row.id: row.email or addresses.get(row.contact_id) for row in emails}
    return {recipient_id: domain_of(address) for recipient_id, address in found.items() if address}


DETAILS = {
    "account": "sending is paused for the account",
    "list": "sending is paused for the list",
    "domain": "sending is paused for the domain of the address",
}


def put_aside(transaction: Transaction, worker: str, claimed: Sequence[Claimed]) -> list[Claimed]:
    """The claimed rows that may be sent; those that a pause concerns are put aside. One select if there is no pause."""
    pauses = active_pauses(transaction, {row.account_id for row in claimed}) if claimed else []
    concerned = _concerned(transaction, pauses, claimed) if pauses else {}
    if not concerned:
        return list(claimed)
    active = lock_active(transaction, {pause.id for pause in concerned.values()})
    paused = [row for row in claimed if row.id in concerned and concerned[row.id].id in active]
    _PUT_ASIDE.run(transaction, [{"row": row.id, "pause": concerned[row.id].id, "owner": worker} for row in paused])
    moment = now()
    add_steps(
        transaction,
        [
            step_row(row.account_id, row.id, TimelineStep.PAUSED, DETAILS[concerned[row.id].kind], moment)
            for row in paused
        ],
    )
    count_deferred(paused, WaitReason.PAUSE)
    ids = {row.id for row in paused}
    return [row for row in claimed if row.id not in ids]


def _concerned(
    transaction: Transaction, pauses: Iterable[ActivePause], claimed: Sequence[Claimed]
) -> dict[int, ActivePause]:
    """By the ids of recipients, the first pause that concerns each."""
    by_account: dict[int, ActivePause] = {}
    by_list: dict[int, ActivePause] = {}
    by_domain: dict[tuple[int | None, str], ActivePause] = {}
    for pause in pauses:
        if pause.domain is not None:
            by_domain.setdefault((pause.account_id, pause.domain), pause)
        elif pause.list_id is not None:
            by_list.setdefault(pause.list_id, pause)
        elif pause.account_id is not None and pause.kind == "account":
            by_account.setdefault(pause.account_id, pause)
    found: dict[int, ActivePause] = {}
    for row in claimed:
        of_list = None if row.list_id is None else by_list.get(row.list_id)
        if first := by_account.get(row.account_id) or of_list:
            found[row.id] = first
    if by_domain:
        rest = [row for row in claimed if row.id not in found]
        found |= _concerned_by_domain(transaction, by_domain, rest)
    return found


def _concerned_by_domain(
    transaction: Transaction,
    by_domain: dict[tuple[int | None, str], ActivePause],
    claimed: Sequence[Claimed],
) -> dict[int, ActivePause]:
    """Mail of test accounts is captured, so that it goes to no domain."""
    accounts = {account_id for account_id, _ in by_domain}
    may_be = [row for row in claimed if None in accounts or row.account_id in accounts]
    domains = domains_of(transaction, may_be)
    found: dict[int, ActivePause] = {}
    everywhere: dict[int, list[tuple[int, ActivePause]]] = defaultdict(list)
    for row in may_be:
        domain = domains.get(row.id, "")
        if pause := by_domain.get((row.account_id, domain)):
            found[row.id] = pause
        elif pause := by_domain.get((None, domain)):
            everywhere[row.account_id].append((row.id, pause))
    if everywhere:
        tests = test_accounts(transaction, everywhere)
        found |= {key: pause for account, of in everywhere.items() if account not in tests for key, pause in of}
    return found


def _put_aside_statement(row: RowValues) -> Update:
    columns = table_of(QueueEntry).c
    return (
        update(table_of(QueueEntry))
        .where(columns.recipient_id == row["row"], columns.state == SENDING, columns.worker == row["owner"])
        .values(
            state=RecipientState.PAUSED.value,
            pause_id=row["pause"],
            worker=None,
            lease_time=None,
            attempts=columns.attempts - 1,
        )
    )


_PUT_ASIDE = BulkUpdate(
    {"row": QueueEntry.recipient_id.type, "pause": QueueEntry.pause_id.type, "owner": QueueEntry.worker.type},
    _put_aside_statement,
)


def defer_backed_off(transaction: Transaction, worker: str, claimed: Sequence[Claimed]) -> list[Claimed]:
    """The claimed rows that may be sent; those that are backed off go back into the queue until the back-off ends.

    At most two selects if nothing is backed off.
    """
    by_domain = _by_domain(transaction, claimed)
    backoffs = load_backoffs(transaction, by_domain.keys()) if by_domain else []
    active = sorted((row for row in backoffs if row.failures >= FAILURE_THRESHOLD), key=lambda row: row.key)
    if not active:
        return list(claimed)
    concerned = [row for backoff in active for row in by_domain[backoff.account_id, backoff.domain]]
    senders = _sender_domains(transaction, concerned)
    deferred: set[int] = set()
    for backoff in active:
        rows = by_domain[backoff.account_id, backoff.domain]
        concerned_by = [row for row in rows if senders[row.send_id] == backoff.sender_domain]
        deferred.update(_defer(transaction, worker, backoff, concerned_by))
    count_deferred([row for row in claimed if row.id in deferred], WaitReason.DOMAIN_BACKOFF)
    return [row for row in claimed if row.id not in deferred]


def _by_domain(transaction: Transaction, claimed: Sequence[Claimed]) -> dict[tuple[int, str], list[Claimed]]:
    """The emails of the batch by account and domain."""
    domains = domains_of(transaction, claimed)
    by_domain: dict[tuple[int, str], list[Claimed]] = defaultdict(list)
    for row in claimed:
        if domain := domains.get(row.id):
            by_domain[row.account_id, domain].append(row)
    return by_domain


def _sender_domains(transaction: Transaction, claimed: Sequence[Claimed]) -> dict[int, str]:
    """The sender's domain of each send of these rows."""
    senders = select(Send.id, Send.from_address).where(in_json(Send.id, {row.send_id for row in claimed}))
    return {row.id: domain_of(row.from_address) for row in transaction.execute(senders)}


def _defer(transaction: Transaction, worker: str, backoff: Backoff, rows: Sequence[Claimed]) -> list[int]:
    """Postpones all of the rows, or all but one if the back-off is over: the worker that extends it sends the probe."""
    until = max(backoff.until_time, now())
    if rows and backoff.until_time <= now() and _claim_probe(transaction, backoff):
        until, rows = now() + timedelta(seconds=PROBE_TIMEOUT), rows[1:]
    postpone(transaction, worker, {row.id: until for row in rows})
    return [row.id for row in rows]


def _claim_probe(transaction: Transaction, backoff: Backoff) -> bool:
    """Whether this worker is the one that extends the back-off, which only one does."""
    extended = (
        update(DomainBackoff)
        .where(DomainBackoff.id == backoff.id, DomainBackoff.until_time == backoff.until_time)
        .values(until_time=now() + timedelta(seconds=PROBE_TIMEOUT))
        .returning(DomainBackoff.id)
    )
    return transaction.execute(extended, execution_options={"synchronize_session": False}).first() is not None
