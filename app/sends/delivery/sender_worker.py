"""What a worker process keeps warm from one drain to the next: its name, its journal, its connections, its threads.

A station has one lane per connection that SEND_CONNECTIONS allows. A thread takes a lane, the most recently used one
first, so that a quiet service keeps one connection open and not all of them.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from app.clock import now
from app.infrastructure import logs
from app.infrastructure.liveness import new_process_name
from app.recipients.redaction import Redaction
from app.sends.delivery.batch_size import AdaptiveBatchSize
from app.sends.delivery.build import BuiltMessage, MessageBuilder, deferred
from app.sends.delivery.connection_slots import ConnectionSlot, send_copy, send_over
from app.sends.delivery.load import PreparedRecipient
from app.sends.delivery.unsendable import Unsendable
from app.sends.outcomes.attempt_result import AttemptResult, redact_reply, sanitize_result
from app.sends.outcomes.journal import Journal, journal_folder
from app.services import Services
from app.settings import Settings
from app.transports.base import OutboundSms, Outcome, Transport
from app.transports.email import email_transport
from app.transports.sms import sms_transport
from app.transports.sms.incoming import IncomingHandler, ReceivingTransport

logger = logging.getLogger(__name__)


class SenderWorker:
    """One per process that sends; one drain uses it at a time."""

    def __init__(self, settings: Settings, texts: Transport[OutboundSms]) -> None:
        emails = email_transport(settings.email_transport_url)
        self.maker = MessageBuilder(settings)
        self._discretion = Redaction.of(settings)
        self.texts = texts
        self._lanes: queue.LifoQueue[ConnectionSlot] = queue.LifoQueue()
        for _ in range(settings.send_connections):
            self._lanes.put(ConnectionSlot(emails.connect(), texts.connect()))
        self.connections = settings.send_connections
        self.threads = ThreadPoolExecutor(self.connections, thread_name_prefix="send")
        self.worker = new_process_name()
        self.journal = Journal(journal_folder(settings), self.worker)
        self.pace = AdaptiveBatchSize()
        self.last_account = 0
        """Whose turn it was last."""

    def transmit(
        self, lane: ConnectionSlot, outgoing: BuiltMessage, following: BuiltMessage | None = None
    ) -> AttemptResult:
        """Sends one message and journals what came of it. Raises nothing: a fault of our own defers.

        `following` is what the lane sends next, where that is known.
        """
        parcel = outgoing.parcel
        logs.request_id.set(parcel.letter.send.request_id)
        if isinstance(outgoing.message, Unsendable):
            return _refused(parcel, outgoing.message)
        began = time.monotonic()
        try:
            result = redact_reply(sanitize_result(send_over(lane, outgoing, following)), self._discretion)
        except BaseException as fault:
            # An installed transport may raise anything, and a message without a verdict is waited for, for ever.
            result = deferred(parcel, fault)
            lane.close()  # who knows in the middle of what it was left
        if outgoing.copy and result.outcome is Outcome.ACCEPTED:
            told = sanitize_result(result._replace(reply=result.reply + send_copy(lane, outgoing.copy)))
            result = redact_reply(told, self._discretion)
        lane.seconds = time.monotonic() - began
        recipient = parcel.recipient
        verdict = AttemptResult(
            recipient.id,
            recipient.attempts,
            parcel.addressee.address,
            now(),
            result=result,
            rendered=outgoing.rendered,
        )
        self._note(verdict)
        return verdict

    def _note(self, verdict: AttemptResult) -> None:
        """A full disk must not keep the verdict from the database."""
        try:
            self.journal.note(verdict)
        except OSError:
            logger.exception("cannot write the journal", extra={"recipient_id": verdict.recipient_id})

    @contextlib.contextmanager
    def lane(self) -> Iterator[ConnectionSlot]:
        """One that nobody else uses meanwhile."""
        lane = self._lanes.get()
        try:
            yield lane
        except BaseException:
            lane.close()
            raise
        finally:
            self._lanes.put(lane)

    def listen(self, handler: IncomingHandler) -> None:
        """Has the handler process what the SMS gateway delivers over the connection that sends, where it does so."""
        if isinstance(self.texts, ReceivingTransport):
            self.texts.listen(handler)

    def close(self) -> None:
        """Ends all of it, the bind to the sms gateway included."""
        self.clear_away()
        if isinstance(self.texts, ReceivingTransport):
            self.texts.end()

    def clear_away(self) -> None:
        """Ends threads, connections and journal, but no bind; what is in flight is waited for."""
        self.threads.shutdown()
        for _ in range(self.connections):
            self._lanes.get().close()
        self.journal.close()


def _refused(parcel: PreparedRecipient, refusal: Unsendable) -> AttemptResult:
    recipient = parcel.recipient
    address = parcel.addressee.address
    return AttemptResult(recipient.id, recipient.attempts, address, now(), skip=refusal.reason, detail=str(refusal))


_stations: dict[Services, SenderWorker] = {}
_making = threading.Lock()


def sender_worker_of(services: Services, handler: IncomingHandler | None = None) -> SenderWorker:
    """The sender worker of this process, created at the first call. `handler` processes what an SMS gateway delivers
    over the connection that sends (receipts and replies); without one, nothing is received."""
    with _making:
        if services not in _stations:
            _stations[services] = SenderWorker(services.settings, sms_transport(services.settings.sms_transport_url))
            if handler:
                _stations[services].listen(handler)
        return _stations[services]


def renew_sender_worker(services: Services) -> None:
    """Puts a new station in the place of one whose drain has crashed.

    The journal of the old one then counts as a dead worker's. A bind to an sms gateway goes on from one to the other:
    it has no part in a crash, and receipts and replies must not wait for the next text that is to be sent.
    """
    with _making:
        old = _stations.pop(services, None)
        if old is None:
            return
        try:
            old.clear_away()
            _stations[services] = SenderWorker(services.settings, old.texts)
        except BaseException:
            if isinstance(old.texts, ReceivingTransport):
                old.texts.end()
            raise


def close_sender_worker(services: Services) -> None:
    """Ends the station of this process, if it has one."""
    with _making:
        station = _stations.pop(services, None)
    if station:
        station.close()
