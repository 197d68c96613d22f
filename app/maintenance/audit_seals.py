"""Sealing the audit log beside those who act (docs/audit.md#seals)."""

from __future__ import annotations

import time
from functools import partial

from app.audit.seals import seal_next
from app.db.commit_order import settled_beside_writers
from app.db.models import AuditEntry
from app.db.write_turns import WriteTurns
from app.services import Services

TARGET_SECONDS = 0.02
"""Seconds that a slice is meant to take: on SQLite, acts wait for it."""
TIME_SLICE = 1.0
"""Seconds after which a worker makes room for other work of its queue."""


def seal_entries(services: Services, time_slice: float = TIME_SLICE) -> int:
    """Seals the entries that are committed, once no transaction is open that may add one before them, until all are
    sealed, the time slice ends, or the process is asked to stop; what is left is done after the next wake-up. Returns
    how many were sealed."""
    end, sealed = time.monotonic() + time_slice, 0
    settled = settled_beside_writers(services.database, AuditEntry, services.stopping.wait)
    turns = WriteTurns(services.database, target=TARGET_SECONDS, sleep=services.stopping.wait)
    while settled and not services.stopping.is_set():
        size = turns.size
        work = partial(seal_next, secret_keys=services.settings.secret_keys, settled=settled, most=size)
        done = turns.take(size, work)
        sealed += done
        if done < size or time.monotonic() > end:
            break
    return sealed
