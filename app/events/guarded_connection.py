"""Connections to servers that strangers name: opened only to addresses that the SSRF guard has checked, and ended by a
deadline.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NewType
from urllib.parse import SplitResult, urlsplit

import idna
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from app.network.connections import connect_to_any, seconds_left
from app.network.lookup import look_up, number_of
from app.settings import Settings

CheckedUrl = NewType("CheckedUrl", str)
"""A URL that `check_form` has accepted."""

MAX_URL_LENGTH = 2000

GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is routed. Outside it are link-local, site-local, unique local, multicast and embedded IPv4
addresses."""
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")


class ForbiddenAddress(ValueError):
    """A URL or a host that webhooks must not reach; the text is one line for the operator."""


def check_form(url: str, settings: Settings) -> CheckedUrl:
    """The URL, unless its form or an address in it shows that it cannot be registered. Raises `ForbiddenAddress` (a
    `ValueError`)."""
    parts = split_url(url, allow_private=settings.webhook_allow_private)
    if not settings.webhook_allow_private:
        host = ascii_host(parts)
        address = number_of(host)
        if address is not None:
            check_addresses(host, [address])
    return CheckedUrl(url)


def has_name(url: CheckedUrl) -> bool:
    """Whether the host is a name, whose addresses only a name server can tell."""
    return number_of(ascii_host(urlsplit(url))) is None


def is_for_development(url: str) -> bool:
    """Whether the URL could be registered with WEBHOOK_ALLOW_PRIVATE."""
    with contextlib.suppress(ForbiddenAddress):
        split_url(url, allow_private=True)
        return True
    return False


def split_url(url: str, *, allow_private: bool) -> SplitResult:
    """The parts of a webhook's URL, with scheme, host and port checked. Raises `ForbiddenAddress`."""
    if len(url) > MAX_URL_LENGTH or not url.isprintable() or " " in url:
        raise ForbiddenAddress(f"must be a URL of at most {MAX_URL_LENGTH} characters without spaces")
    try:
        parts = urlsplit(url)
        usable = bool(ascii_host(parts)) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ForbiddenAddress("must be an absolute URL with a valid host and port")
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        raise ForbiddenAddress("must begin with https://" + (" or http://" if allow_private else ""))
    if "@" in parts.netloc or parts.fragment:
        raise ForbiddenAddress("must not have a user, a password or a fragment")
    return parts


def ascii_host(parts: SplitResult) -> str:
    """The host in the form that DNS and certificates use. Raises `ValueError` for an invalid one."""
    host = parts.hostname or ""
    if not host.isascii():
        return idna.encode(host, uts46=True).decode("ascii")
    return host.encode("idna").decode("ascii")


def check_addresses(host: str, addresses: list[str]) -> None:
    """Raises `ForbiddenAddress` unless every one is global: a single private one is enough for an attack."""
    for address in addresses:
        if not is_public(address):
            raise ForbiddenAddress(f"leads to {address} ({host}), which is not a public address")


def is_public(text: str) -> bool:
    """Whether this is an address of the public Internet; IPv4 embedded in IPv6 is judged as IPv4.

    Stricter than `is_global`, whose answers differ between Python versions and include multicast and site-local ones.
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        embedded = _embedded(address)
        if embedded is None:
            return _is_public_ipv6(address)
        address = embedded
    return address.is_global and not address.is_multicast and not address.is_reserved


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped


def _is_public_ipv6(address: ipaddress.IPv6Address) -> bool:
    # 6to4 also hides an IPv4 address, but its relays are gone from the Internet (RFC 7526).
    return (
        address.is_global and address in GLOBAL_UNICAST and address not in SIX_TO_FOUR and address not in DOCUMENTATION
    )


@dataclass(frozen=True, slots=True)
class Target:
    """The URL of a webhook in the parts that a connection and a request need. `host` is in ASCII form."""

    tls: bool
    host: str
    port: int
    path: str
    allow_private: bool


class ConnectionFailed(Exception):
    """Name resolution, address check, TCP or TLS failed. No `OSError`, which urllib3 would wrap in an error with
    another text."""


class GuardedConnection(HTTPConnection):
    """Connects within `connect_timeout`; calls `on_request` with the connected socket before each request."""

    def __init__(
        self,
        *arguments: Any,
        target: Target,
        connect_timeout: float,
        on_request: Callable[[Any], None],
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._target = target
        self._connect_timeout = connect_timeout
        self._on_request = on_request

    def _new_conn(self) -> socket.socket:
        """urllib3's hook for opening the TCP connection. The TLS handshake gets the rest of the timeout."""
        deadline = time.monotonic() + self._connect_timeout
        addresses = look_up(self._target.host, self._connect_timeout)
        if not self._target.allow_private:
            check_addresses(self._target.host, addresses)
        connected = connect_to_any(self._target.host, addresses, self._target.port, deadline)
        for option in self.socket_options or ():
            connected.setsockopt(*option)
        connected.settimeout(seconds_left(deadline))
        return connected

    def connect(self) -> None:
        """Opens the connection. Raises `ConnectionFailed`."""
        try:
            super().connect()
        except (OSError, ValueError) as error:
            raise ConnectionFailed(str(error) or type(error).__name__) from error

    def request(self, *arguments: Any, **options: Any) -> None:
        """Connects first if necessary, so that the time of connecting does not count as time of the request."""
        if self.is_closed:
            self.connect()
        self._on_request(self.sock)
        super().request(*arguments, **options)


class GuardedTlsConnection(GuardedConnection, HTTPSConnection):
    """A guarded connection over TLS."""


class GuardedPool(HTTPConnectionPool):
    """Keeps guarded connections."""

    ConnectionCls = GuardedConnection


class GuardedTlsPool(HTTPSConnectionPool):
    """Keeps guarded connections over TLS."""

    ConnectionCls = GuardedTlsConnection


def guarded_pool(
    target: Target,
    trust: ssl.SSLContext,
    *,
    connect_timeout: float,
    read_timeout: float,
    on_request: Callable[[Any], None],
) -> HTTPConnectionPool:
    """A pool that keeps one connection to the target. It never retries: the caller decides what is sent again."""
    options: dict[str, Any] = {
        "timeout": read_timeout,
        "maxsize": 1,
        "retries": Retry(False, redirect=False),
        "target": target,
        "connect_timeout": connect_timeout,
        "on_request": on_request,
    }
    if target.tls:
        return GuardedTlsPool(target.host, target.port, ssl_context=trust, **options)
    return GuardedPool(target.host, target.port, **options)


@cache
def trusted_roots() -> ssl.SSLContext:
    """The certificate authorities of the machine, or those that come with the service if it has none. Read once for all
    connections of the process: urllib3 sets again what is set already, and changes nothing else."""
    context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
    context.load_default_certs()
    return context


def read_target(url: str, *, allow_private: bool) -> Target:
    """The parts of the URL. Raises `ForbiddenAddress` for a URL that is not allowed (any more)."""
    parts = split_url(url, allow_private=allow_private)
    tls = parts.scheme == "https"
    port = parts.port or (http.client.HTTPS_PORT if tls else http.client.HTTP_PORT)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(tls, ascii_host(parts), port, path, allow_private)


class Exchange:
    """A request and its answer, which the watchdog ends."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._was_cut = False

    def begins(self, connected: socket.socket) -> None:
        """Called with the connected socket before the request."""
        # urllib3 drops the socket before the body is read if the response has `Connection: close`.
        self._socket = connected
        if self._was_cut:
            raise ConnectionAbortedError("no time was left for the request")

    def cut(self) -> None:
        """Ends the exchange that another thread is waiting for. Called with the watchdog's lock held: it must not call
        the watchdog."""
        self._was_cut = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class Watchdog:
    """Cuts exchanges that have reached their time limit. Its thread ends when it wakes up and finds nothing to watch;
    the next request starts another one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._deadlines: dict[Exchange, float] = {}
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    @contextmanager
    def cut_after(self, watched: Exchange, seconds: float) -> Iterator[None]:
        """Cuts the exchange if the block takes longer. One block at a time per object. Raises `MemoryError` where no
        thread can start, without the block."""
        try:
            self._watch(watched, time.monotonic() + seconds)
            yield
        finally:
            with self._changed:
                self._deadlines.pop(watched, None)

    def restart(self, watched: Exchange, seconds: float) -> None:
        """Gives the exchange's block this many seconds from now on."""
        self._watch(watched, time.monotonic() + seconds)

    def _watch(self, watched: Exchange, deadline: float) -> None:
        with self._changed:
            self._deadlines[watched] = deadline
            if self._thread is None:
                thread = threading.Thread(target=self._run, daemon=True, name="watchdog")
                try:
                    thread.start()
                except RuntimeError as error:  # the next request tries again
                    raise MemoryError(str(error)) from error
                self._thread = thread
            elif deadline < self._wakes_at:
                self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while self._deadlines:
                self._wakes_at = min(self._deadlines.values())
                self._changed.wait(self._wakes_at - time.monotonic())
                moment = time.monotonic()
                for watched in [item for item, deadline in self._deadlines.items() if deadline <= moment]:
                    del self._deadlines[watched]
                    watched.cut()
            self._thread = None


CONNECT_TIMEOUT = 3.0
READ_TIMEOUT = 3.0
TOTAL_TIMEOUT = 6.0
"""Seconds for the whole exchange, whatever the server does."""
MAX_BYTES = 64 * 1024

_watchdog = Watchdog()


class FetchFailed(OSError):
    """There is no such document, or no answer; the text is for the log."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server has answered: a body of at most 64 KiB."""

    status: int
    body: bytes


def exchange(
    url: str,
    trust: ssl.SSLContext,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
    allow_private: bool = False,
) -> Answer:
    """Sends one request. No redirect is followed, and no proxy of the environment is used; unless `allow_private`, no
    address is reached that is not public. Raises `FetchFailed`."""
    watched = Exchange()
    try:
        target = read_target(url, allow_private=allow_private)
        pool = guarded_pool(
            target,
            trust,
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            on_request=watched.begins,
        )
        with contextlib.closing(pool), _watchdog.cut_after(watched, TOTAL_TIMEOUT):
            response = pool.urlopen(
                method,
                target.path,
                body=body,
                headers=dict(headers or {}),
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            with contextlib.closing(response):
                received = response.read(MAX_BYTES + 1)
    except (ConnectionFailed, HTTPError, OSError, ValueError) as error:
        raise FetchFailed(f"{url}: {error}") from error
    if len(received) > MAX_BYTES:
        raise FetchFailed(f"{url}: status {response.status}, {len(received)} bytes")
    return Answer(response.status, received)


def fetch(url: str, trust: ssl.SSLContext, *, allow_private: bool = False) -> bytes:
    """The document at the URL, of at most 64 KiB, by `exchange`. Raises `FetchFailed`."""
    answer = exchange(url, trust, allow_private=allow_private)
    if answer.status != 200:
        raise FetchFailed(f"{url}: status {answer.status}, {len(answer.body)} bytes")
    return answer.body
