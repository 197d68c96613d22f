"""Webhook dispatcher: claims due batches, signs and posts them, for several webhooks at once.

All state is in the database (`batches`), so a process may die at any point and another takes over: one of this machine
at once, one of another machine when the lease ends. Each request has a thread, so that a slow receiver delays only its
own events. The threads are daemons: a process that stops does not wait for a receiver.
"""

from __future__ import annotations

import atexit
import logging
import ssl
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from functools import cache

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.outage import is_unavailable, log_failure
from app.events import batches
from app.events.batches import Batch, Exclusions, has_due, recover_leases, release_unknown_leases
from app.events.endpoint import Endpoint, PostResult
from app.events.guarded_connection import Target, Watchdog, read_target, trusted_roots
from app.events.signing import request_body, signature_header
from app.infrastructure import liveness
from app.infrastructure.tracing import span
from app.secret_keys import SecretUnreadable, decrypt
from app.services import Services
from app.settings import Settings

logger = logging.getLogger(__name__)


# HTTP client for webhooks, over urllib3. Receivers may be slow, broken or hostile.
#
# A request follows no redirect, uses no proxy of the environment, sends no cookies, verifies TLS, connects only to
# addresses that the SSRF guard has checked (`guarded_connection`), and ends in a bounded time whatever the receiver
# does: a watchdog cuts the connection of a receiver that trickles bytes. The connection of a webhook is kept for its
# next batch.

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
MAX_IDLE = 100


class WebhookClient:
    """The endpoints of one process. Its methods may be called from several threads."""

    def __init__(
        self,
        trust: ssl.SSLContext | None = None,
        *,
        connect_timeout: float = CONNECT_TIMEOUT,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self._trust = trust or trusted_roots()
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._lock = threading.Lock()
        self._watchdog = Watchdog()
        self._idle: OrderedDict[int, Endpoint] = OrderedDict()
        self._busy: set[Endpoint] = set()

    def post(
        self, webhook_id: int, url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool
    ) -> PostResult:
        """Posts the body. Never raises because of the URL, the network or the receiver."""
        try:
            target = read_target(url, allow_private=allow_private)
        except ValueError as error:
            return PostResult(None, str(error), now())
        endpoint = self._check_out(webhook_id, target)
        try:
            return endpoint.post(body, headers)
        finally:
            self._check_in(webhook_id, endpoint)

    def abort(self) -> None:
        """Ends the requests in flight, for a process that must stop."""
        with self._lock:
            busy = list(self._busy)
        for endpoint in busy:
            endpoint.cut()

    def close(self) -> None:
        """Closes the connections that are kept."""
        with self._lock:
            while self._idle:
                self._idle.popitem()[1].close()

    def _check_out(self, webhook_id: int, target: Target) -> Endpoint:
        """The webhook's endpoint, for this thread alone."""
        with self._lock:
            endpoint = self._idle.pop(webhook_id, None)
        if endpoint is not None and endpoint.target != target:
            endpoint.close()
            endpoint = None
        if endpoint is None:
            endpoint = Endpoint(target, self._trust, self._watchdog, self._connect_timeout, self._read_timeout)
        with self._lock:
            self._busy.add(endpoint)
        return endpoint

    def _check_in(self, webhook_id: int, endpoint: Endpoint) -> None:
        surplus: list[Endpoint] = []
        with self._lock:
            self._busy.discard(endpoint)
            replaced = self._idle.pop(webhook_id, None)
            if replaced is not None:
                surplus.append(replaced)
            self._idle[webhook_id] = endpoint
            while len(self._idle) > MAX_IDLE:
                surplus.append(self._idle.popitem(last=False)[1])
        for surplus_endpoint in surplus:
            surplus_endpoint.close()


__all__ = ["WebhookDispatcher", "dispatch_due", "has_due"]

USER_AGENT = "transactional-messaging-service"
MAX_IN_FLIGHT = 24
FREE_PER_REQUEST = 2
"""For each request of an account, so many of a process stay free for other accounts: one account, however many slow
webhooks it has, gets a third of them, another one a third of the rest, and so on."""
JOB_SECONDS = 30.0
"""Seconds after which the worker can run its other jobs; requests in flight continue meanwhile."""
POLL_SECONDS = 0.25
DATABASE_RETRY_SECONDS = 0.5
"""Seconds before an unavailable database is tried again."""
WEBHOOK_SECONDS = 1.0
"""Seconds for which a webhook may send further batches before its thread turns to another due one."""
CANNOT_SIGN = "a secret of the webhook cannot sign requests: replace it"
GRACE_SECONDS = 2.0
"""Seconds for which requests in flight may end by themselves when the process stops."""
STOP_SECONDS = 6.0


def dispatch_due(services: Services) -> None:
    """Sends due batches until none is left, `services.stopping` is set, or `JOB_SECONDS` are over."""
    _dispatcher().run(services)


@cache
def _dispatcher() -> WebhookDispatcher:
    """The dispatcher of the process: it keeps the connections, and its limit counts all requests in flight."""
    client = WebhookClient()
    atexit.register(client.close)
    return WebhookDispatcher(client)


class WebhookDispatcher:
    """Posts the batches of one process. `run` is called by one thread at a time."""

    def __init__(self, client: WebhookClient) -> None:
        self._client = client
        self._in_flight: dict[str, tuple[int, int]] = {}
        """Lease tokens of the requests in flight, with the ids of their webhooks and accounts."""
        self._unrecorded: set[str] = set()
        """Lease tokens of requests whose result waits for the database."""
        self._may_have_unknown_leases = False
        """The database failed, but may have committed a claim of this process."""
        self._request_ended = threading.Event()

    @property
    def unrecorded(self) -> int:
        """Number of answered requests whose result waits for the database."""
        return len(self._unrecorded)

    def run(self, services: Services) -> None:
        """See `dispatch_due`."""
        end = time.monotonic() + JOB_SECONDS
        self._recover_leases(services)
        # No wake-up comes for a webhook that is leased to this process without its knowledge.
        while not services.stopping.is_set() and (time.monotonic() < end or self._may_have_unknown_leases):
            liveness.report()
            self._request_ended.clear()
            # Read before the query: a request that ends during it may have made its webhook due again.
            idle = not self._in_flight
            if not self._start_available(services) and idle and not self._may_have_unknown_leases:
                return
            self._request_ended.wait(POLL_SECONDS)
        if services.stopping.is_set():
            self._stop()

    def _recover_leases(self, services: Services) -> None:
        try:
            recover_leases(services)
        except SQLAlchemyError as error:
            self._wait_for_database(error)

    def _start_available(self, services: Services) -> bool:
        """Starts due batches while the database is available; returns whether any was started."""
        try:
            if self._may_have_unknown_leases:
                release_unknown_leases(services, set(self._in_flight))
                self._may_have_unknown_leases = False
            return self._start_due(services)
        except SQLAlchemyError as error:
            self._wait_for_database(error)
            return False

    def _wait_for_database(self, error: SQLAlchemyError) -> None:
        """Raises any error except that the database is unavailable."""
        if not is_unavailable(error):
            raise error
        self._may_have_unknown_leases = True
        log_failure(logger, "webhooks wait", error)
        time.sleep(DATABASE_RETRY_SECONDS)

    def _start_due(self, services: Services) -> bool:
        started = False
        while len(self._in_flight) < MAX_IN_FLIGHT:
            exclusions = self._exclusions()
            # The query takes no write lock; most of the time there is nothing to claim.
            with services.database.read() as session:
                due = has_due(session, services.settings, exclusions)
            batch = batches.claim(services, exclusions) if due else None
            if batch is None:
                break
            started = True
            thread = threading.Thread(target=self._deliver, args=(services, batch), daemon=True, name="webhook")
            self._in_flight[batch.lease_token] = batch.webhook_id, batch.account_id
            try:
                thread.start()
            except RuntimeError:  # no memory is left for it: the next run releases the lease
                del self._in_flight[batch.lease_token]
                self._may_have_unknown_leases = True
                raise
        return started

    def _exclusions(self) -> Exclusions:
        """The webhooks of the requests in flight, which seem due if their leases run out before a result can be
        recorded, and accounts that have their share of requests."""
        in_flight = list(self._in_flight.values())
        most = (MAX_IN_FLIGHT - len(in_flight)) / FREE_PER_REQUEST
        requests = Counter(account_id for _, account_id in in_flight)
        with_share = [account_id for account_id, number in requests.items() if number >= most]
        return Exclusions([webhook_id for webhook_id, _ in in_flight], with_share)

    def _deliver(self, services: Services, first: Batch) -> None:
        """Sends the batch, then further due batches of its webhook for `WEBHOOK_SECONDS`."""
        end = time.monotonic() + WEBHOOK_SECONDS
        batch: Batch | None = first
        try:
            while batch is not None:
                result = self._post(services, batch)
                claim_next = time.monotonic() < end and not services.stopping.is_set()
                batch = self._record(services, batch, result, claim_next=claim_next)
        except Exception:
            # The lease ends by itself, and the batch is sent again under the same id.
            logger.exception("webhook %s: the result of a request could not be recorded", first.webhook_id)
        finally:
            self._in_flight.pop(first.lease_token, None)
            self._unrecorded.discard(first.lease_token)
            self._request_ended.set()

    def _record(self, services: Services, batch: Batch, result: PostResult, *, claim_next: bool) -> Batch | None:
        """Writes the result however long the database is unavailable: an accepted batch is not sent again."""
        while True:
            try:
                next_batch = _record_result(services, batch, result, claim_next=claim_next)
            except SQLAlchemyError as error:
                self._unrecorded.add(batch.lease_token)
                self._wait_for_database(error)
            else:
                self._unrecorded.discard(batch.lease_token)
                return next_batch

    def _post(self, services: Services, batch: Batch) -> PostResult:
        settings = services.settings
        body = request_body(batch.payloads)
        try:
            signature = _signature(settings, batch, body)
        except SecretUnreadable as error:
            return PostResult(None, str(error), now())
        except Exception:  # such as for a secret from when secrets were not checked
            logger.exception("webhook %s: a request cannot be signed", batch.webhook_id)
            return PostResult(None, CANNOT_SIGN, now())
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, "Service-Signature": signature}
        allow_private = settings.webhook_allow_private
        with span("webhook", tms__webhook_id=batch.webhook_id, tms__events=len(batch.payloads)) as open_span:
            began = now()
            try:
                result = self._client.post(batch.webhook_id, batch.url, body, headers, allow_private=allow_private)
            except MemoryError:
                logger.exception("webhook %s: no memory is left for a request", batch.webhook_id)
                result = PostResult(None, "no memory was left to send it", began)
            open_span.add(http__response__status_code=result.status)
        return result

    def _stop(self) -> None:
        """Waits for the requests in flight; aborts those that take too long, which releases their leases."""
        began = time.monotonic()
        aborted = False
        while self._in_flight and time.monotonic() - began < STOP_SECONDS:
            if not aborted and time.monotonic() - began >= GRACE_SECONDS:
                self._client.abort()
                aborted = True
            self._request_ended.clear()
            self._request_ended.wait(POLL_SECONDS)


def _signature(settings: Settings, batch: Batch, body: bytes) -> str:
    """The header that proves the body. Raises `SecretUnreadable`."""
    return signature_header(
        [(key_id, decrypt(settings.secret_keys, stored)) for key_id, stored in batch.stored_secrets],
        issuer=settings.public_url,
        webhook_id=batch.webhook_id,
        batch_id=batch.batch_id,
        body=body,
        now=now(),
    )


def _record_result(services: Services, batch: Batch, result: PostResult, *, claim_next: bool) -> Batch | None:
    """Records the result; returns the next batch of the webhook if one was claimed with it."""
    if result.status is None and services.stopping.is_set():
        batches.release(services, batch)
    elif result.status == 410:
        batches.delete_gone(services, batch)
    elif result.status is not None and 200 <= result.status < 300:
        return batches.record_delivered(services, batch, result, claim_next=claim_next)
    else:
        batches.record_failed(services, batch, result)
    return None
