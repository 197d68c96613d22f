"""The dispatchers of a drain: they hand messages to the sending threads of each transport, and collect the results."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.clock import uptime
from app.infrastructure.metrics import TRANSPORT_FAILOVERS
from app.infrastructure.shared_rates import SharedRates
from app.recipients.states import WaitReason
from app.routing.table import DEFAULT_TRANSPORT
from app.sends.delivery.claim import LEASE
from app.sends.delivery.connections import ConnectionSlot, TransportPool
from app.sends.delivery.postponed import deferral
from app.sends.delivery.recipient import ClaimedRecipient, RouteProgress
from app.sends.delivery.router import PassedMessage
from app.sends.delivery.sender_worker import SenderWorker, deferred
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.outcomes.attempt_result import AttemptResult

logger = logging.getLogger(__name__)

STALL_TIMEOUT = 0.05
"""Seconds without any answer after which a quick connection counts as slow."""

GATHER_TIME = 0.01
"""Seconds in which more answers arrive while many messages are queued: waking up for each of them would take the
processor from the thread that sends."""

Answer = AttemptResult | PassedMessage


@dataclass(slots=True)
class Answers:
    """What the dispatchers of a drain have in common."""

    received: queue.SimpleQueue[Answer] = field(default_factory=queue.SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)
    dispatchers: list[Dispatcher] = field(default_factory=list)
    building_large: bool = False
    """Whether a thread builds a large message."""

    def collect(self, seconds: float) -> list[Answer]:
        """The answers so far; waits at most that long for the first one, and not at all if nothing is in flight."""
        if not any(self.dispatchers):
            return []
        answers: list[Answer] = []
        with contextlib.suppress(queue.Empty):
            answers.append(self.received.get(timeout=min(seconds, STALL_TIMEOUT)))
            if any(dispatcher.queued() for dispatcher in self.dispatchers):
                time.sleep(GATHER_TIME)
            while True:
                answers.append(self.received.get_nowait())
        for dispatcher in self.dispatchers:
            if answers:
                dispatcher.forget(answers)
            else:
                dispatcher.assist()
        return answers


LEASE_MARGIN = LEASE / 3
"""Seconds before the end of its lease from which on a message is not begun any more: a connection has to be opened, and
the clocks of the machines differ. No message waits until then unless the process was suspended; another worker may have
sent it by now."""

SIGNING_THREADS = os.cpu_count() or 1
"""An RSA signature takes longer than all other work on a mail, and releases the interpreter lock meanwhile."""


class Dispatcher:
    """Hands recipients to the threads of one transport pool and collects the results; its length is the number of
    messages in flight."""

    def __init__(
        self, sender_worker: SenderWorker, pool: TransportPool | None = None, answers: Answers | None = None
    ) -> None:
        self._sender_worker = sender_worker
        self._pool = pool or sender_worker.pool
        self._answers = answers or Answers()
        self._answers.dispatchers.append(self)
        self._lock = self._answers.lock
        self._queue: deque[ClaimedRecipient] = deque()
        self._in_flight: dict[int, ClaimedRecipient] = {}
        self._running = self._blocked = 0
        """Threads that send, and how many of them wait for a slow relay or gateway, or build a large message."""
        self._has_complained = False
        self._being_built: set[int] = set()
        """Recipients in the queue whose messages are being built ahead."""

    def __len__(self) -> int:
        return len(self._in_flight)

    @property
    def recipient_ids(self) -> list[int]:
        """The recipients whose result has not been collected yet."""
        return list(self._in_flight)

    def queued(self) -> int:
        """Number of recipients that no thread has taken yet."""
        return len(self._queue)

    def enqueue(self, recipients: Iterable[ClaimedRecipient]) -> None:
        """Appends recipients to the queue; the messages of some may be built already."""
        moment, added = time.monotonic(), list(recipients)
        for recipient in added:
            recipient.queued_at = moment
        self._in_flight.update((recipient.id, recipient) for recipient in added)
        with self._lock:
            self._queue += added
            threads = SIGNING_THREADS if any(recipient.compiled.domain.keys for recipient in added) else 1
            for _ in range(threads - (self._running - self._blocked)):
                self._start_thread()

    def withdraw(self, waited: float) -> list[int]:
        """Withdraws recipients as `withdraw_recipients` does; returns their ids."""
        return [recipient.id for recipient in self.withdraw_recipients(waited)]

    def withdraw_recipients(self, waited: float) -> list[ClaimedRecipient]:
        """Removes recipients that have been queued for `waited` seconds or longer; nothing was sent to them."""
        latest = time.monotonic() - waited
        withdrawn = list[ClaimedRecipient]()
        with self._lock:
            while self._queue and self._queue[0].queued_at <= latest:
                withdrawn.append(self._queue.popleft())
        self._forget(recipient.id for recipient in withdrawn)
        return withdrawn

    def collect(self, seconds: float) -> list[AttemptResult]:
        """The results so far, of a dispatcher without routes; waits at most that long for the first one, and not at
        all if nothing is in flight."""
        return [answer for answer in self._answers.collect(seconds) if isinstance(answer, AttemptResult)]

    def forget(self, answers: Sequence[Answer]) -> None:
        """The recipients of these answers are not in flight any more."""
        self._forget(answer.recipient_id for answer in answers)

    def _forget(self, ids: Iterable[int]) -> None:
        for recipient_id in ids:
            self._in_flight.pop(recipient_id, None)

    def extend_leases(self, end: float, renewed: Collection[int]) -> None:
        """The leases of `renewed` were renewed, and end then by `uptime`; except those that had ended before: another
        worker may have taken them."""
        moment = uptime()
        for recipient in self._in_flight.values():
            if recipient.id in renewed and moment < recipient.lease_end:
                recipient.lease_end = end

    def assist(self) -> None:
        """Starts one more thread: those that run have had no answer for a while."""
        with self._lock:
            self._start_thread()

    def _start_thread(self) -> None:
        """Starts one more thread, if there is work and a connection for it. Under the lock."""
        if self._running < self._pool.connections and self._has_next():
            try:
                self._pool.start_thread(self._run)
                self._running += 1
            except RuntimeError as error:  # no memory is left for it: `assist` tries again
                if not self._has_complained:
                    logger.warning("messages wait for another thread: %s", error)
                self._has_complained = True

    def _run(self) -> None:
        """The work of one thread, until the queue is empty or other processes get its connection."""
        try:
            with self._pool.slot() as slot:
                recipient, is_announced = self._next(), False
                while recipient:
                    following = self._send(slot, recipient, is_announced=is_announced)
                    if following is None and self._has_surplus():
                        break
                    recipient, is_announced = following or self._next(), following is not None
        finally:
            with self._lock:
                self._running -= 1
                self._start_thread()

    def _send(
        self, slot: ConnectionSlot, recipient: ClaimedRecipient, *, is_announced: bool
    ) -> ClaimedRecipient | None:
        """Sends one message; returns the one that was pipelined behind it, which must be the slot's next."""
        if not _is_fresh(recipient):
            with self._lock:
                self._queue.appendleft(recipient)  # where it is withdrawn
            return None
        route = recipient.route
        if route and route.upcoming and not is_announced and not self._pool.availability.begin():
            self._answers.received.put(PassedMessage(recipient, self._pool.name))
            return None
        if self._sender_worker.mirror:
            self._sender_worker.mirror.await_room()
        # A pipelined message must be the slot's next one, which is impossible if a blind copy comes first.
        following = self._next() if self._may_pipeline(slot) and not recipient.copy else None
        with contextlib.nullcontext() if slot.is_quick else self._blocking():
            answer = self._sender_worker.transmit(slot, recipient, following, self._build_ahead)
        self._pool.seconds = slot.seconds
        if route:
            self._pool.report(answer.result if recipient.has_message else None)
        self._answers.received.put(answer)
        return following

    def _may_pipeline(self, slot: ConnectionSlot) -> bool:
        """Whether no other slot would send the next message sooner."""
        if slot.pipelining is None or self._has_surplus():
            return False
        return slot.is_quick or (slot.is_steady and self._running == self._pool.connections)

    def _has_surplus(self) -> bool:
        """Whether more threads run than this process may have connections."""
        return self._running > self._pool.connections

    @contextlib.contextmanager
    def _blocking(self) -> Iterator[None]:
        """A block during which other threads may send."""
        with self._lock:
            self._blocked += 1
            self._start_thread()
        try:
            yield
        finally:
            with self._lock:
                self._blocked -= 1

    def _next(self) -> ClaimedRecipient | None:
        """The next recipient of the queue, with its message.

        Large ones are built one at a time, while small ones overtake them: several at once would take the interpreter
        from everything else in this process, and all connections from messages that are built at once.
        """
        with self._lock:
            recipient = self._pop()
        if recipient is None or recipient.is_built:
            return recipient
        if not recipient.is_large:
            self._sender_worker.builder.build(recipient)
            return recipient
        try:
            with self._blocking():
                self._sender_worker.builder.build(recipient)
        finally:
            with self._lock:
                self._answers.building_large = False
                self._start_thread()
        return recipient

    def _build_ahead(self) -> float:
        """Builds the message that comes next, while a thread awaits an answer; returns the seconds that it took.

        The recipient stays in the queue: should the answer not come, another thread sends what was built.
        """
        began = time.monotonic()
        with self._lock:
            recipient = self._queue[0] if self._queue else None
            if recipient is None or not self._may_build_ahead(recipient):
                return 0.0
            self._being_built.add(recipient.id)
        self._sender_worker.builder.build(recipient)
        with self._lock:
            self._being_built.discard(recipient.id)
        return time.monotonic() - began

    def _may_build_ahead(self, recipient: ClaimedRecipient) -> bool:
        """A large message is built by a thread that waits for nothing else, and what counts against a quota only when
        it is sent for sure. Under the lock."""
        is_begun = recipient.is_built or recipient.id in self._being_built
        return not (is_begun or recipient.is_large or recipient.quota) and self._may_begin(recipient)

    def _pop(self) -> ClaimedRecipient | None:
        """The first recipient whose message may be built now. Under the lock."""
        for position, recipient in enumerate(self._queue):
            if self._may_begin(recipient):
                del self._queue[position]
                self._answers.building_large |= recipient.is_large and not recipient.is_built
                return recipient
        return None

    def _has_next(self) -> bool:
        """Whether the message of any queued recipient may be built now. Under the lock."""
        return any(map(self._may_begin, self._queue))

    def _may_begin(self, recipient: ClaimedRecipient) -> bool:
        if self._answers.building_large and recipient.is_large and not recipient.is_built:
            return False
        return recipient.id not in self._being_built and _is_fresh(recipient)


def _is_fresh(recipient: ClaimedRecipient) -> bool:
    """Whether the worker certainly still holds the lease."""
    return uptime() < recipient.lease_end - LEASE_MARGIN


DEFAULT_ROUTE = (DEFAULT_TRANSPORT,)
NO_TRANSPORT_DEFERRAL = deferral(WaitReason.NO_TRANSPORT)


class Dispatchers:
    """The dispatchers of all transports, used by the drain as one."""

    def __init__(self, sender_worker: SenderWorker, rates: SharedRates) -> None:
        self._sender_worker = sender_worker
        self._rates = rates
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
        return [
            *waiting,
            *(recipient_id for dispatcher in self._all.values() for recipient_id in dispatcher.recipient_ids),
        ]

    @property
    def pools_in_use(self) -> set[TransportPool]:
        """The pools with a message in flight."""
        return {pool for pool, dispatcher in self._all.items() if dispatcher}

    def queued(self) -> int:
        """Number of recipients that no thread has taken yet."""
        return sum(dispatcher.queued() for dispatcher in self._all.values())

    def enqueue(self, recipients: Iterable[ClaimedRecipient]) -> None:
        """Queues recipients, each for the first available transport of its route."""
        if self._sender_worker.router.is_empty:
            self._enqueue(self._sender_worker.pool, [*recipients])
            return
        by_pool: dict[TransportPool, list[ClaimedRecipient]] = defaultdict(list)
        for recipient in recipients:
            if pool := self._first_pool(recipient):
                by_pool[pool].append(recipient)
            else:
                self._unroutable.append(deferred(recipient, NO_TRANSPORT_DEFERRAL))
        for pool, some in by_pool.items():
            self._enqueue(pool, some, room=pool.room - len(self._of(pool)))

    def extend_leases(self, end: float, renewed: Collection[int]) -> None:
        """Extends leases as each dispatcher does."""
        for dispatcher in self._all.values():
            dispatcher.extend_leases(end, renewed)

    def withdraw(self, waited: float) -> list[int]:
        """Removes recipients that have waited that long for a connection; returns those of the default transports. The
        others get their turn."""
        for pool, dispatcher in self._all.items():
            if dispatcher is not self._default:
                self._postpone(pool, dispatcher.withdraw_recipients(waited))
        return self._default.withdraw(waited)

    def withdraw_all(self) -> list[int]:
        """Removes all recipients that no thread has taken yet."""
        return [recipient_id for dispatcher in self._all.values() for recipient_id in dispatcher.withdraw(0)]

    def collect(self, seconds: float) -> list[AttemptResult]:
        """The results so far; waits at most that long for the first one, and not at all if nothing is in flight."""
        results, self._unroutable = self._unroutable, []
        for answer in self._answers.collect(0.0 if results else seconds):
            if isinstance(answer, PassedMessage):
                results += self._pass_on(answer)
            else:
                results.append(answer)
        return results

    def collect_postponed(self) -> dict[int, datetime]:
        """The recipients with a new due time."""
        postponed, self.postponed = self.postponed, {}
        return postponed

    def _first_pool(self, recipient: ClaimedRecipient) -> TransportPool | None:
        if recipient.compiled.send.is_test:  # it is captured, so it waits for no transport
            return self._sender_worker.pool
        if recipient.route is None:
            names = self._sender_worker.router.route(recipient)
            if names == DEFAULT_ROUTE:
                return self._sender_worker.pool
            recipient.route = RouteProgress([*names])
        return self._sender_worker.router.next_pool(recipient.route)

    def _pass_on(self, passed: PassedMessage) -> list[AttemptResult]:
        """Queues the message for the next transport; returns its result if there is none any more."""
        recipient = passed.recipient
        progress = recipient.route or RouteProgress([])
        progress.passed.append(passed.why)
        TRANSPORT_FAILOVERS.labels(passed.transport).inc()
        pool = self._sender_worker.router.next_pool(progress)
        if pool is None:
            return [deferred(recipient, passed.result or NO_TRANSPORT_DEFERRAL)]
        self._enqueue(pool, [recipient])
        return []

    def _enqueue(self, pool: TransportPool, recipients: Sequence[ClaimedRecipient], *, room: int | None = None) -> None:
        """Queues as many as there is room for and the rate allows; the others get their turn."""
        if pool.is_shared:
            recipients = self._postpone_others(pool, recipients)
        if pool is self._sender_worker.pool:
            self._default.enqueue(recipients)
            return
        count = len(recipients) if room is None else max(0, min(room, len(recipients)))
        if pool.rate and count:
            count = self._rates.take(f"tms:transport:{pool.name}", pool.rate, count).allowed
        if count:
            self._of(pool).enqueue(recipients[:count])
        self._postpone(pool, recipients[count:])

    def _postpone_others(self, pool: TransportPool, recipients: Sequence[ClaimedRecipient]) -> list[ClaimedRecipient]:
        """Gives a turn to those that other processes are to send, and returns the rest."""
        self._postpone(pool, [recipient for recipient in recipients if not pool.sends(recipient.type)])
        return [recipient for recipient in recipients if pool.sends(recipient.type)]

    def _postpone(self, pool: TransportPool, recipients: Sequence[ClaimedRecipient]) -> None:
        count_deferred(recipients, WaitReason.TRANSPORT)
        for recipient in recipients:
            self.postponed[recipient.id] = pool.turns.next(recipient.account_id, pool.step)

    def _of(self, pool: TransportPool) -> Dispatcher:
        if pool not in self._all:
            self._all[pool] = Dispatcher(self._sender_worker, pool, self._answers)
        return self._all[pool]
