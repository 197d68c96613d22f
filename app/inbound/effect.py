"""The effect of an inbound item: its wait, its fingerprint, and what is redacted in it."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import Literal

from sqlalchemy import func, select

from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import InboundRecord
from app.recipients.redaction import Redaction
from app.routing.transports import transport_urls
from app.services import Services

POLL_INTERVAL = 0.1
"""Seconds between two attempts, while the outcome is not written yet."""


class Effect(enum.Enum):
    """Effect of one inbound item."""

    RECORDED = "recorded"
    KNOWN = "known"
    """The item was recorded before, or changes nothing any more."""
    EARLY = "early"
    """The outcome of the attempt is not written yet: it may be a moment later."""
    IGNORED = "ignored"
    """The item is not about a message that was sent, or reports nothing."""
    UNKNOWN = "unknown"
    """There is no such text message."""


def apply_with_patience(services: Services, work: Callable[[Transaction], Effect], patience: float) -> Effect:
    """Runs `work` in its own transaction. A gateway or a mail server may be quicker than the sender, which writes
    outcomes in batches: as long as the effect is EARLY this is repeated, for at most `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        effect = services.database.transact(work)
        if effect is not Effect.EARLY or time.monotonic() > end or services.stopping.is_set():
            return effect
        services.stopping.wait(POLL_INTERVAL)


def is_first(
    transaction: Transaction, account_id: int, fingerprint: str, kind: Literal["email report", "reply"]
) -> bool:
    """Stores the fingerprint; False if it was stored before. The caller holds a lock (of the recipient, or of the
    account's subscriptions) that keeps a copy from coming in between."""
    earlier_records = select(func.count()).where(
        InboundRecord.account_id == account_id, InboundRecord.fingerprint == fingerprint
    )
    if transaction.scalar(earlier_records):
        return False
    row = {"account_id": account_id, "fingerprint": fingerprint, "kind": kind, "time": now()}
    insert_new_rows(transaction, InboundRecord, [row])
    return True


def installation_redaction(services: Services) -> Redaction:
    """The redaction for the installation with all its transports; one select."""
    with services.database.read() as session:
        urls = transport_urls(session, services.settings.secret_keys)
    return Redaction.of(services.settings, *urls)
