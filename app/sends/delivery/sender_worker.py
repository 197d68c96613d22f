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
from app.inbound.smpp import taker
from app.infrastructure import logs
from app.infrastructure.liveness import own_name
from app.recipients.redaction import Discretion
from app.sends.delivery.batch_size import Pace
from app.sends.delivery.build import Maker, Outgoing, deferred
from app.sends.delivery.connection_slots import Lane, send_copy, send_over
from app.sends.delivery.load import Parcel
from app.sends.delivery.unsendable import Unsendable
from app.sends.outcomes.attempt_result import Verdict, cleaned, discreet
from app.sends.outcomes.journal import Journal, journal_folder
from app.services import Services
from app.settings import Settings
from app.transports.base import OutboundSms, Outcome, Transport
from app.transports.email import email_transport
from app.transports.sms import sms_transport
from app.transports.sms.incoming import Listening, Take

logger = logging.getLogger(__name__)


class Station:
    """One per process that sends; one drain uses it at a time."""

    def __init__(self, settings: Settings, texts: Transport[OutboundSms]) -> None:
        emails = email_transport(settings.email_transport_url)
        self.maker = Maker(settings)
        self._discretion = Discretion.of(settings)
        self.texts = texts
        self._lanes: queue.LifoQueue[Lane] = queue.LifoQueue()
        for _ in range(settings.send_connections):
            self._lanes.put(Lane(emails.connect(), texts.connect()))
        self.connections = settings.send_connections
        self.threads = ThreadPoolExecutor(self.connections, thread_name_prefix="send")
        self.worker = own_name()
        self.journal = Journal(journal_folder(settings), self.worker)
        self.pace = Pace()
        self.last_account = 0
        """Whose turn it was last."""

    def transmit(self, lane: Lane, outgoing: Outgoing, following: Outgoing | None = None) -> Verdict:
        """Sends one message and journals what came of it. Raises nothing: a fault of our own defers.

        `following` is what the lane sends next, where that is known.
        """
        parcel = outgoing.parcel
        logs.request_id.set(parcel.letter.send.request_id)
        if isinstance(outgoing.message, Unsendable):
            return _refused(parcel, outgoing.message)
        began = time.monotonic()
        try:
            result = discreet(cleaned(send_over(lane, outgoing, following)), self._discretion)
        except BaseException as fault:
            # An installed transport may raise anything, and a message without a verdict is waited for, for ever.
            result = deferred(parcel, fault)
            lane.close()  # who knows in the middle of what it was left
        if outgoing.copy and result.outcome is Outcome.ACCEPTED:
            told = cleaned(result._replace(reply=result.reply + send_copy(lane, outgoing.copy)))
            result = discreet(told, self._discretion)
        lane.seconds = time.monotonic() - began
        recipient = parcel.recipient
        verdict = Verdict(
            recipient.id,
            recipient.attempts,
            parcel.addressee.address,
            now(),
            result=result,
            rendered=outgoing.rendered,
        )
        self._note(verdict)
        return verdict

    def _note(self, verdict: Verdict) -> None:
        """A full disk must not keep the verdict from the database."""
        try:
            self.journal.note(verdict)
        except OSError:
            logger.exception("cannot write the journal", extra={"recipient_id": verdict.recipient_id})

    @contextlib.contextmanager
    def lane(self) -> Iterator[Lane]:
        """One that nobody else uses meanwhile."""
        lane = self._lanes.get()
        try:
            yield lane
        except BaseException:
            lane.close()
            raise
        finally:
            self._lanes.put(lane)

    def listen(self, take: Take) -> None:
        """Takes in what the sms gateway hands in, where it does so over the connection that sends."""
        if isinstance(self.texts, Listening):
            self.texts.listen(take)

    def close(self) -> None:
        """Ends all of it, the bind to the sms gateway included."""
        self.clear_away()
        if isinstance(self.texts, Listening):
            self.texts.end()

    def clear_away(self) -> None:
        """Ends threads, connections and journal, but no bind; what is in flight is waited for."""
        self.threads.shutdown()
        for _ in range(self.connections):
            self._lanes.get().close()
        self.journal.close()


def _refused(parcel: Parcel, refusal: Unsendable) -> Verdict:
    recipient = parcel.recipient
    address = parcel.addressee.address
    return Verdict(recipient.id, recipient.attempts, address, now(), skip=refusal.reason, detail=str(refusal))


_stations: dict[Services, Station] = {}
_making = threading.Lock()


def station_of(services: Services) -> Station:
    """The station of this process, made at its first drain."""
    with _making:
        if services not in _stations:
            _stations[services] = Station(services.settings, sms_transport(services.settings.sms_transport_url))
            _stations[services].listen(taker(services))
        return _stations[services]


def renew_station(services: Services) -> None:
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
            _stations[services] = Station(services.settings, old.texts)
        except BaseException:
            if isinstance(old.texts, Listening):
                old.texts.end()
            raise


def close_station(services: Services) -> None:
    """Ends the station of this process, if it has one."""
    with _making:
        station = _stations.pop(services, None)
    if station:
        station.close()
