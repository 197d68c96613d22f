"""The SMPP library's client, over TCP or TLS (documented in docs/sms.md)."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from smpplib import consts
from smpplib.client import Client
from smpplib.exceptions import ConnectionError as ConnectionLost
from smpplib.exceptions import PDUError

from app.transports.sms.smpp_url import SmppSettings, Tls

LOST = (ConnectionLost, PDUError, OSError)
"""What says that a connection is of no more use."""
LARGEST_RECORD = 16 * 1024
LOOK_AGAIN = 0.2
"""Seconds after which a thread that waits for the network tries anyhow: the other one may have read what it needs."""

Result = TypeVar("Result")


def words(error: Exception) -> str:
    """What the library or the system says of a lost connection, which for the former may be nothing."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error.args[0]) if error.args else "the connection was lost"


def tls_context(settings: SmppSettings) -> ssl.SSLContext | None:
    """The context for all connections to the gateway (it reads the trusted authorities once); None without TLS."""
    if settings.tls is Tls.NONE:
        return None
    context = ssl.create_default_context()
    if settings.tls is Tls.UNVERIFIED:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class SmppClient(Client):  # type: ignore[misc]
    """The library's client over whichever kind of address the host has, with TLS where there is a context."""

    def __init__(self, settings: SmppSettings, sequence: Any, context: ssl.SSLContext | None) -> None:
        super().__init__(settings.host, settings.port, settings.timeout, sequence, allow_unknown_opt_params=True)
        self._context = context

    def connect(self) -> None:
        """Raises `OSError` for a gateway that cannot be reached or does not prove who it is."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self._socket = TlsSocket(plain, self._context, self.host) if self._context else plain
        self.state = consts.SMPP_CLIENT_STATE_OPEN

    def is_readable(self, seconds: float) -> bool:
        """Whether there is a PDU, or the beginning of one, within so many seconds."""
        if isinstance(self._socket, TlsSocket):
            return self._socket.is_readable(seconds)
        return bool(select.select([self._socket], [], [], seconds)[0])


class TlsSocket:
    """As much of a socket as the library needs; one thread may read while another one writes.

    OpenSSL lets only one thread at a time touch a connection. So each touch is under a lock and never waits, and the
    waiting is done outside of it. What was decrypted is kept here, where `is_readable` sees it: the network may be
    quiet while a PDU is waiting, and busy with records that hold none.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Shakes hands; raises `OSError`. The time-out of `plain` goes on to hold for each wait."""
        self._timeout = plain.gettimeout() or 0.0
        self._wrapped = context.wrap_socket(plain, server_hostname=host)
        self._wrapped.setblocking(False)
        self._lock = threading.Lock()
        self._decrypted = b""
        self._ended = False

    def is_readable(self, seconds: float) -> bool:
        """Whether `recv` has something to give, which may be the end, within so many seconds."""
        try:
            self._fill(seconds)
        except TimeoutError:
            return False
        return True

    def recv(self, count: int) -> bytes:
        """At most so many bytes; none at the end. Raises `OSError`."""
        self._fill(self._timeout)
        data, self._decrypted = self._decrypted[:count], self._decrypted[count:]
        return data

    def sendall(self, data: bytes) -> None:
        """All of it. Raises `OSError`."""
        while data:
            sent = self._touch(partial(self._wrapped.send, data), self._timeout)
            data = data[sent:]

    def close(self) -> None:
        """Without a goodbye, which SMPP says by itself."""
        self._wrapped.close()

    def _fill(self, seconds: float) -> None:
        if not self._decrypted and not self._ended:
            self._decrypted = self._touch(partial(self._wrapped.recv, LARGEST_RECORD), seconds)
            self._ended = not self._decrypted

    def _touch(self, action: Callable[[], Result], seconds: float) -> Result:
        """Tries until it need not wait; raises `TimeoutError` after so many seconds."""
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
            select.select(reading, writing, [], min(left, LOOK_AGAIN))
