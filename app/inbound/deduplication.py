"""Fingerprints of inbound items, so that the same report or reply is written once."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import func, select

from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import InboundRecord


def is_first(
    transaction: Transaction, account_id: int, fingerprint: str, kind: Literal["email report", "reply"]
) -> bool:
    """Stores the fingerprint; False if it was stored before. The caller holds a lock (of the recipient, or of the
    account's subscriptions) that keeps a copy from coming in between."""
    known = select(func.count()).where(InboundRecord.account_id == account_id, InboundRecord.fingerprint == fingerprint)
    if transaction.scalar(known):
        return False
    row = {"account_id": account_id, "fingerprint": fingerprint, "kind": kind, "time": now()}
    insert_new_rows(transaction, InboundRecord, [row])
    return True
