"""Dispatch: takes the batches that are due, signs and posts them, several webhooks at once.

The work is in the database (`batches`); a process may die at any line and another takes over: the next one of this
machine at once, one of another machine when the lease ends.
Each request has a thread, so that a slow receiver holds up nobody but itself. The threads are daemons: a process that
is told to end does not wait for somebody else's server.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from functools import cache

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.outage import is_unavailable, log_failure
from app.events import batches
from app.events.batches import Batch, has_due
from app.events.endpoint import PostResult
from app.events.http_client import WebhookClient
from app.events.lease_recovery import give_back_others, take_over
from app.events.signing import signature_header
from app.infrastructure.secrets import SecretUnreadable, decrypt
from app.services import Services

__all__ = ["WebhookDispatcher", "dispatch_due", "has_due"]

USER_AGENT = "transactional-messaging-service"
AT_ONCE = 8
SLICE = 30.0
"""Seconds after which the worker gets a chance to do its other jobs; what is in flight goes on meanwhile."""
LOOK_EVERY = 0.25
PAUSE = 0.5
"""Seconds before a database that is away is asked again."""
TURN = 1.0
"""Seconds for which a webhook may go on with its next batches before others that wait get its thread."""
GRACE = 2.0
"""Seconds that requests in flight have to end by themselves when the process stops."""
STOP_WITHIN = 6.0

logger = logging.getLogger(__name__)


def dispatch_due(services: Services) -> None:
    """Sends what is due until nothing is, `services.stopping` is set, or the time slice ends."""
    _dispatcher().run(services)


@cache
def _dispatcher() -> WebhookDispatcher:
    """One per process: its connections stay warm, and its limit counts all requests in flight."""
    client = WebhookClient()
    atexit.register(client.close)
    return WebhookDispatcher(client)


class WebhookDispatcher:
    """Runs the requests of a process. `run` is called by one thread at a time."""

    def __init__(self, client: WebhookClient) -> None:
        self._client = client
        self._in_flight: set[str] = set()
        self._unrecorded: set[str] = set()
        """Claims of requests whose outcome waits for the database."""
        self._in_doubt = False
        """The database failed, and may have given this process a webhook all the same."""
        self._landed = threading.Event()

    @property
    def unrecorded(self) -> int:
        """Requests that have been answered, and whose outcome waits for the database."""
        return len(self._unrecorded)

    def run(self, services: Services) -> None:
        """See `dispatch_due`."""
        end = time.monotonic() + SLICE
        self._take_over(services)
        # Nobody would wake this process for a webhook that it holds without knowing.
        while not services.stopping.is_set() and (time.monotonic() < end or self._in_doubt):
            self._landed.clear()
            # Asked before the look: what lands during it may have made its webhook due again.
            idle = not self._in_flight
            if not self._look(services) and idle and not self._in_doubt:
                return
            self._landed.wait(LOOK_EVERY)
        if services.stopping.is_set():
            self._stop()

    def _take_over(self, services: Services) -> None:
        try:
            take_over(services)
        except SQLAlchemyError as error:
            self._wait_for_database(error)

    def _look(self, services: Services) -> bool:
        """Starts what is due; whether there was anything. A database that is away is looked at by the next wake-up."""
        if self._unrecorded:
            return False  # what they answer for may seem due, when their lease has run out meanwhile
        try:
            if self._in_doubt:
                give_back_others(services, set(self._in_flight))
                self._in_doubt = False
            return self._start_due(services)
        except SQLAlchemyError as error:
            self._wait_for_database(error)
            return False

    def _wait_for_database(self, error: SQLAlchemyError) -> None:
        """Raises any failure but that it is unavailable."""
        if not is_unavailable(error):
            raise error
        self._in_doubt = True
        log_failure(logger, "webhooks wait", error)
        time.sleep(PAUSE)

    def _start_due(self, services: Services) -> bool:
        started = False
        while len(self._in_flight) < AT_ONCE:
            # Looking costs no write lock; most of the time there is nothing to claim.
            with services.database.read() as session:
                due = has_due(session)
            batch = batches.claim(services) if due else None
            if batch is None:
                break
            started = True
            self._in_flight.add(batch.claim)
            thread = threading.Thread(target=self._deliver, args=(services, batch), daemon=True, name="webhook")
            thread.start()
        return started

    def _deliver(self, services: Services, first: Batch) -> None:
        """Sends the batch, and those that may leave right after it, for a turn."""
        end = time.monotonic() + TURN
        batch: Batch | None = first
        try:
            while batch is not None:
                answer = self._post(services, batch)
                go_on = time.monotonic() < end and not services.stopping.is_set()
                batch = self._record(services, batch, answer, go_on=go_on)
        except Exception:
            # The lease ends by itself, and the batch is sent again under the same id.
            logger.exception("webhook %s: the outcome of a request could not be recorded", first.webhook_id)
        finally:
            self._in_flight.discard(first.claim)
            self._unrecorded.discard(first.claim)
            self._landed.set()

    def _record(self, services: Services, batch: Batch, answer: PostResult, *, go_on: bool) -> Batch | None:
        """Writes the outcome, however long the database is away: what a receiver has accepted is not sent again."""
        while True:
            try:
                following = _settle(services, batch, answer, go_on=go_on)
            except SQLAlchemyError as error:
                self._unrecorded.add(batch.claim)
                self._wait_for_database(error)
            else:
                self._unrecorded.discard(batch.claim)
                return following

    def _post(self, services: Services, batch: Batch) -> PostResult:
        settings = services.settings
        body = b'{"events":[' + ",".join(batch.payloads).encode() + b"]}"
        try:
            signers = [(key_id, decrypt(settings.secret_key, stored)) for key_id, stored in batch.stored_secrets]
        except SecretUnreadable as error:
            return PostResult(None, str(error), now())
        signature = signature_header(
            signers,
            issuer=settings.public_url,
            webhook_id=batch.webhook_id,
            batch_id=batch.batch_id,
            body=body,
            now=now(),
        )
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, "Service-Signature": signature}
        allow_private = settings.webhook_allow_private
        return self._client.post(batch.webhook_id, batch.url, body, headers, allow_private=allow_private)

    def _stop(self) -> None:
        """Lets the requests in flight end; cuts those that take too long, which gives their webhooks back."""
        began = time.monotonic()
        cut = False
        while self._in_flight and time.monotonic() - began < STOP_WITHIN:
            if not cut and time.monotonic() - began >= GRACE:
                self._client.abort()
                cut = True
            self._landed.clear()
            self._landed.wait(LOOK_EVERY)


def _settle(services: Services, batch: Batch, answer: PostResult, *, go_on: bool) -> Batch | None:
    """Records the outcome; gives the batch to go on with."""
    if answer.status is None and services.stopping.is_set():
        batches.release(services, batch)
    elif answer.status == 410:
        batches.gone(services, batch)
    elif answer.status is not None and 200 <= answer.status < 300:
        return batches.delivered(services, batch, answer, go_on=go_on)
    else:
        batches.failed(services, batch, answer)
    return None
