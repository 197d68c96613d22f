"""The SMPP library's client, over TCP or TLS (docs/sms.md)."""

from __future__ import annotations

import logging
import queue
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from smpplib import consts, smpp
from smpplib.client import Client
from smpplib.exceptions import ConnectionError as ConnectionLost
from smpplib.exceptions import PDUError

from app.network.connections import connect
from app.transports.sms.smpp_url import SmppSettings, Tls

# The library warns of each unknown parameter, of which one message of a gateway may have thousands.
logging.getLogger("smpplib.command").setLevel(logging.ERROR)

CONNECTION_ERRORS = (ConnectionLost, PDUError, OSError)
"""Exceptions after which a connection cannot be used any more."""
MAX_RECORD = 16 * 1024
MAX_SELECT = 0.2
"""Seconds after which a thread that waits for the network retries: the other thread may have read its data."""

Result = TypeVar("Result")
HEADER_BYTES = 16
MAX_PDU = 128 * 1024
"""Bytes; a text in `message_payload` has 64 KiB at most. A longer one would wait for what never comes."""
RESPONSE = 0x80000000
"""Bit of the commands that respond to another."""


class UnreadablePdu(Exception):
    """A PDU that was received completely and cannot be parsed; the connection can still be used."""

    def __init__(self, command: int, sequence: int) -> None:
        super().__init__(f"command {command:#x}, sequence {sequence}")
        self.command = command
        self.sequence = sequence


def error_text(error: Exception) -> str:
    """The error text of a lost connection, which the library may leave empty."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error.args[0]) if error.args else "the connection was lost"


def tls_context(settings: SmppSettings) -> ssl.SSLContext | None:
    """The context for all connections to the gateway, because it reads the trusted authorities; None without TLS."""
    if settings.tls is Tls.NONE:
        return None
    context = ssl.create_default_context()
    if settings.tls is Tls.UNVERIFIED:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class SmppClient(Client):  # type: ignore[misc]
    """The library's client, over IPv4 or IPv6, with TLS if there is a context."""

    def __init__(self, settings: SmppSettings, sequence: Any, context: ssl.SSLContext | None) -> None:
        super().__init__(settings.host, settings.port, settings.timeout, sequence, allow_unknown_opt_params=True)
        self._context = context

    def connect(self) -> None:
        """Raises `OSError` for a gateway that cannot be reached or whose certificate is not valid."""
        plain = connect(self.host, self.port, self.timeout)
        self._socket = TlsSocket(plain, self._context, self.host) if self._context else plain
        self.state = consts.SMPP_CLIENT_STATE_OPEN

    def read_pdu(self) -> Any:
        """The next PDU. Raises one of `CONNECTION_ERRORS`, and `UnreadablePdu`, which the library's method does not
        distinguish."""
        header = self._recv_exact(HEADER_BYTES)
        length, command, _, sequence = struct.unpack(">4L", header)
        if not HEADER_BYTES <= length <= MAX_PDU:
            raise PDUError(f"a PDU of {length} bytes")
        body = self._recv_exact(length - HEADER_BYTES)
        try:
            pdu = smpp.parse_pdu(header + body, client=self, allow_unknown_opt_params=True)
        except Exception as error:
            raise UnreadablePdu(command, sequence) from error
        if not pdu.is_error():
            self.state = consts.STATE_SETTERS.get(pdu.command, self.state)
        return pdu

    def is_readable(self, seconds: float) -> bool:
        """Whether a PDU, or the beginning of one, arrives within `seconds`."""
        if isinstance(self._socket, TlsSocket):
            return self._socket.is_readable(seconds)
        return bool(select.select([self._socket], [], [], seconds)[0])


class TlsSocket:
    """The socket methods that the library needs; one thread may read while another one writes.

    OpenSSL allows only one thread at a time to use a connection. So each call is under a lock and never blocks, and
    waiting happens outside the lock. Decrypted data is kept here, where `is_readable` sees it: the network may be idle
    while a PDU is waiting, and busy with records that contain none.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Performs the TLS handshake; raises `OSError`. The timeout of `plain` applies to each wait."""
        self._timeout = plain.gettimeout() or 0.0
        self._wrapped = context.wrap_socket(plain, server_hostname=host)
        self._wrapped.setblocking(False)
        self._lock = threading.Lock()
        self._decrypted = b""
        self._ended = False

    def is_readable(self, seconds: float) -> bool:
        """Whether `recv` has data, or the end of the stream, within `seconds`."""
        try:
            self._fill(seconds)
        except TimeoutError:
            return False
        return True

    def recv(self, count: int) -> bytes:
        """Receives at most `count` bytes; none at the end. Raises `OSError`."""
        self._fill(self._timeout)
        data, self._decrypted = self._decrypted[:count], self._decrypted[count:]
        return data

    def sendall(self, data: bytes) -> None:
        """Sends all of the data. Raises `OSError`."""
        while data:
            sent = self._retry(partial(self._wrapped.send, data), self._timeout)
            data = data[sent:]

    def close(self) -> None:
        """Closes without a TLS shutdown: SMPP has its own `unbind`."""
        self._wrapped.close()

    def _fill(self, seconds: float) -> None:
        if not self._decrypted and not self._ended:
            self._decrypted = self._retry(partial(self._wrapped.recv, MAX_RECORD), seconds)
            self._ended = not self._decrypted

    def _retry(self, action: Callable[[], Result], seconds: float) -> Result:
        """Retries the action until it does not have to wait; raises `TimeoutError` after `seconds`."""
        end = time.monotonic() + seconds
        while True:
            try:
                with self._lock:
                    return action()
            except ssl.SSLWantReadError:
                reading, writing = [self._wrapped], []
            except ssl.SSLWantWriteError:
                reading, writing = [], [self._wrapped]
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"nothing moved for {seconds:g} seconds")
            select.select(reading, writing, [], min(left, MAX_SELECT))


# The responses of a gateway that sending threads wait for. The sending threads and the reading one share it.


class PendingResponses:
    """Sequence number -> the queue in which a thread waits for the response."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[int, queue.SimpleQueue[Any]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def expect(self, sequence: int) -> queue.SimpleQueue[Any]:
        """The queue that will receive the response; called before the request is sent."""
        responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._lock:
            self._queues[sequence] = responses
        return responses

    def forget(self, sequence: int) -> None:
        """Stops waiting for a response."""
        with self._lock:
            self._queues.pop(sequence, None)

    def resolve(self, pdu: Any) -> None:
        """Wakes the thread that waits for this response, if there is one."""
        with self._lock:
            responses = self._queues.get(pdu.sequence)
        if responses is not None:
            responses.put(pdu)

    def cancel_all(self) -> None:
        """Wakes all waiting threads with None, because the connection is lost."""
        with self._lock:
            waiting = list(self._queues.values())
        for responses in waiting:
            responses.put(None)
