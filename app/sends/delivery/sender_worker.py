"""The sender worker: the state of a process that lasts from drain to drain, and sending one message."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from app.addresses import ADDRESS_KIND_BY_TYPE, normalize_address
from app.clock import now, seconds_from_now, this_second
from app.db.bulk import insert_new_rows
from app.db.database import Database
from app.db.due import DueAccounts
from app.db.models import CapturedMessage
from app.db.queue import SEND_QUEUE
from app.decoding import decode_words
from app.inbox.magic import SIMULATED_BY_ANSWER, SIMULATION_DELAY, Magic, magic_of
from app.infrastructure import logs, tracing
from app.infrastructure.liveness import new_process_name
from app.recipients.redaction import Redaction
from app.routing.table import DEFAULT_TRANSPORT
from app.sends.delivery.connections import (
    ConnectionSlot,
    Limits,
    TransportPool,
    binds_of,
    id_at,
    send_copy,
    send_over,
    share_binds,
)
from app.sends.delivery.message import MessageBuilder, deferred_by_fault
from app.sends.delivery.recipient import ClaimedRecipient, RouteProgress
from app.sends.delivery.router import PassedMessage, Router
from app.sends.delivery.transmission_counts import Transmission
from app.sends.outcomes.attempt_result import AttemptResult, Journal, journal_folder, redact_reply, sanitize_result
from app.sends.outcomes.mirror import Mirror
from app.sends.outcomes.recovery import ExpiredLeases
from app.services import Services
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms, Outcome, Transport
from app.transports.email import email_transport
from app.transports.sms import sms_transport
from app.transports.sms.incoming import IncomingHandler, ReceivingTransport
from app.transports.sms.segments import count_segments

logger = logging.getLogger(__name__)


SLOW_DELAYS = (1.0, 2.0)
"""Seconds until the next attempt after each deferral; then the message is accepted."""
NO_NEXT_ATTEMPT = math.inf

# Not of the codes that concern a whole domain: further mail to magic addresses is not backed off.
_DEFERRED_MAIL = DeliveryResult.deferred("451 4.3.2 simulated: try again later", "4.3.2")
_DEFERRED_TEXT = DeliveryResult.deferred("simulated: try again later")
_SIMULATED_RESULTS = {
    Magic.BOUNCE: DeliveryResult.refused("550 5.1.1 simulated: no such user", "5.1.1"),
    Magic.REJECTED: DeliveryResult.refused("simulated: the number is invalid"),
    Magic.EXPIRED: _DEFERRED_TEXT,
}


def simulated_answer(magic: Magic | None, message_type: str, attempt: int) -> DeliveryResult | None:
    """The answer to this attempt; None if the message is accepted."""
    if magic is Magic.SLOW:
        deferred = _DEFERRED_TEXT if message_type == "sms" else _DEFERRED_MAIL
        return deferred if attempt <= len(SLOW_DELAYS) else None
    return _SIMULATED_RESULTS.get(magic) if magic else None


def simulated_delay(recipient: ClaimedRecipient, address: str) -> float | None:
    """Seconds until the next attempt at a magic address that defers this one; infinite if there is none. None if the
    retry rules apply."""
    magic = magic_of(recipient.type, address)
    if magic is Magic.SLOW and recipient.attempts <= len(SLOW_DELAYS):
        return SLOW_DELAYS[recipient.attempts - 1]
    return NO_NEXT_ATTEMPT if magic is Magic.EXPIRED else None


def capture(
    database: Database, recipient: ClaimedRecipient, message: OutboundEmail | OutboundSms, *, is_copy: bool
) -> DeliveryResult:
    """Stores a message of a test account, in a transaction of its own, and answers as a relay or a gateway that accepts
    it, unless its address is a magic one that is answered otherwise. Raises `SQLAlchemyError`."""
    magic = None if is_copy else magic_of(recipient.type, message.to)
    answer = simulated_answer(magic, recipient.type, recipient.attempts)
    if answer is None or magic is not Magic.SLOW:
        row = _row(recipient, message, is_copy=is_copy, magic=magic)
        with database.write() as transaction:
            insert_new_rows(transaction, CapturedMessage, [row])
    segments = count_segments(message.text) if isinstance(message, OutboundSms) else None
    return answer or DeliveryResult.accepted("captured", segments=segments)


def _row(
    recipient: ClaimedRecipient, message: OutboundEmail | OutboundSms, *, is_copy: bool, magic: Magic | None
) -> dict[str, Any]:
    happens_later = magic is not None and magic not in SIMULATED_BY_ANSWER
    return {
        "account_id": recipient.account_id,
        "recipient_id": recipient.id,
        "is_copy": is_copy,
        "uuid": recipient.uuid,
        "type": recipient.type,
        "address": normalize_address(ADDRESS_KIND_BY_TYPE[recipient.type], message.to).key,
        "captured_time": this_second(),
        "simulates": magic,
        "simulate_time": seconds_from_now(SIMULATION_DELAY) if happens_later else None,
        **_columns(recipient, message),
    }


def _columns(recipient: ClaimedRecipient, message: OutboundEmail | OutboundSms) -> dict[str, Any]:
    """The columns that mails and text messages fill from different attributes. The list of the inbox shows the subject,
    so secret values are masked in it; the content is what has left."""
    if isinstance(message, OutboundSms):
        return {"sender": message.sender, "subject": None, "content": message.text.encode("utf-8", "replace")}
    subject, secrets = _subject(message.content), recipient.secrets
    subject = subject if secrets is None else secrets.mask(subject)
    return {"sender": message.envelope_from, "subject": subject, "content": message.content}


def _subject(mail: bytes) -> str:
    """The subject of a mail that this service has composed."""
    head = mail.partition(b"\r\n\r\n")[0].decode("utf-8", "replace")
    lines = head.replace("\r\n ", " ").split("\r\n")
    written = next((line.removeprefix("Subject: ") for line in lines if line.startswith("Subject: ")), "")
    return decode_words(written)


INITIAL_BATCH_SIZE = 100
MAX_BATCH_SIZE = 400
"""Beyond it, the statements of a batch are a negligible part of the cost per row."""


class AdaptiveBatchSize:
    """Halves when claimed rows waited too long for a free connection; doubles after each full batch in which none
    did."""

    def __init__(self) -> None:
        self.size = INITIAL_BATCH_SIZE
        """The size of the next batch."""
        self._has_shrunk = False

    def shrink(self) -> None:
        """Halves the size, because rows of the last batch waited too long."""
        self.size = max(1, self.size // 2)
        self._has_shrunk = True

    def record_claim(self, count: int) -> None:
        """Doubles the size if a full batch was claimed and the last one did not wait."""
        if count >= self.size and not self._has_shrunk:
            self.size = min(self.size * 2, MAX_BATCH_SIZE)
        self._has_shrunk = False


def not_sent(recipient: ClaimedRecipient) -> AttemptResult:
    """The result of a recipient that is skipped, or whose message cannot be sent."""
    return AttemptResult(
        recipient.id,
        recipient.attempts,
        recipient.address or None,
        now(),
        skip=recipient.skip,
        detail=recipient.detail,
        is_test=recipient.compiled.send.is_test,
    )


def deferred(recipient: ClaimedRecipient, result: DeliveryResult) -> AttemptResult:
    """The result of a recipient whose message goes to no transport now, with what became of it at those before."""
    if recipient.route:
        result = result._replace(note=recipient.route.note(result.note))
    attempt, is_test = recipient.attempts, recipient.compiled.send.is_test
    return AttemptResult(recipient.id, attempt, recipient.address, now(), result=result, is_test=is_test)


JOURNAL_RETRY_DELAY = 1.0
"""Seconds before a journal that cannot be written is tried again."""
QUIET_SECONDS = 60.0
"""Seconds between two lines in the log about the journal."""


def no_time() -> float:
    """What a thread does while it awaits an answer, if it has nothing to do."""
    return 0.0


class SenderWorker:
    """The sender of a process: its transports, its router and its journal. One drain at a time uses it."""

    def __init__(self, services: Services, sms: Transport[OutboundSms]) -> None:
        settings = services.settings
        email = email_transport(settings.email_transport_url)
        self.builder = MessageBuilder(settings)
        self._redaction = Redaction.of(settings)
        self.sms = sms
        self._database = services.database
        self.pool = TransportPool(
            DEFAULT_TRANSPORT,
            lambda: ConnectionSlot(email.connect(), sms.connect()),
            settings.send_connections,
            services.sender_share,
            Limits(settings.relay_connections, binds_of(sms)),
        )
        self.router = Router(settings, services.sender_share, self.pool)
        self.name = new_process_name()
        self.mirror: Mirror | None = None
        """None for SQLite: its database is lost with the journal."""
        if services.database.is_server:
            self.mirror = Mirror(services.redis, self.name, settings.secret_key)
        self.journal = Journal(journal_folder(settings), self.name, self.mirror.add if self.mirror else None)
        self._next_repair, self._said_broken = 0.0, -QUIET_SECONDS
        self.batch_size = AdaptiveBatchSize()
        self.due = DueAccounts(SEND_QUEUE)
        self.leases = ExpiredLeases()
        self.last_account = 0
        """Last account served (round-robin cursor)."""
        self.claims = itertools.count()
        """The numbers of its claims."""

    def has_journal(self) -> bool:
        """Whether results can be journalled. As long as they cannot, nothing is sent: a kill would have it sent
        again."""
        if time.monotonic() < self._next_repair:
            return False
        was_broken = self.journal.is_broken
        try:
            self.journal.repair()
        except OSError as error:
            self._next_repair = time.monotonic() + JOURNAL_RETRY_DELAY
            if not was_broken or time.monotonic() > self._said_broken + QUIET_SECONDS:
                logger.error("sending waits: the journal cannot be written: %s", error)
                self._said_broken = time.monotonic()
            return False
        if was_broken:
            logger.warning("the journal can be written again; sending continues")
        return True

    def clear_journal(self, unwritten: Collection[int] = ()) -> None:
        """Deletes the results that are in the database, all but those of these recipients, from the journal. Those that
        stay in it are written twice, which changes nothing."""
        try:
            self.journal.clear(unwritten)
        except OSError as error:
            logger.error("the journal cannot be emptied: %s", error)

    def transmit(
        self,
        slot: ConnectionSlot,
        recipient: ClaimedRecipient,
        following: ClaimedRecipient | None = None,
        while_waiting: Callable[[], float] = no_time,
    ) -> AttemptResult | PassedMessage:
        """Sends the message of a recipient, for which it is built, and journals the result, unless the next transport
        of its route is to send it. Raises nothing: an internal fault defers.

        `following` is the recipient of the message that the slot sends next, if it is known. `while_waiting` is called
        while the answer is awaited; it raises nothing, and returns the seconds that it took.
        """
        logs.request_id.set(recipient.compiled.send.request_id)
        if recipient.skip is not None:
            return not_sent(recipient)
        transmission, other = Transmission(), list[float]()
        try:
            with _span(recipient, slot) as open_span:
                answer = self._answer(slot, recipient, following, lambda: other.append(while_waiting()))
                open_span.add(tms__outcome=answer.outcome.value, tms__status=answer.status)
            result = redact_reply(sanitize_result(answer), slot.redaction or self._redaction, recipient.secrets)
        except BaseException as fault:
            # An installed transport may raise anything, and a message without a result would be awaited forever.
            result = deferred_by_fault(recipient, fault)
            slot.close()  # it may have been left in the middle of a transaction
        if recipient.copy and result.outcome is Outcome.ACCEPTED:
            with_copy = result._replace(reply=result.reply + self._send_copy(slot, recipient, recipient.copy))
            result = redact_reply(sanitize_result(with_copy), slot.redaction or self._redaction, recipient.secrets)
        slot.seconds = time.monotonic() - transmission.started - sum(other)
        transmission.count(recipient, slot.transport or DEFAULT_TRANSPORT, result)
        if recipient.route is not None:
            if result.untaken and recipient.route.upcoming:
                return PassedMessage(recipient, slot.transport or DEFAULT_TRANSPORT, result)
            result = _on_route(result, recipient.route, slot)
        attempt = _attempt_result(recipient, result, slot.transport)
        self._write_journal(attempt)
        return attempt

    def _answer(
        self,
        slot: ConnectionSlot,
        recipient: ClaimedRecipient,
        following: ClaimedRecipient | None,
        while_waiting: Callable[[], None],
    ) -> DeliveryResult:
        """The answer of the relay or gateway, or of the capture store for a test: no test message comes to a
        connection, not even behind another one."""
        if recipient.fault is not None:
            return recipient.fault
        if recipient.compiled.send.is_test:
            return capture(self._database, recipient, recipient.message, is_copy=False)
        if following and (following.compiled.send.is_test or not following.has_message):
            following = None
        return send_over(slot, recipient.message, following.message if following else None, while_waiting)

    def _send_copy(self, slot: ConnectionSlot, recipient: ClaimedRecipient, copy: OutboundEmail) -> str:
        """Sends or captures the blind copy; returns a text to add to the reply, empty if it is accepted."""
        if not recipient.compiled.send.is_test:
            return send_copy(slot, copy)
        try:
            capture(self._database, recipient, copy, is_copy=True)
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
        if self.mirror:
            self.mirror.close()
        self.journal.close()


def _span(recipient: ClaimedRecipient, slot: ConnectionSlot) -> AbstractContextManager[tracing.Span]:
    """The span of one message's way to a relay or gateway and of its answer."""
    return tracing.span(
        "transmit",
        request_id=recipient.compiled.send.request_id,
        tms__uuid=recipient.uuid,
        tms__type=recipient.compiled.send.type,
        tms__transport=slot.transport or DEFAULT_TRANSPORT,
        tms__attempt=recipient.attempts,
    )


def _attempt_result(recipient: ClaimedRecipient, result: DeliveryResult, transport: str | None) -> AttemptResult:
    tests = recipient.compiled.send.is_test
    return AttemptResult(
        recipient.id,
        recipient.attempts,
        recipient.address,
        now(),
        result=result,
        rendered=recipient.rendered_bytes if recipient.has_message else None,
        transport=transport,
        retry_in=simulated_delay(recipient, recipient.address) if tests else None,
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
            share_binds(sms, services.sender_share)
            sender_worker = SenderWorker(services, sms)
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
            new = SenderWorker(services, old.sms)
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
