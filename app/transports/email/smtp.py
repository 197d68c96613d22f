"""Mail over SMTP: sessions that stay open from message to message and reconnect automatically.

A relay closes sessions that were idle or have carried enough messages, so a kept session may turn out to be dead at the
next message. That message is then sent over a new session at once, provided that the relay cannot have accepted it: its
end had not been sent. After that point only the relay's reply counts; without one the message is uncertain.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.transports.base import DeliveryResult, OutboundEmail, Untaken, wait_only
from app.transports.email.relay_metadata import with_metadata
from app.transports.email.smtp_dialogue import Dialogue
from app.transports.email.smtp_session import SessionClosed, close_session, open_session, tls_context
from app.transports.email.smtp_transaction import Transactions
from app.transports.email.smtp_url import SmtpSettings, parse_smtp_url


@dataclass(frozen=True, slots=True)
class SmtpTransport:
    """One relay."""

    settings: SmtpSettings
    context: ssl.SSLContext | None = field(repr=False)

    def connect(self) -> SmtpConnection:
        """A connection for one thread."""
        return SmtpConnection(self)


class SmtpConnection:
    """At most one session with the relay at a time."""

    pipelines: Literal[True] = True

    def __init__(self, transport: SmtpTransport) -> None:
        self._transport = transport
        self._session: _Session | None = None
        self._next: tuple[OutboundEmail, OutboundEmail] | None = None
        """The message that is expected next, and the form in which it is sent."""
        self.reached = False
        """Whether the last message found a relay that accepted it or refused it permanently."""
        self.refuses_sender = False
        """Whether the relay deferred only the sender of the last message."""

    def send(
        self,
        message: OutboundEmail,
        following: OutboundEmail | None = None,
        while_waiting: Callable[[], None] = wait_only,
        /,
    ) -> DeliveryResult:
        """Sends one message to the relay (docs/transports.md#replies)."""
        if self._session and self._session.message_count >= self._transport.settings.messages:
            self.close()
        is_reused = self._session is not None
        try:
            return self._transact(message, following, while_waiting)
        except SessionClosed as closed:
            self._drop()
            if is_reused and closed.may_resend:
                return self.send(message, following, while_waiting)
            self.reached = self.reached and closed.accepts_mail
            self.refuses_sender = closed.refuses_sender
            return closed.result._replace(untaken=self._untaken())

    def close(self) -> None:
        """Ends the session, with QUIT unless the server waits for the content of a pipelined message."""
        if self._session and self._session.transactions.is_idle:
            close_session(self._session.client)
        self._drop()

    def abort_pipelined(self) -> None:
        """Ends the session if the server waits for the content of a pipelined message: it is sent elsewhere."""
        if self._session and not self._session.transactions.is_idle:
            self._drop()

    def _untaken(self) -> Untaken | None:
        """Whether another transport may send the last message, as the next of several relays may."""
        if self.reached:
            return None
        return Untaken.MESSAGE if self.refuses_sender else Untaken.TRANSPORT

    def _transact(
        self, message: OutboundEmail, following: OutboundEmail | None, while_waiting: Callable[[], None]
    ) -> DeliveryResult:
        self.reached, self.refuses_sender = self._session is not None, False
        if self._session is None:
            self._session = _Session(open_session(self._transport.settings, self._transport.context))
            self.reached = True
        self._session.message_count += 1
        is_last = self._session.message_count >= self._transport.settings.messages
        sent = self._as_sent(message)
        self._next = None if following is None or is_last else (following, self._as_sent(following))
        return self._session.transactions.send(sent, self._next and self._next[1], while_waiting)

    def _as_sent(self, message: OutboundEmail) -> OutboundEmail:
        """The message with the relay's metadata; one that was announced stays the same object."""
        if self._next is not None and self._next[0] is message:
            return self._next[1]
        return with_metadata(message, self._transport.settings.provider)

    def _drop(self) -> None:
        if self._session:
            self._session.client.close()
        self._session = None


class _Session:
    """An open session, and the number of messages it has carried."""

    def __init__(self, client: smtplib.SMTP) -> None:
        self.client = client
        self.transactions = Transactions(Dialogue(client))
        self.message_count = 0


def smtp_transport(url: str) -> SmtpTransport:
    """The transport of an `smtp://` or `smtps://` URL; raises `TransportUrlError`."""
    settings = parse_smtp_url(url)
    return SmtpTransport(settings, tls_context(settings))
