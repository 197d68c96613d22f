"""One bind to an SMPP gateway, shared by all threads of a process (SMPP 3.4).

A reading thread opens the connection, keeps it alive with `enquire_link`, and reopens it when it is lost, at first
after one second, later after up to half a minute. It reads all PDUs: responses wake the threads that wait for them, at
most `window` at a time; receipts and replies go to another thread, so that a slow database delays no response.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from smpplib import consts, smpp
from smpplib.client import SimpleSequenceGenerator
from smpplib.exceptions import ConnectionError as ConnectionLost

from app.transports.sms.incoming import IncomingHandler, IncompleteMessage, read_deliver_sm
from app.transports.sms.smpp_client import (
    CONNECTION_ERRORS,
    RESPONSE,
    PendingResponses,
    SmppClient,
    UnreadablePdu,
    error_text,
    tls_context,
)
from app.transports.sms.smpp_url import SmppSettings

logger = logging.getLogger(__name__)

FIRST_RECONNECT_DELAY, MAX_RECONNECT_DELAY = 1.0, 30.0
POLL_INTERVAL = 0.2
"""Seconds after which the reading thread checks the clock."""
LEAVING_SECONDS = 5.0
"""Seconds for which a bind is kept that this process may not have any more: it still sends what was handed to it."""
RETRY_LATER = int(consts.SMPP_ESME_RX_T_APPN)
REFUSED_STATUS = int(consts.SMPP_ESME_RX_P_APPN)
DELIVER_SM = 0x05


class NoBind(Exception):
    """There is no bind to the gateway; nothing was sent."""


class NoAnswer(Exception):
    """The message was sent without a response: it may have been accepted."""


class Bind:
    """The bind and its two threads, which start at the first use."""

    def __init__(self, settings: SmppSettings) -> None:
        self.is_allowed: Callable[[], bool] = lambda: True
        """Whether this process may have a bind now."""
        self._settings = settings
        self._context = tls_context(settings)
        self._handler: IncomingHandler | None = None
        self._client: Any = None
        self._sequence = SimpleSequenceGenerator()  # continues over reconnections, so that no late response is mistaken
        self._failure = ""
        self._sending = threading.Lock()
        self._window = threading.BoundedSemaphore(settings.window)
        self._pending = PendingResponses()
        self._incoming: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._to_start = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in ((self._keep_bound, "smpp"), (self._handle_incoming, "smpp-in"))
        ]
        self._bind_changed = threading.Condition()
        self._closing = threading.Event()

    def listen(self, handler: IncomingHandler) -> None:
        """Binds now, and calls `handler` for receipts and replies."""
        self._handler = handler
        self._start()

    def _start(self) -> None:
        with self._starting:
            while self._to_start:
                self._to_start[-1].start()  # may fail for want of memory: then the next use starts it
                self._to_start.pop()

    def submit(self, **fields: Any) -> Any:
        """Sends one `submit_sm` and returns its response. Raises `NoBind` and `NoAnswer`."""
        self._start()
        with self._window:
            client = self._wait_for_bind()
            pdu = None
            try:
                with self._sending:
                    pdu = smpp.make_pdu("submit_sm", client=client, **fields)
                    responses = self._pending.expect(pdu.sequence)
                    client.send_pdu(pdu)
                response = responses.get(timeout=self._settings.timeout)
            except CONNECTION_ERRORS as error:
                raise NoAnswer(error_text(error)) from None
            except queue.Empty:
                raise NoAnswer(f"no answer within {self._settings.timeout:g} seconds") from None
            finally:
                if pdu is not None:
                    self._pending.forget(pdu.sequence)
        if response is None:
            raise NoAnswer("the connection was lost")
        return response

    def _wait_for_bind(self) -> Any:
        """The bound client; waits for the first attempt, but not for a gateway that is known to be unreachable."""
        with self._bind_changed:
            self._bind_changed.wait_for(lambda: self._client or self._failure, self._settings.timeout)
            if self._client is None:
                raise NoBind(self._failure or "no answer in time")
            return self._client

    def close(self) -> None:
        """Unbinds; the threads then end."""
        self._closing.set()
        client = self._client
        if client is not None:
            with contextlib.suppress(*CONNECTION_ERRORS), self._sending:
                client.send_pdu(smpp.make_pdu("unbind", client=client))

    # ------------------------------------------------------------------------------------- the reading thread

    def _keep_bound(self) -> None:
        pause = FIRST_RECONNECT_DELAY
        while not self._closing.is_set():
            if not self.is_allowed():
                self._set(None, "")
                self._closing.wait(POLL_INTERVAL)
                continue
            client = SmppClient(self._settings, self._sequence, self._context)
            try:
                self._connect(client)
                pause = FIRST_RECONNECT_DELAY
                self._read(client)
                self._disconnect(client, "the bind has ended")
            except CONNECTION_ERRORS as error:
                self._disconnect(client, error_text(error))
            except Exception as error:
                # For example a response to the bind that is not SMPP. This thread must survive it: no other one binds.
                logger.exception("cannot understand %s", self._settings.name)
                self._disconnect(client, error_text(error))
            self._closing.wait(pause)
            pause = min(pause * 2, MAX_RECONNECT_DELAY)

    def _connect(self, client: Any) -> None:
        client.connect()
        bind = client.bind_transceiver if self._settings.bind == "transceiver" else client.bind_transmitter
        bind(
            system_id=self._settings.user,
            password=self._settings.password,
            system_type=self._settings.system_type,
            interface_version=consts.SMPP_VERSION_34,
        )
        logger.info("bound to %s", self._settings.name)
        self._set(client, "")

    def _set(self, client: Any, trouble: str) -> None:
        with self._bind_changed:
            self._client, self._failure = client, trouble
            self._bind_changed.notify_all()

    def _disconnect(self, client: Any, why: str) -> None:
        """Wakes at once the threads that wait for a response over the lost connection."""
        self._set(None, f"no bind to the gateway: {why}")
        with self._sending:
            client.state = consts.SMPP_CLIENT_STATE_OPEN  # nothing can be sent now, and the library accepts this state
            client.disconnect()
            self._pending.cancel_all()
        if not self._closing.is_set():
            logger.warning("no bind to %s: %s", self._settings.name, why)

    def _read(self, client: Any) -> None:
        """Reads until the bind is closed, or this process may not have it any more. Raises one of `CONNECTION_ERRORS`
        when the connection is lost."""
        last_read = last_enquiry = last_allowed = time.monotonic()
        while True:
            readable = client.is_readable(POLL_INTERVAL)
            moment = time.monotonic()
            if self.is_allowed():
                last_allowed = moment
            if readable:
                last_read = moment
                if not self._dispatch(client):
                    return
            elif self._closing.is_set():
                return
            elif moment - last_allowed > LEAVING_SECONDS and not self._pending:
                self._send(client, smpp.make_pdu("unbind", client=client))
                return
            elif moment - last_read > self._settings.enquire + self._settings.timeout:
                raise ConnectionLost("the gateway is silent")
            elif moment - max(last_read, last_enquiry) > self._settings.enquire:
                last_enquiry = moment
                self._send(client, smpp.make_pdu("enquire_link", client=client))

    def _dispatch(self, client: Any) -> bool:
        """Handles the next PDU; returns False when the gateway has ended the bind."""
        try:
            pdu = client.read_pdu()
        except UnreadablePdu as error:
            logger.exception("a PDU of %s cannot be read", self._settings.name)
            self._refuse(client, error)
            return True
        match pdu.command:
            case "submit_sm_resp" | "generic_nack":
                self._pending.resolve(pdu)
            case "deliver_sm":
                self._incoming.put((client, pdu))
            case "enquire_link" | "unbind":
                self._respond(client, pdu.sequence, f"{pdu.command}_resp")
            case "data_sm":
                self._respond(client, pdu.sequence, "generic_nack", consts.SMPP_ESME_RINVCMDID)
        return pdu.command not in ("unbind", "unbind_resp")

    def _refuse(self, client: Any, unreadable: UnreadablePdu) -> None:
        """Answers a PDU that cannot be read. Without a response, the gateway would deliver it again and again."""
        if unreadable.command == DELIVER_SM:
            self._respond(client, unreadable.sequence, "deliver_sm_resp", REFUSED_STATUS)
        elif not unreadable.command & RESPONSE:
            self._respond(client, unreadable.sequence, "generic_nack", consts.SMPP_ESME_RINVCMDID)

    def _respond(self, client: Any, sequence: int, command: str, status: int = consts.SMPP_ESME_ROK) -> None:
        response = smpp.make_pdu(command, client=client, status=status)
        response.sequence = sequence
        with contextlib.suppress(*CONNECTION_ERRORS):  # the reading thread will notice
            self._send(client, response)

    def _send(self, client: Any, pdu: Any) -> None:
        with self._sending:
            client.send_pdu(pdu)

    # ------------------------------------------------------------------------------------ the thread that handles
    # receipts and replies

    def _handle_incoming(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(queue.Empty):
                client, pdu = self._incoming.get(timeout=POLL_INTERVAL)
                if client is self._client:  # over a lost bind there is no response, and the gateway delivers again
                    self._respond(client, pdu.sequence, "deliver_sm_resp", self._status_of(pdu))

    def _status_of(self, pdu: Any) -> int:
        """The gateway redelivers a PDU that cannot be handled now. One that has no meaning here is confirmed; one that
        can never be handled is refused permanently, since it would be redelivered forever."""
        try:
            incoming = read_deliver_sm(pdu)
            is_handled = incoming is None or self._handler is None or self._handler(incoming)
        except IncompleteMessage:
            logger.warning("permanently refused what %s delivers: it is incomplete", self._settings.name)
            return REFUSED_STATUS
        except Exception:
            logger.exception("permanently refused what %s delivers: it cannot be processed", self._settings.name)
            return REFUSED_STATUS
        return int(consts.SMPP_ESME_ROK if is_handled else RETRY_LATER)
