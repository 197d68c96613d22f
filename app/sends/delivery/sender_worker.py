"""The sender worker: the state of a process that lasts from drain to drain: its name, its journal, the pool of its
default transports with one connection slot per connection that SEND_CONNECTIONS allows, and those of its routes.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.infrastructure import logs, tracing
from app.infrastructure.liveness import new_process_name
from app.recipients.redaction import Redaction
from app.routing.table import DEFAULT
from app.sends.delivery.batch_size import AdaptiveBatchSize
from app.sends.delivery.build import BuiltMessage, MessageBuilder, deferred_by_fault
from app.sends.delivery.capture import Capture, capture_in, is_test
from app.sends.delivery.compose import PreparedRecipient
from app.sends.delivery.connection_slots import ConnectionSlot, id_at, send_copy, send_over
from app.sends.delivery.due_accounts import DueAccounts
from app.sends.delivery.not_sent import not_sent
from app.sends.delivery.passed_on import PassedOn
from app.sends.delivery.route_progress import RouteProgress
from app.sends.delivery.router import Router
from app.sends.delivery.simulated_answers import simulated_delay
from app.sends.delivery.transmission_counts import Transmission
from app.sends.delivery.transport_pool import TransportPool
from app.sends.delivery.unsendable import Unsendable
from app.sends.outcomes.attempt_result import AttemptResult, redact_reply, sanitize_result
from app.sends.outcomes.expired_leases import ExpiredLeases
from app.sends.outcomes.journal import Journal, journal_folder
from app.services import Services
from app.settings import Settings
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms, Outcome, Transport
from app.transports.email import email_transport
from app.transports.sms import sms_transport
from app.transports.sms.incoming import IncomingHandler, ReceivingTransport

logger = logging.getLogger(__name__)


JOURNAL_RETRY_DELAY = 1.0
"""Seconds before a journal that cannot be written is tried again."""
QUIET_SECONDS = 60.0
"""Between two lines in the log about it."""


def no_time() -> float:
    """What a thread does while it awaits an answer, if it has nothing to do."""
    return 0.0


class SenderWorker:
    """One per process that sends; one drain at a time uses it."""

    def __init__(self, settings: Settings, sms: Transport[OutboundSms], capture: Capture) -> None:
        email = email_transport(settings.email_transport_url)
        self.builder = MessageBuilder(settings)
        self._redaction = Redaction.of(settings)
        self.sms = sms
        self.capture = capture
        self.connections = settings.send_connections
        self.pool = TransportPool(
            DEFAULT, lambda: ConnectionSlot(email.connect(), sms.connect()), settings.send_connections
        )
        self.router = Router(settings, self.pool)
        self.name = new_process_name()
        self.journal = Journal(journal_folder(settings), self.name)
        self._next_mend, self._said_broken = 0.0, -QUIET_SECONDS
        self.batch_size = AdaptiveBatchSize()
        self.due = DueAccounts()
        self.leases = ExpiredLeases()
        self.last_account = 0
        """Last account served (round-robin cursor)."""
        self.claims = itertools.count()
        """The numbers of its claims."""

    def has_journal(self) -> bool:
        """Whether results can be journalled. As long as they cannot, nothing is sent: a kill would have it sent
        again."""
        if time.monotonic() < self._next_mend:
            return False
        was_broken = self.journal.is_broken
        try:
            self.journal.mend()
        except OSError as error:
            self._next_mend = time.monotonic() + JOURNAL_RETRY_DELAY
            if not was_broken or time.monotonic() > self._said_broken + QUIET_SECONDS:
                logger.error("sending waits: the journal cannot be written: %s", error)
                self._said_broken = time.monotonic()
            return False
        if was_broken:
            logger.warning("the journal can be written again; sending goes on")
        return True

    def clear_journal(self) -> None:
        """Empties the journal: every result is in the database. Those that stay in it are written twice, which changes
        nothing."""
        try:
            self.journal.clear()
        except OSError as error:
            logger.error("the journal cannot be emptied: %s", error)

    def transmit(
        self,
        slot: ConnectionSlot,
        built: BuiltMessage,
        following: BuiltMessage | None = None,
        while_waiting: Callable[[], float] = no_time,
    ) -> AttemptResult | PassedOn:
        """Sends one message and journals the result, unless the next transport of its route is to send it. Raises
        nothing: an internal fault defers.

        `following` is the message that the slot sends next, if it is known. `while_waiting` is called while the answer
        is awaited; it raises nothing, and returns the seconds that it took.
        """
        recipient = built.recipient
        logs.request_id.set(recipient.compiled.send.request_id)
        if isinstance(built.message, Unsendable):
            return not_sent(recipient, built.message.reason, str(built.message))
        transmission, other = Transmission(), list[float]()
        try:
            with _span(recipient, slot) as open_span:
                answer = self._answer(slot, built, following, lambda: other.append(while_waiting()))
                open_span.add(tms__outcome=answer.outcome.value, tms__status=answer.status)
            result = redact_reply(sanitize_result(answer), slot.redaction or self._redaction, recipient.claimed.secrets)
        except BaseException as fault:
            # An installed transport may raise anything, and a message without a result would be awaited forever.
            result = deferred_by_fault(recipient, fault)
            slot.close()  # it may have been left in the middle of a transaction
        if built.copy and result.outcome is Outcome.ACCEPTED:
            with_copy = result._replace(reply=result.reply + self._send_copy(slot, recipient, built.copy))
            result = redact_reply(
                sanitize_result(with_copy), slot.redaction or self._redaction, recipient.claimed.secrets
            )
        slot.seconds = time.monotonic() - transmission.started - sum(other)
        transmission.count(recipient, slot.transport or DEFAULT, result)
        if recipient.route is not None:
            if result.untaken and recipient.route.upcoming:
                return PassedOn(built, slot.transport or DEFAULT, result)
            result = _on_route(result, recipient.route, slot)
        attempt = _attempt_result(built, result, slot.transport)
        self._write_journal(attempt)
        return attempt

    def _answer(
        self,
        slot: ConnectionSlot,
        built: BuiltMessage,
        following: BuiltMessage | None,
        while_waiting: Callable[[], None],
    ) -> DeliveryResult:
        """The answer of the relay or gateway, or of the capture store for a test: no test message comes to a
        connection, not even behind another one."""
        if isinstance(built.message, OutboundEmail | OutboundSms) and is_test(built.recipient):
            return self.capture(built.recipient, built.message, is_copy=False)
        next_message = None if following is None or is_test(following.recipient) else following
        return send_over(slot, built, next_message, while_waiting)

    def _send_copy(self, slot: ConnectionSlot, recipient: PreparedRecipient, copy: OutboundEmail) -> str:
        """Sends or captures the blind copy; returns a text to add to the reply, empty if it is accepted."""
        if not is_test(recipient):
            return send_copy(slot, copy)
        try:
            self.capture(recipient, copy, is_copy=True)
        except SQLAlchemyError:
            logger.exception("cannot capture the copy", extra={"uuid": copy.uuid})
            return f"; no copy to {copy.to}: internal fault"
        return ""

    def _write_journal(self, attempt: AttemptResult) -> None:
        """A full disk must not keep the result from the database."""
        was_broken = self.journal.is_broken
        try:
            self.journal.append(attempt)
        except OSError:
            if not was_broken:
                logger.exception("cannot write the journal", extra={"recipient_id": attempt.recipient_id})

    def listen(self, handler: IncomingHandler) -> None:
        """Makes the handler process what the SMS gateways deliver over the connections that send, if they do."""
        self.router.listen(handler)
        if isinstance(self.sms, ReceivingTransport):
            self.sms.listen(handler)

    def close(self) -> None:
        """Closes everything, including the binds to SMS gateways."""
        self.close_except_bind()
        self.router.end()
        if isinstance(self.sms, ReceivingTransport):
            self.sms.end()

    def close_except_bind(self) -> None:
        """Closes threads, connections and journal, but no bind; waits for messages in flight."""
        self.router.close_pools()
        self.pool.close()
        self.journal.close()


def _span(recipient: PreparedRecipient, slot: ConnectionSlot) -> AbstractContextManager[tracing.Span]:
    """The span of one message's way to a relay or gateway and of its answer."""
    return tracing.span(
        "transmit",
        request_id=recipient.compiled.send.request_id,
        tms__uuid=recipient.claimed.uuid,
        tms__type=recipient.compiled.send.type,
        tms__transport=slot.transport or DEFAULT,
        tms__attempt=recipient.claimed.attempts,
    )


def _attempt_result(built: BuiltMessage, result: DeliveryResult, transport: str | None) -> AttemptResult:
    recipient = built.recipient
    tests = is_test(recipient)
    return AttemptResult(
        recipient.id,
        recipient.claimed.attempts,
        recipient.address,
        now(),
        result=result,
        rendered=built.rendered_bytes,
        transport=transport,
        retry_in=simulated_delay(recipient.claimed, recipient.address) if tests else None,
        is_test=tests,
    )


def _on_route(result: DeliveryResult, progress: RouteProgress, slot: ConnectionSlot) -> DeliveryResult:
    """The result with what went before it on the route, and a gateway's id that tells its gateway."""
    gateway_id = result.gateway_id and id_at(slot.transport, result.gateway_id)
    return result._replace(note=progress.note(result.note), gateway_id=gateway_id)


_sender_workers: dict[Services, SenderWorker] = {}
_lock = threading.Lock()


def sender_worker_of(services: Services, handler: IncomingHandler | None = None) -> SenderWorker:
    """The sender worker of this process, created at the first call. `handler` processes what an SMS gateway delivers
    over the connection that sends (receipts and replies); without one, nothing is received."""
    with _lock:
        if services not in _sender_workers:
            sms = sms_transport(services.settings.sms_transport_url)
            sender_worker = SenderWorker(services.settings, sms, capture_in(services.database))
            _sender_workers[services] = sender_worker
            if handler:
                sender_worker.listen(handler)
        return _sender_workers[services]


def renew_sender_worker(services: Services) -> None:
    """Replaces the sender worker after its drain has crashed.

    The journal of the old one then counts as a dead worker's. Its bind to an SMS gateway is handed on to the new one:
    the bind has no part in a crash, and receipts and replies must not wait for the next text message. Without a journal
    there is none until a drain can create one.
    """
    with _lock:
        old = _sender_workers.pop(services, None)
        if old is None:
            return
        try:
            old.close_except_bind()
            new = SenderWorker(services.settings, old.sms, old.capture)
            new.router.take_over(old.router)
            _sender_workers[services] = new
        except BaseException as error:
            old.router.end()
            if isinstance(old.sms, ReceivingTransport):
                old.sms.end()
            if not isinstance(error, OSError):
                raise
            logger.error("there is no sender: its journal cannot be created: %s", error)


def close_sender_worker(services: Services) -> None:
    """Closes the sender worker of this process, if there is one."""
    with _lock:
        sender_worker = _sender_workers.pop(services, None)
    if sender_worker:
        sender_worker.close()
