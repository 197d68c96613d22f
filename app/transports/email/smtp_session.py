"""An SMTP session: connecting, TLS, authentication, commands and replies."""

from __future__ import annotations

import contextlib
import re
import smtplib
import socket
import ssl
import time
from functools import lru_cache
from typing import NamedTuple

from app.network.connections import connect
from app.network.lookup import own_name
from app.transports.base import DeliveryResult
from app.transports.email.smtp_url import SmtpSettings, Tls

MAX_TEXT_LENGTH = 1000

# "Authenticate first", "mechanism too weak", "credentials wrong", "encryption required": the relay rejects our
# configuration, which has nothing to do with the recipient, so the address must not be blocked.
SERVICE_FAULT_CODES = frozenset({530, 534, 535, 538})

_STATUS = re.compile(r"([245])\.(\d{1,3})\.(\d{1,3})(?=\s|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Reply(NamedTuple):
    """One reply: its code, and its text on one line. `to_mail` is whether it answers MAIL."""

    code: int
    text: str
    to_mail: bool = False

    @classmethod
    def from_wire(cls, code: int, raw: bytes) -> Reply:
        """The reply from the code and the lines of text, joined by line feeds, as smtplib returns them."""
        return cls(code, _text(raw))

    def __str__(self) -> str:
        return f"{self.code} {self.text}".strip()

    def result(self) -> DeliveryResult:
        """2xx is accepted and 5xx refused, unless our own configuration is at fault; the rest is deferred."""
        if 200 <= self.code <= 299:
            return DeliveryResult.accepted(str(self), self._status(2))
        if 500 <= self.code <= 599 and self.code not in SERVICE_FAULT_CODES:
            return DeliveryResult.refused(str(self), self._status(5), about_sender=self.to_mail)
        return self.deferral()

    def deferral(self) -> DeliveryResult:
        """A deferral with this text, whatever the code: for replies before the recipient was named."""
        return DeliveryResult.deferred(str(self), self._status(4))

    @property
    def concerns_sender(self) -> bool:
        """Whether a refusal of MAIL is about the sender rather than about the server, its disk or our credentials: the
        subjects 1 and 7 of RFC 3463 are addresses and policy."""
        status = _STATUS.match(self.text)
        return self.code not in SERVICE_FAULT_CODES and (status[2] in ("1", "7") if status else self.code in (450, 451))

    def _status(self, severity: int) -> str:
        """The status in the text, else `X.0.0`; its class is that of the outcome, as RFC 2034 requires of servers."""
        match = _STATUS.match(self.text)
        return f"{severity}.{match[2]}.{match[3]}" if match else f"{severity}.0.0"


@lru_cache(maxsize=256)
def one_line_reply(line: bytes) -> Reply:
    """A reply of one line. Cached, because a server sends the same one to nearly all MAIL, RCPT and DATA commands.

    Raises `ValueError` for what is no reply.
    """
    return Reply.from_wire(reply_code(line), line[4:])


def reply_code(line: bytes) -> int:
    """The code of a line; raises `ValueError` for what is no reply."""
    code = int(line[:3])
    if not 200 <= code <= 599:
        raise ValueError(f"unintelligible reply: {line[:100]!r}")
    return code


@lru_cache(maxsize=256)
def _text(raw: bytes) -> str:
    """The text on one line. Cached, because a server sends the same reply to most MAIL and RCPT commands."""
    lines = [_CONTROL.sub(" ", line).strip() for line in raw.decode("utf-8", "replace").split("\n")]
    return _joined(lines)[:MAX_TEXT_LENGTH]


def _joined(lines: list[str]) -> str:
    """The lines as one text; a status repeated on each line is kept once."""
    match = _STATUS.match(lines[0])
    if not match:
        return " ".join(lines)
    return " ".join([lines[0], *(line.removeprefix(match[0]).strip() for line in lines[1:])])


MAX_QUIT_TIMEOUT = 5.0
MAX_OWN_NAME_LOOKUP = 5.0


class SessionClosed(Exception):
    """The session cannot be used any more.

    `result` is the result of the current message. `may_resend` is true if the server cannot have accepted that message,
    so that it may be sent over a new connection at once. `accepts_mail` is false if the server accepts none now, so
    that another server may be tried; `refuses_sender` is true if that holds only for this sender.
    """

    def __init__(
        self,
        result: DeliveryResult,
        *,
        may_resend: bool = False,
        accepts_mail: bool = True,
        refuses_sender: bool = False,
    ) -> None:
        super().__init__(result.reply)
        self.result = result
        self.may_resend = may_resend
        self.accepts_mail = accepts_mail
        self.refuses_sender = refuses_sender


def tls_context(settings: SmtpSettings) -> ssl.SSLContext | None:
    """The context for all connections of a transport, because it reads the trusted authorities; None without TLS."""
    if settings.tls is Tls.NONE:
        return None
    context = ssl.create_default_context()
    if not settings.verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def open_session(settings: SmtpSettings, context: ssl.SSLContext | None) -> smtplib.SMTP:
    """A session that is ready for its first message; raises `SessionClosed`."""
    try:
        client = _connect(settings, context)
    except (OSError, ValueError) as error:
        raise SessionClosed(_failure(settings, error)) from error
    try:
        _handshake(client, settings, context)
    except (OSError, ValueError) as error:  # an AUTH challenge that is not base64 is a ValueError
        client.close()
        raise SessionClosed(_failure(settings, error)) from error
    return client


def close_session(client: smtplib.SMTP) -> None:
    """Ends the session with QUIT, if the server still answers."""
    with contextlib.suppress(OSError):
        if client.sock:
            client.sock.settimeout(min(MAX_QUIT_TIMEOUT, client.timeout))
            client.quit()
    client.close()


class _Client(smtplib.SMTP):
    """The library's client, whose lookup of the relay's name counts toward the timeout of the connection."""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return connect(host, port, timeout)


class _TlsClient(smtplib.SMTP_SSL, _Client):
    """The client with TLS from the first byte: the library's class encrypts the socket of the class behind it."""


def _connect(settings: SmtpSettings, context: ssl.SSLContext | None) -> smtplib.SMTP:
    if settings.tls is Tls.IMPLICIT:
        return _TlsClient(settings.host, settings.port, _helo_name(), timeout=settings.timeout, context=context)
    return _Client(settings.host, settings.port, _helo_name(), timeout=settings.timeout)


def _handshake(client: smtplib.SMTP, settings: SmtpSettings, context: ssl.SSLContext | None) -> None:
    if client.sock:
        # The last packet of a message is not full; with Nagle's algorithm it would wait for the one before to be
        # confirmed.
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.ehlo_or_helo_if_needed()
    encrypted = settings.tls is Tls.IMPLICIT or _start_tls(client, settings, context)
    if settings.user is not None and settings.password is not None:
        if not (encrypted or settings.may_log_in_unencrypted):
            raise smtplib.SMTPNotSupportedError(
                "the server offers no STARTTLS and the password is not sent in the clear; tls=none would allow it"
            )
        client.login(settings.user, settings.password)


def _start_tls(client: smtplib.SMTP, settings: SmtpSettings, context: ssl.SSLContext | None) -> bool:
    """Encrypts as the settings require; returns whether the connection is encrypted."""
    if settings.tls is Tls.NONE:
        return False
    if not client.has_extn("starttls"):
        if settings.tls is Tls.REQUIRE:
            raise smtplib.SMTPNotSupportedError("the server offers no STARTTLS, which tls=require asks for")
        return False
    client.starttls(context=context)
    client.ehlo_or_helo_if_needed()
    return True


def _failure(settings: SmtpSettings, error: OSError | ValueError) -> DeliveryResult:
    """The deferral for a session that could not be opened, with the RFC 3463 status of the failure."""
    server = f"{settings.host}:{settings.port}"
    match error:
        case ssl.SSLError():
            return DeliveryResult.deferred(
                "no encryption with the relay", "4.7.5", note=f"TLS with {server} failed: {error}"
            )
        case smtplib.SMTPResponseException():
            return Reply.from_wire(error.smtp_code, _as_bytes(error.smtp_error)).deferral()
        case smtplib.SMTPServerDisconnected():
            note = f"{server} closed the connection: {error}"
            return DeliveryResult.deferred("the relay closed the connection", "4.4.2", note=note)
        case smtplib.SMTPException():
            return DeliveryResult.deferred("no session with the relay", "4.7.0", note=f"{server}: {error}")
        case _:
            note = f"no connection to {server}: {error}"
            return DeliveryResult.deferred("no connection to the relay", "4.4.1", note=note)


def _as_bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _helo_name() -> str:
    """The name for EHLO."""
    name = own_name(MAX_OWN_NAME_LOOKUP)
    return name if "." in name else "[127.0.0.1]"


BUFFER_SIZE = 64 * 1024
PART_SIZE = 16 * 1024
"""Bytes that are sent by one call: those of a record of TLS, which arrives as a whole or not at all. A call has one
timeout, and the whole of a large mail may take longer."""
MAX_LINE_LENGTH, MAX_LINES = 8192, 1000
"""Limits of one reply; longer ones are not SMTP."""


class PartlySent(Exception):
    """The connection broke while sending: the first `count` bytes may have arrived, the rest has not."""

    def __init__(self, count: int, error: OSError) -> None:
        super().__init__(str(error))
        self.count = count


class Dialogue:
    """An open session, for one thread at a time."""

    def __init__(self, client: smtplib.SMTP) -> None:
        if client.sock is None:
            raise ValueError("the session is not open")
        self._socket = client.sock
        self._timeout = client.timeout
        self._features = client.esmtp_features
        self._received = b""

    def offers(self, extension: str) -> bool:
        """Whether the server announced the extension, given in lower case."""
        return extension in self._features

    def write(self, data: bytes) -> None:
        """Sends all of the data; raises `PartlySent`."""
        count = 0
        try:
            count = self._socket.send(data[:PART_SIZE])
            while count < len(data):
                count += self._socket.send(memoryview(data)[count : count + PART_SIZE])
        except OSError as error:
            raise PartlySent(count, error) from error

    def read_reply(self, timeouts: int = 1) -> Reply:
        """The next reply; waits for its first bytes for `timeouts` times the socket's timeout, and for the rest as long
        again. Raises `OSError` if the connection is lost and `ValueError` when the reply is not SMTP."""
        if b"\n" not in self._received:
            self._received += self._receive(timeouts)
        line, line_end, rest = self._received.partition(b"\n")
        if line_end and line[3:4] != b"-":
            self._received = rest
            return one_line_reply(line)
        return self._long_reply(time.monotonic() + timeouts * self._timeout)

    def _long_reply(self, deadline: float) -> Reply:
        """The reply, of which only a part has been received or which has several lines."""
        lines = list[bytes]()
        line = b"250-"
        while line[3:4] == b"-":
            if len(lines) == MAX_LINES:
                raise ValueError("a reply without an end")
            line = self._line(deadline)
            lines.append(line[4:])
        return Reply.from_wire(reply_code(line), b"\n".join(lines))

    def _line(self, deadline: float) -> bytes:
        line, line_end, rest = self._received.partition(b"\n")
        while not line_end:
            if len(line) > MAX_LINE_LENGTH:
                raise ValueError("a line without an end")
            self._received += self._receive_until(deadline)
            line, line_end, rest = self._received.partition(b"\n")
        self._received = rest
        return line

    def _receive_until(self, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the reply took too long")
        self._socket.settimeout(left)
        try:
            return self._receive(1)
        finally:
            self._socket.settimeout(self._timeout)

    def _receive(self, timeouts: int) -> bytes:
        for left in reversed(range(timeouts)):
            try:
                part = self._socket.recv(BUFFER_SIZE)
            except TimeoutError:
                if not left:
                    raise
            else:
                break
        if not part:
            raise ConnectionResetError("Connection unexpectedly closed")
        return part
