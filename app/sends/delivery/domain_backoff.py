"""Per-domain back-off: postponing mail to domains whose mail servers have deferred repeatedly.

The deferrals are counted as outcomes (`app/sends/outcomes/domain_deferrals.py`). Claims cost the same as without
back-off: rows that were claimed for a backed-off domain go back into the queue, due when the back-off ends, and that
does not count as an attempt. When it ends, one message goes as a probe, and the others wait for its result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import select, update

from app.addresses import domain_of
from app.clock import now
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import DomainBackoff, Send
from app.recipients.reasons import WaitReason
from app.sends.delivery.claim import ClaimedRecipient, postpone
from app.sends.delivery.recipient_domains import domains_of
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.outcomes.domain_deferrals import FAILURE_THRESHOLD, PROBE_TIMEOUT, Backoff, load_backoffs


def defer_backed_off(
    transaction: Transaction, worker: str, claimed: Sequence[ClaimedRecipient]
) -> list[ClaimedRecipient]:
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


def _by_domain(
    transaction: Transaction, claimed: Sequence[ClaimedRecipient]
) -> dict[tuple[int, str], list[ClaimedRecipient]]:
    """The emails of the batch by account and domain."""
    domains = domains_of(transaction, claimed)
    by_domain: dict[tuple[int, str], list[ClaimedRecipient]] = defaultdict(list)
    for row in claimed:
        if domain := domains.get(row.id):
            by_domain[row.account_id, domain].append(row)
    return by_domain


def _sender_domains(transaction: Transaction, claimed: Sequence[ClaimedRecipient]) -> dict[int, str]:
    """The sender's domain of each send of these rows."""
    senders = select(Send.id, Send.from_address).where(in_json(Send.id, {row.send_id for row in claimed}))
    return {row.id: domain_of(row.from_address) for row in transaction.execute(senders)}


def _defer(transaction: Transaction, worker: str, backoff: Backoff, rows: Sequence[ClaimedRecipient]) -> list[int]:
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
