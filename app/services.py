"""The dependencies of a process, created once and passed to the use cases: settings, database, Redis, wake-ups."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial

from redis import Redis

from app.audit.audited import notice_changes
from app.db.database import Database
from app.db.replica import ReportsDatabase
from app.infrastructure.digests import open_digest_key
from app.infrastructure.redis_client import CircuitBreaker, WakeUps, connect_redis
from app.infrastructure.sender_share import SenderShare
from app.infrastructure.shared_rates import SharedRates
from app.settings import Settings

WAIT = 2.0
"""Seconds that a request waits for Redis, once: it can continue without it."""


@dataclass(frozen=True, slots=True)
class Services:
    """The dependencies of one process. `stopping` is set when it is asked to stop: long work checks it."""

    settings: Settings
    database: Database
    redis: Redis
    wake_ups: WakeUps
    redis_breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    stopping: threading.Event = field(default_factory=threading.Event)
    sender_share: SenderShare = field(default_factory=SenderShare)
    replica: Database | None = None
    """What `DATABASE_READ_URL` names."""
    rates: SharedRates = field(init=False)
    reports: ReportsDatabase = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reports", ReportsDatabase(self.database, self.replica))
        object.__setattr__(self, "rates", SharedRates(self.redis, self.redis_breaker, self.sender_share))

    def close(self) -> None:
        """Closes the connections to the database and to its replica."""
        self.database.close()
        if self.replica is not None:
            self.replica.close()


def make_services(settings: Settings) -> Services:
    """Does not connect yet: connections are opened on first use, also after a fork."""
    notice_changes()
    redis, breaker = connect_redis(settings.redis_url, wait=WAIT), CircuitBreaker()
    digests = partial(open_digest_key, settings)
    replica_url = settings.database_read_url
    replica = Database(replica_url, pool_size=settings.database_pool, open_digest_key=digests) if replica_url else None
    return Services(
        settings=settings,
        database=Database(settings.database_url, pool_size=settings.database_pool, open_digest_key=digests),
        redis=redis,
        wake_ups=WakeUps(redis, breaker),
        redis_breaker=breaker,
        replica=replica,
    )
