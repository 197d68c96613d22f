"""Text messages over Kannel's HTTP interface `sendsms` (documented in docs/sms.md).

    kannel+http://user:password@host:13013/cgi-bin/sendsms

Kannel splits long texts and numbers the parts itself. It is asked to call `receipt_url` with the final receipt of each
message: `%d` and `%A` in it are Kannel's escapes for the kind of receipt and the network's text.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from urllib.parse import unquote, urlencode

import urllib3
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from app.network.connections import connect
from app.transports import urls
from app.transports.base import DeliveryResult, OutboundSms, SharedConnection, TransportUrlError, Untaken
from app.transports.sms.segments import MAX_PARTS, count_segments, is_gsm

OPTIONS = ("timeout", "smsc")
DLR_MASK = 1 + 2 + 16
"""Final receipts: delivered, not delivered, refused by the network. Intermediate ones add nothing."""
REFUSAL_STATUSES = (400, 406, 413, 414, 422)
"""Kannel refuses this message. All other errors are of the configuration or the gateway, and may be temporary."""
CLOSED_STATUSES = (401, 403, 404, 503)
"""Kannel takes no message now: it does not know us, or has nowhere to put it."""
MAX_TIMEOUT = 600.0
MAX_ANSWER_BYTES = 64 * 1024
"""Bytes that are read of an answer, whose beginning says all."""


@dataclass(frozen=True, slots=True)
class KannelSettings:
    """One gateway and its options; `timeout` is in seconds, for connecting and for the response."""

    url: str
    user: str
    password: str = field(repr=False)
    timeout: float
    smsc: str | None


class _Connection(HTTPConnection):
    """The library's connection, whose lookup of the gateway's name counts toward the timeout."""

    def _new_conn(self) -> socket.socket:
        """urllib3's hook for opening the TCP connection, here and in the class for TLS."""
        try:
            connected = connect(self._dns_host, self.port, float(self.timeout or MAX_TIMEOUT))
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error
        for option in self.socket_options or ():
            connected.setsockopt(*option)
        return connected


class _TlsConnection(HTTPSConnection, _Connection):
    """A connection to the gateway over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class KannelTransport(SharedConnection):
    """The transport over a Kannel gateway. All threads share one connection pool, which reopens connections that the
    gateway has closed. Idle ones cost nothing and stay open for the next message."""

    def __init__(self, settings: KannelSettings) -> None:
        self._settings = settings
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=settings.timeout, read=settings.timeout), retries=False, maxsize=32
        )
        self._pool.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def send(self, message: OutboundSms) -> DeliveryResult:
        """Sends one text, without retries: a lost response is a deferral."""
        segments = count_segments(message.text)
        if segments > MAX_PARTS:
            return DeliveryResult.refused(f"the text has {segments} parts; {MAX_PARTS} is the most")
        url = f"{self._settings.url}?{urlencode(self._parameters(message))}"
        try:
            status, reply = self._answer(url)
        except HTTPError as error:
            is_unsent = isinstance(error, NewConnectionError | ConnectTimeoutError)
            return DeliveryResult.deferred(
                "no answer from the gateway",
                note=f"{self._settings.url}: {type(error).__name__}",
                untaken=Untaken.TRANSPORT if is_unsent else None,
            )
        return _result(status, reply, segments)

    def _answer(self, url: str) -> tuple[int, str]:
        """Status and beginning of the answer, which is not unpacked. A connection with more to read is closed; one
        whose answer has ended is back in the pool."""
        response = self._pool.request("GET", url, redirect=False, preload_content=False, decode_content=False)
        try:
            beginning = response.read(MAX_ANSWER_BYTES)
        finally:
            response.close()
        return response.status, beginning.decode("utf-8", "replace")

    def _parameters(self, message: OutboundSms) -> dict[str, str]:
        gsm = is_gsm(message.text)
        parameters = {
            "username": self._settings.user,
            "password": self._settings.password,
            "from": message.sender,
            "to": message.to,
            "text": message.text.encode("utf-8", "replace").decode(),
            "charset": "UTF-8",
            "coding": "0" if gsm else "2",
        }
        if self._settings.smsc:
            parameters["smsc"] = self._settings.smsc
        if message.receipt_url:
            parameters["dlr-mask"] = str(DLR_MASK)
            parameters["dlr-url"] = f"{message.receipt_url}?type=%d&answer=%A"
        return parameters


def _result(status: int, body: str, segments: int) -> DeliveryResult:
    reply = f"{status} {body.strip()}".strip()
    if 200 <= status < 300:
        return DeliveryResult.accepted(reply, segments=segments)
    if status in REFUSAL_STATUSES:
        return DeliveryResult.refused(reply, untaken=Untaken.MESSAGE)
    return DeliveryResult.deferred(reply, untaken=Untaken.TRANSPORT if status in CLOSED_STATUSES else None)


def kannel_transport(url: str) -> KannelTransport:
    """The transport of a `kannel+http://` or `kannel+https://` URL; raises `TransportUrlError`."""
    parts = urls.split(url)
    options = urls.options(parts, OPTIONS)
    if not parts.hostname or not parts.username or parts.password is None:
        raise TransportUrlError(
            f"{urls.redacted(parts)}: written kannel+http://user:password@host:13013/cgi-bin/sendsms"
        )
    scheme = parts.scheme.removeprefix("kannel+")
    host = parts.netloc.rpartition("@")[2]
    return KannelTransport(
        KannelSettings(
            url=f"{scheme}://{host}{parts.path or '/cgi-bin/sendsms'}",
            user=unquote(parts.username),
            password=unquote(parts.password),
            timeout=urls.number(parts, "timeout", options.get("timeout", "30"), (0.1, MAX_TIMEOUT)),
            smsc=options.get("smsc"),
        )
    )
