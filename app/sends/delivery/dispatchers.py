"""The dispatchers of a drain, one per transport, and the way of a message between them
(docs/transports.md#failover).

Without routes there is the default one, and nothing else happens here. With routes each message goes to the dispatcher
of the first transport on its route that is available. For a transport that is slow, or has a rate, only as many
messages are queued as leave soon; the others get a new due time in the turn of their account, so that they are in
nobody's way. A message that a transport has certainly not taken is passed on to the next one of its route.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from redis import Redis

from app.infrastructure.metrics import TRANSPORT_FAILOVERS
from app.recipients.reasons import DEFERRAL_TEXTS, WaitReason
from app.routing.table import DEFAULT
from app.sends.delivery.answers import Answers
from app.sends.delivery.build import BuiltMessage
from app.sends.delivery.capture import is_test
from app.sends.delivery.compose import PreparedRecipient
from app.sends.delivery.dispatcher import Dispatcher
from app.sends.delivery.not_sent import deferred
from app.sends.delivery.passed_on import PassedOn
from app.sends.delivery.rate_limit import allowed_now
from app.sends.delivery.route_progress import RouteProgress
from app.sends.delivery.sender_worker import SenderWorker
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.delivery.transport_pool import TransportPool
from app.sends.outcomes.attempt_result import AttemptResult
from app.transports.base import DeliveryResult

ONLY_DEFAULT = (DEFAULT,)
NONE_IN_USE = DeliveryResult.deferred(DEFERRAL_TEXTS[WaitReason.NO_TRANSPORT], "4.3.5")


class Dispatchers:
    """All of them together are used by the drain as one."""

    def __init__(self, sender_worker: SenderWorker, redis: Redis) -> None:
        self._sender_worker = sender_worker
        self._redis = redis
        self._answers = Answers()
        self._default = Dispatcher(sender_worker, answers=self._answers)
        self._all: dict[TransportPool, Dispatcher] = {sender_worker.pool: self._default}
        self._unroutable: list[AttemptResult] = []
        self.postponed: dict[int, datetime] = {}
        """Recipients with a new due time, until the drain takes them from here."""

    def __len__(self) -> int:
        return sum(map(len, self._all.values())) + len(self._unroutable) + len(self.postponed)

    @property
    def recipient_ids(self) -> list[int]:
        """The recipients whose result has not been collected yet."""
        waiting = [*self.postponed, *(result.recipient_id for result in self._unroutable)]
        return [*waiting, *(one for dispatcher in self._all.values() for one in dispatcher.recipient_ids)]

    def queued(self) -> int:
        """Number of recipients that no thread has taken yet."""
        return sum(dispatcher.queued() for dispatcher in self._all.values())

    def enqueue(self, recipients: Iterable[PreparedRecipient]) -> None:
        """Queues recipients, each for the first available transport of its route."""
        if self._sender_worker.router.is_empty:
            self._default.enqueue(recipients)
            return
        by_pool: dict[TransportPool, list[PreparedRecipient]] = defaultdict(list)
        for recipient in recipients:
            if pool := self._first_pool(recipient):
                by_pool[pool].append(recipient)
            else:
                self._unroutable.append(deferred(recipient, NONE_IN_USE))
        for pool, some in by_pool.items():
            self._enqueue(pool, some, room=pool.room - len(self._of(pool)))

    def withdraw(self, waited: float) -> list[int]:
        """Removes recipients that have waited that long for a connection; returns those of the default transports. The
        others get their turn."""
        for pool, dispatcher in self._all.items():
            if dispatcher is not self._default:
                self._postpone(pool, dispatcher.withdraw_recipients(waited))
        return self._default.withdraw(waited)

    def withdraw_all(self) -> list[int]:
        """Removes all recipients that no thread has taken yet."""
        return [one for dispatcher in self._all.values() for one in dispatcher.withdraw(0)]

    def collect(self, seconds: float) -> list[AttemptResult]:
        """The results so far; waits at most that long for the first one, and not at all if nothing is in flight."""
        results, self._unroutable = self._unroutable, []
        for answer in self._answers.collect(0.0 if results else seconds):
            if isinstance(answer, PassedOn):
                results += self._pass_on(answer)
            else:
                results.append(answer)
        return results

    def collect_postponed(self) -> dict[int, datetime]:
        """The recipients with a new due time."""
        postponed, self.postponed = self.postponed, {}
        return postponed

    def _first_pool(self, recipient: PreparedRecipient) -> TransportPool | None:
        if is_test(recipient):  # it is captured, so it waits for no transport
            return self._sender_worker.pool
        if recipient.route is None:
            names = self._sender_worker.router.route(recipient)
            if names == ONLY_DEFAULT:
                return self._sender_worker.pool
            recipient.route = RouteProgress([*names])
        return self._sender_worker.router.next_pool(recipient.route)

    def _pass_on(self, passed: PassedOn) -> list[AttemptResult]:
        """Queues the message for the next transport; returns its result if there is none any more."""
        recipient = passed.built.recipient
        progress = recipient.route or RouteProgress([])
        progress.passed.append(passed.why)
        TRANSPORT_FAILOVERS.labels(passed.transport).inc()
        pool = self._sender_worker.router.next_pool(progress)
        if pool is None:
            return [deferred(recipient, passed.result or NONE_IN_USE)]
        self._enqueue(pool, [recipient], built=passed.built)
        return []

    def _enqueue(
        self,
        pool: TransportPool,
        recipients: Sequence[PreparedRecipient],
        *,
        room: int | None = None,
        built: BuiltMessage | None = None,
    ) -> None:
        """Queues as many as there is room for and the rate allows; the others get their turn."""
        if pool is self._sender_worker.pool:
            self._default.enqueue(recipients, _by_id(built))
            return
        count = len(recipients) if room is None else max(0, min(room, len(recipients)))
        if pool.rate and count:
            count = allowed_now(self._redis, f"tms:transport:{pool.name}", pool.rate, count)
        if count:
            self._of(pool).enqueue(recipients[:count], _by_id(built))
        self._postpone(pool, recipients[count:])

    def _postpone(self, pool: TransportPool, recipients: Sequence[PreparedRecipient]) -> None:
        count_deferred([one.claimed for one in recipients], WaitReason.TRANSPORT)
        for recipient in recipients:
            self.postponed[recipient.id] = pool.turns.next(recipient.claimed.account_id, pool.step)

    def _of(self, pool: TransportPool) -> Dispatcher:
        if pool not in self._all:
            self._all[pool] = Dispatcher(self._sender_worker, pool, self._answers)
        return self._all[pool]


def _by_id(built: BuiltMessage | None) -> dict[int, BuiltMessage]:
    return {built.recipient.id: built} if built else {}
