"""One bind to an SMPP gateway, shared by all threads of a process (SMPP 3.4).

A thread of its own makes the connection, keeps it alive with `enquire_link`, and makes it again when it is lost, after
a second at first and later after up to half a minute. It reads everything that comes: answers wake the thread that
waits for them, at most `window` at a time; what the gateway hands in goes to another thread, so that a slow database
holds up no answer.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from typing import Any

from smpplib import consts, smpp
from smpplib.client import SimpleSequenceGenerator
from smpplib.exceptions import ConnectionError as ConnectionLost

from app.transports.sms.incoming import IncomingHandler, read_deliver_sm
from app.transports.sms.smpp_answers import Answers
from app.transports.sms.smpp_client import LOST, SmppClient, tls_context, words
from app.transports.sms.smpp_url import SmppSettings

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
TICK = 0.2
"""Seconds after which the reading thread looks at the clock."""
TAKE_LATER = consts.SMPP_ESME_RX_T_APPN


class NoBind(Exception):
    """There is no connection to the gateway; nothing was sent."""


class NoAnswer(Exception):
    """The message went out and no answer came: it may have been taken."""


class Bind:
    """The connection and its two threads, which start with the first use."""

    def __init__(self, settings: SmppSettings) -> None:
        self._settings = settings
        self._context = tls_context(settings)
        self._take: IncomingHandler | None = None
        self._client: Any = None
        self._sequence = SimpleSequenceGenerator()  # goes on over connections, so that no answer is mistaken
        self._trouble = ""
        self._sending = threading.Lock()
        self._window = threading.BoundedSemaphore(settings.window)
        self._answers = Answers()
        self._handed_in: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._started = False
        self._changed = threading.Condition()
        self._closing = threading.Event()

    def listen(self, take: IncomingHandler) -> None:
        """Binds now, and gives what the gateway hands in to `take`."""
        self._take = take
        self._start()

    def _start(self) -> None:
        with self._starting:
            if not self._started:
                self._started = True
                threading.Thread(target=self._keep_bound, name="smpp", daemon=True).start()
                threading.Thread(target=self._take_in, name="smpp-in", daemon=True).start()

    def submit(self, **fields: Any) -> Any:
        """Sends one `submit_sm` and gives its answer. Raises `NoBind` and `NoAnswer`."""
        self._start()
        with self._window:
            client = self._bound()
            pdu = None
            try:
                with self._sending:
                    pdu = smpp.make_pdu("submit_sm", client=client, **fields)
                    answer = self._answers.expect(pdu.sequence)
                    client.send_pdu(pdu)
                found = answer.get(timeout=self._settings.timeout)
            except LOST as error:
                raise NoAnswer(words(error)) from None
            except queue.Empty:
                raise NoAnswer(f"no answer within {self._settings.timeout:g} seconds") from None
            finally:
                if pdu is not None:
                    self._answers.forget(pdu.sequence)
        if found is None:
            raise NoAnswer("the connection was lost")
        return found

    def _bound(self) -> Any:
        """The connection; waits for the first attempt, but not for a gateway that is known to be away."""
        with self._changed:
            self._changed.wait_for(lambda: self._client or self._trouble, self._settings.timeout)
            if self._client is None:
                raise NoBind(self._trouble or "no answer in time")
            return self._client

    def close(self) -> None:
        """Unbinds; the threads end by themselves."""
        self._closing.set()
        client = self._client
        if client is not None:
            with contextlib.suppress(*LOST), self._sending:
                client.send_pdu(smpp.make_pdu("unbind", client=client))

    # ------------------------------------------------------------------------------------- the reading thread

    def _keep_bound(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            client = SmppClient(self._settings, self._sequence, self._context)
            try:
                self._connect(client)
                pause = FIRST_PAUSE
                self._read(client)
                self._part_from(client, "the gateway has ended the bind")
            except LOST as error:
                self._part_from(client, words(error))
            except Exception as error:
                # Such as an answer to the bind that is no SMPP. This thread must not die of it: no other one binds.
                logger.exception("cannot understand %s", self._settings.name)
                self._part_from(client, words(error))
            self._closing.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

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
        with self._changed:
            self._client, self._trouble = client, trouble
            self._changed.notify_all()

    def _part_from(self, client: Any, why: str) -> None:
        """Those that wait for an answer of the connection that is gone learn it at once."""
        self._set(None, f"no bind to the gateway: {why}")
        with self._sending:
            client.state = consts.SMPP_CLIENT_STATE_OPEN  # nothing can be sent now, and the library finds it in order
            client.disconnect()
            self._answers.give_up()
        if not self._closing.is_set():
            logger.warning("no bind to %s: %s", self._settings.name, why)

    def _read(self, client: Any) -> None:
        """Until the connection is lost or no longer wanted; raises one of `LOST` for the former."""
        last = asked = time.monotonic()
        while True:
            readable = client.is_readable(TICK)
            moment = time.monotonic()
            if readable:
                last = moment
                if not self._dispatch(client):
                    return
            elif self._closing.is_set():
                return
            elif moment - last > self._settings.enquire + self._settings.timeout:
                raise ConnectionLost("the gateway is silent")
            elif moment - max(last, asked) > self._settings.enquire:
                asked = moment
                self._send(client, smpp.make_pdu("enquire_link", client=client))

    def _dispatch(self, client: Any) -> bool:
        """Deals with the next PDU; False when the gateway has ended the bind."""
        try:
            pdu = client.read_pdu()
        except LOST:
            raise
        except Exception:
            # It was read to its end before it was parsed, so what follows it is sound.
            logger.exception("a PDU of %s cannot be read", self._settings.name)
            return True
        match pdu.command:
            case "submit_sm_resp" | "generic_nack":
                self._answers.give(pdu)
            case "deliver_sm":
                self._handed_in.put((client, pdu))
            case "enquire_link" | "unbind":
                self._answer(client, pdu, f"{pdu.command}_resp")
        return pdu.command not in ("unbind", "unbind_resp")

    def _answer(self, client: Any, pdu: Any, command: str, status: int = consts.SMPP_ESME_ROK) -> None:
        answer = smpp.make_pdu(command, client=client, status=status)
        answer.sequence = pdu.sequence
        with contextlib.suppress(*LOST):  # the reading thread will find it lost
            self._send(client, answer)

    def _send(self, client: Any, pdu: Any) -> None:
        with self._sending:
            client.send_pdu(pdu)

    # ------------------------------------------------------------------------------------ the thread that takes in

    def _take_in(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(queue.Empty):
                client, pdu = self._handed_in.get(timeout=TICK)
                self._answer(client, pdu, "deliver_sm_resp", self._status_of(pdu))

    def _status_of(self, pdu: Any) -> int:
        """The gateway keeps what cannot be taken in now; what nobody can read it need not keep."""
        try:
            incoming = read_deliver_sm(pdu)
            taken = incoming is None or self._take is None or self._take(incoming)
        except Exception:
            logger.exception("cannot take in what %s hands in", self._settings.name)
            taken = False
        return int(consts.SMPP_ESME_ROK if taken else TAKE_LATER)
