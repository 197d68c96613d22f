"""Whose a webhook is while a request is under way, and taking it back from who is gone.

A claim names its process. One of this machine that has died is known at once, by its presence
(app/infrastructure/liveness.py); one of another machine by its lease.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import or_, update

from app.db.models import Webhook
from app.infrastructure.liveness import dead_processes, registered_name
from app.services import Services
from app.settings import Settings

LEASE = 90.0
"""Seconds; longer than any request can take."""

logger = logging.getLogger(__name__)


def presence_folder(settings: Settings) -> Path:
    """Where the processes of this machine that dispatch are present."""
    return settings.data_dir / "dispatchers"


def take_over(services: Services) -> None:
    """Ends the leases of processes of this machine that have died; those of other machines run out."""
    with dead_processes(presence_folder(services.settings)) as names:
        if not names:
            return
        theirs = or_(*(Webhook.worker.startswith(f"{name}:", autoescape=True) for name in names))
        with services.database.write() as transaction:
            freeing = update(Webhook).where(theirs).values(lease_time=None, worker=None)
            freed = transaction.connection().execute(freeing).rowcount
    if freed:
        logger.warning("took over what a dead process was sending", extra={"webhooks": freed})


def give_back_others(services: Services, in_flight: Collection[str]) -> None:
    """Ends the leases that are this process's without its knowing: their claim was committed, and the answer lost."""
    own = Webhook.worker.startswith(f"{registered_name(presence_folder(services.settings))}:", autoescape=True)
    with services.database.write() as transaction:
        freeing = update(Webhook).where(own, Webhook.worker.not_in(in_flight)).values(lease_time=None, worker=None)
        freed = transaction.connection().execute(freeing).rowcount
    if freed:
        logger.warning("took back what was claimed while the database failed", extra={"webhooks": freed})
