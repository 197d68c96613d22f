"""Claiming a batch in one transaction, without what may not be sent now."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from app.infrastructure.queueing import SENDS
from app.sends.delivery.claim import ClaimedRecipient, claim, is_full, release_unknown_claims
from app.sends.delivery.domain_backoff import defer_backed_off
from app.sends.delivery.paused import put_aside
from app.sends.delivery.sender_worker import SenderWorker
from app.services import Services


class Batch(NamedTuple):
    """What may be sent; and whether it is nothing because all that was claimed is paused, so that more may be due."""

    recipients: list[ClaimedRecipient]
    is_paused: bool = False


def claim_batch(
    services: Services, sender_worker: SenderWorker, size: int, known: Collection[int] | None = None
) -> Batch:
    """Claims about `size` recipients. Of those that are leased to the worker already only `known` ones stay so, if they
    are given."""
    worker, last, due = sender_worker.name, sender_worker.last_account, sender_worker.due
    number = next(sender_worker.claims)
    with services.database.write() as transaction:
        if known is not None:
            release_unknown_claims(transaction, worker, known)
        claimed = claim(transaction, worker, size=size, after=last, number=number, due=due)
        if is_full(claimed, size):
            transaction.after_commit(lambda: services.wake_ups.wake(SENDS))  # for another worker
        unpaused = put_aside(transaction, worker, claimed)
        accepted = defer_backed_off(transaction, worker, unpaused)
    sender_worker.last_account = due.last_account
    return Batch(accepted, is_paused=not accepted and len(unpaused) < len(claimed))
