"""Asking for a check, and whether one is under way."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.audit.actor import current_actor
from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import NetworkCheck
from app.errors import ServiceError
from app.infrastructure.redis_client import AUTOMATIONS
from app.services import Services

Kind = Literal["domain", "webhook"]

MAX_OPEN_CHECKS = 20
"""Checks of an account that wait or run: they run one at a time."""
RENEWAL_SECONDS = 2
"""Seconds after which a page that shows a check under way is renewed."""


def ask(transaction: Transaction, services: Services, kind: Kind, account_id: int, object_id: int) -> None:
    """Has a worker check the account's object of that kind, unless that is under way. Raises `conflict` for an account
    with too many that are."""
    if is_under_way(transaction, kind, account_id, object_id):
        return
    open_checks = select(func.count()).select_from(NetworkCheck).where(NetworkCheck.account_id == account_id)
    if (transaction.scalar(open_checks) or 0) >= MAX_OPEN_CHECKS:
        raise ServiceError("conflict", detail=f"{MAX_OPEN_CHECKS} checks are running. Wait until one ends.")
    row = {
        **{"account_id": account_id, "kind": kind, "object_id": object_id},
        **{"asked_by": current_actor().name, "creation_time": now()},
    }
    insert_new_rows(transaction, NetworkCheck, [row])
    transaction.after_commit(lambda: services.wake_ups.wake(AUTOMATIONS))


def is_under_way(session: Session, kind: Kind, account_id: int, object_id: int) -> bool:
    """Whether a check of the object waits or runs."""
    return object_id in objects_under_way(session, kind, [account_id])


def objects_under_way(session: Session, kind: Kind, account_ids: Collection[int]) -> set[int]:
    """The ids of the accounts' objects of that kind of which a check waits or runs."""
    is_sought = NetworkCheck.account_id.in_(account_ids), NetworkCheck.kind == kind
    return set(session.scalars(select(NetworkCheck.object_id).where(*is_sought)))
