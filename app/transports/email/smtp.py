"""Mail over SMTP: sessions that stay open from message to message and renew themselves.

A relay closes sessions that were idle or have carried enough, so a kept session may turn out to be dead when the next
message comes. That message then goes over a fresh session at once, provided the relay cannot have taken it: its end
had not been sent. After that point only the relay's answer counts; without one the message is uncertain.
"""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass, field
from typing import Literal

from app.transports.base import DeliveryResult, OutboundEmail
from app.transports.email.smtp_dialogue import Dialogue
from app.transports.email.smtp_session import ChannelClosed, close_session, open_session, tls_context
from app.transports.email.smtp_transaction import Transactions
from app.transports.email.smtp_url import SmtpSettings, parse_smtp_url


@dataclass(frozen=True, slots=True)
class SmtpTransport:
    """One relay."""

    settings: SmtpSettings
    context: ssl.SSLContext | None = field(repr=False)

    def connect(self) -> SmtpConnection:
        """A connection of the caller's own."""
        return SmtpConnection(self)


class SmtpConnection:
    """At most one session with the relay at a time."""

    announces: Literal[True] = True

    def __init__(self, transport: SmtpTransport) -> None:
        self._transport = transport
        self._session: _Session | None = None
        self.reached = False
        """Whether the last message found a session with a relay that takes it or refuses it for good."""
        self.refuses_sender = False
        """Whether the relay puts off the last message's sender alone."""

    def send(self, message: OutboundEmail, following: OutboundEmail | None = None, /) -> DeliveryResult:
        """Hand one message to the relay (docs/transports.md#replies)."""
        if self._session and self._session.carried >= self._transport.settings.messages:
            self.close()
        kept = self._session is not None
        try:
            return self._transact(message, following)
        except ChannelClosed as closed:
            self._drop()
            if kept and closed.repeatable:
                return self.send(message, following)
            self.reached = self.reached and closed.willing
            self.refuses_sender = closed.refuses_sender
            return closed.result

    def close(self) -> None:
        """End the session, politely unless the server waits for a message that was announced."""
        if self._session and self._session.transactions.is_between:
            close_session(self._session.client)
        self._drop()

    def leave(self) -> None:
        """End the session if the server waits for a message that was announced: it goes another way."""
        if self._session and not self._session.transactions.is_between:
            self._drop()

    def _transact(self, message: OutboundEmail, following: OutboundEmail | None) -> DeliveryResult:
        self.reached, self.refuses_sender = self._session is not None, False
        if self._session is None:
            self._session = _Session(open_session(self._transport.settings, self._transport.context))
            self.reached = True
        self._session.carried += 1
        is_last = self._session.carried >= self._transport.settings.messages
        return self._session.transactions.send(message, None if is_last else following)

    def _drop(self) -> None:
        if self._session:
            self._session.client.close()
        self._session = None


class _Session:
    """An open session, and how many messages it has carried."""

    def __init__(self, client: smtplib.SMTP) -> None:
        self.client = client
        self.transactions = Transactions(Dialogue(client))
        self.carried = 0


def smtp_transport(url: str) -> SmtpTransport:
    """The relay that an `smtp://` or `smtps://` URL describes; raises `TransportUrlError`."""
    settings = parse_smtp_url(url)
    return SmtpTransport(settings, tls_context(settings))
