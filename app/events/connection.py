"""One connection to a webhook's host: to an address that was checked, and never for longer than it may take."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import time
from dataclasses import dataclass

from requests.utils import DEFAULT_CA_BUNDLE_PATH, requote_uri
from urllib3.util import wait_for_read

from app.events.ssrf_guard import ascii_host, check_addresses, resolve, split_url


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook as the network sees it. `host` is in ASCII form."""

    tls: bool
    host: str
    port: int
    path: str
    allow_private: bool


class Connection(http.client.HTTPConnection):
    """A connection to an address that was checked; host name, SNI and certificate stay those of the URL."""

    def __init__(self, target: Target, trust: ssl.SSLContext, connect_timeout: float, read_timeout: float) -> None:
        self.default_port = http.client.HTTPS_PORT if target.tls else http.client.HTTP_PORT
        super().__init__(target.host, target.port)
        self.target = target
        self.was_cut = False
        self._trust = trust
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._wire: socket.socket | None = None

    def connect(self) -> None:
        """Looks the host up, checks every address and connects to one of them, all within the connect time-out."""
        deadline = time.monotonic() + self._connect_timeout
        addresses = resolve(self.host, self._connect_timeout)
        if not self.target.allow_private:
            check_addresses(self.host, addresses)
        self.sock = self._first_that_answers(addresses, deadline)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.target.tls:
            self.sock.settimeout(_left(deadline))
            self.sock = self._trust.wrap_socket(self.sock, server_hostname=self.host)
        self.sock.settimeout(self._read_timeout)
        # Where the answer says `Connection: close`, the base class lets go of the socket before the body is read.
        self._wire = self.sock
        if self.was_cut:
            raise ConnectionAbortedError("stopped before the request went out")

    def _first_that_answers(self, addresses: list[str], deadline: float) -> socket.socket:
        failure = OSError(f"{self.host} has no address")
        for index, address in enumerate(addresses):
            share = _left(deadline) / (len(addresses) - index)
            try:
                return socket.create_connection((address, self.port), timeout=share)
            except OSError as error:
                failure = error
        raise failure

    def is_stale(self) -> bool:
        """Whether the other side has closed the idle connection, or said something that nobody asked for."""
        return wait_for_read(self.sock, timeout=0)

    def cut(self) -> None:
        """Ends whatever another thread is doing with this connection."""
        self.was_cut = True
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)


def trusted_roots() -> ssl.SSLContext:
    """The certificate authorities of the machine, with those that come with the service where it has none."""
    context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
    context.load_default_certs()
    return context


def read_target(url: str, *, allow_private: bool) -> Target:
    """The parts of the URL that a request needs. Raises `ForbiddenAddress` for one that may not be used (any more)."""
    parts = split_url(url, allow_private=allow_private)
    tls = parts.scheme == "https"
    port = parts.port or (http.client.HTTPS_PORT if tls else http.client.HTTP_PORT)
    path = requote_uri((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    return Target(tls, ascii_host(parts), port, path, allow_private)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no connection in time")
    return left
