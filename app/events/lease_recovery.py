"""Recovery of webhook leases whose process has died.

A lease token begins with the name of its process. A process of this machine that has died is detected at once
(app/infrastructure/liveness.py); one of another machine when its lease ends.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import ColumnElement, or_, update

from app.db.database import Transaction
from app.db.models import Webhook
from app.infrastructure.liveness import dead_processes, registered_name
from app.infrastructure.metrics import LEASES_RECOVERED
from app.services import Services
from app.settings import Settings

LEASE_SECONDS = 90.0
"""Longer than any request can take."""

logger = logging.getLogger(__name__)


def dispatcher_folder(settings: Settings) -> Path:
    """The folder in which the dispatching processes of this machine register."""
    return settings.data_dir / "dispatchers"


def recover_leases(services: Services) -> None:
    """Ends the leases of processes of this machine that have died; those of other machines run out."""
    with dead_processes(dispatcher_folder(services.settings)) as names:
        if not names:
            return
        leased_by_dead = or_(*(Webhook.worker.startswith(f"{name}:", autoescape=True) for name in names))
        with services.database.write() as transaction:
            released = _release(transaction, leased_by_dead)
    if released:
        LEASES_RECOVERED.labels("webhooks").inc(released)
        logger.warning("recovered the webhook leases of a dead process", extra={"webhooks": released})


def release_unknown_leases(services: Services, known_tokens: Collection[str]) -> None:
    """Ends leases of this process that it does not know of: the claim was committed, the database's answer lost."""
    own = Webhook.worker.startswith(f"{registered_name(dispatcher_folder(services.settings))}:", autoescape=True)
    with services.database.write() as transaction:
        released = _release(transaction, own, Webhook.worker.not_in(known_tokens))
    if released:
        logger.warning(
            "released webhook leases that were claimed while the database failed", extra={"webhooks": released}
        )


def _release(transaction: Transaction, *conditions: ColumnElement[bool]) -> int:
    statement = update(Webhook).where(*conditions).values(lease_time=None, worker=None)
    return transaction.connection().execute(statement).rowcount
