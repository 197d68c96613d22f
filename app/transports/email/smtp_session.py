"""Opening an SMTP session with a relay: connect, EHLO, STARTTLS, AUTH.

A failure here has nothing to do with a recipient, so it is always a deferral: a wrong password or an expired
certificate must not block the addresses of the messages that happened to be next.
"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl

from app.network.connections import connect
from app.network.lookup import own_name
from app.transports.base import DeliveryResult
from app.transports.email.replies import Reply
from app.transports.email.smtp_url import SmtpSettings, Tls

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
    """The same with TLS from the first byte: the library's class encrypts the socket of the class behind it."""


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
