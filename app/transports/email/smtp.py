"""The SMTP transport, and the transaction of one mail over a session."""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from app.transports.base import DeliveryResult, OutboundEmail, Outcome, Untaken, wait_only
from app.transports.email.mime import ascii_domain, is_safe
from app.transports.email.smtp_session import (
    Dialogue,
    PartlySent,
    Reply,
    SessionClosed,
    close_session,
    open_session,
    tls_context,
)
from app.transports.email.smtp_url import SmtpSettings, parse_smtp_url, with_metadata


class Envelope(NamedTuple):
    """Sender and recipient, and the parameters of MAIL."""

    sender: str
    to: str
    options: str

    def commands(self) -> list[str]:
        """The commands MAIL and RCPT."""
        return [f"MAIL FROM:<{self.sender}>{self.options}", f"RCPT TO:<{self.to}>"]


def envelope_of(dialogue: Dialogue, email: OutboundEmail) -> Envelope | DeliveryResult:
    """The envelope in a form that this server accepts, or the result if there is none."""
    sender, to = ascii_domain(email.envelope_from), ascii_domain(email.to)
    if not is_safe(to) or not to:
        return DeliveryResult.refused("the address has characters that no address has", "5.1.3")
    if not is_safe(sender):
        return DeliveryResult.deferred("the sender's address has characters that no address has", "4.1.7")
    options = f" SIZE={len(email.content)}" if dialogue.offers("size") else ""
    if dialogue.offers("smtputf8"):
        return Envelope(sender, to, options + _utf8_options(email.content, sender, to))
    return _ascii_envelope(email.content, Envelope(sender, to, options))


def _utf8_options(content: bytes, sender: str, to: str) -> str:
    """SMTPUTF8 only for a message that needs it: any server on the way without it would have to refuse the message."""
    if not content.isascii():
        return " SMTPUTF8 BODY=8BITMIME"
    return "" if sender.isascii() and to.isascii() else " SMTPUTF8"


def _ascii_envelope(content: bytes, envelope: Envelope) -> Envelope | DeliveryResult:
    """The envelope for a server without SMTPUTF8. Only a problem of the recipient's own address is a refusal."""
    if not envelope.to.isascii():
        return DeliveryResult.refused("the relay has no SMTPUTF8, which this address needs", "5.6.7")
    if not (envelope.sender.isascii() and content.isascii()):
        return DeliveryResult.deferred("the relay has no SMTPUTF8, which the sender's address needs", "4.6.7")
    return envelope


# Giving up on the final reply may duplicate the message, so its timeout is longer than those of the others (RFC 5321,
# 4.5.3.2.6).
DATA_TIMEOUTS = 4

NO_FINAL_REPLY = (
    "the connection was lost after the message was sent and before the server answered; it may have arrived"
)

_LINE_END = re.compile(rb"\r\n|\r|\n")


class _PipelinedMessage(NamedTuple):
    """A message whose commands were sent ahead, and their result: None when the server waits for the content, the
    result when it refused the message, or the exception when the session was closed."""

    email: OutboundEmail
    result: DeliveryResult | SessionClosed | None


class Transactions:
    """The consecutive transactions of one session."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._pipelined: _PipelinedMessage | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the server waits for a command, not for the content of a pipelined message."""
        return self._pipelined is None

    def send(
        self,
        email: OutboundEmail,
        following: OutboundEmail | None = None,
        while_waiting: Callable[[], None] = wait_only,
    ) -> DeliveryResult:
        """Sends one message, and pipelines the commands of the following one if possible. `while_waiting` is called
        once it is sent.

        Raises `SessionClosed`, with the result of this message, when the session cannot be used any more.
        """
        return self._open(email) or self._transmit(email, following, while_waiting)

    def _open(self, email: OutboundEmail) -> DeliveryResult | None:
        """The commands before the content, unless they were pipelined; None when the server waits for the content."""
        pipelined, self._pipelined = self._pipelined, None
        if pipelined is None:
            envelope = envelope_of(self._dialogue, email)
            return envelope if isinstance(envelope, DeliveryResult) else _open(self._dialogue, envelope)
        if pipelined.email is not email:
            raise SessionClosed(DeliveryResult.deferred("another message was announced"), may_resend=True)
        if isinstance(pipelined.result, SessionClosed):
            raise pipelined.result
        return pipelined.result

    def _transmit(
        self, email: OutboundEmail, following: OutboundEmail | None, while_waiting: Callable[[], None]
    ) -> DeliveryResult:
        """The content and the final reply, which alone determines whether the server has accepted the message."""
        content, ahead = _dot_stuffed(email.content), self._pipelined_commands(following)
        try:
            self._dialogue.write(content + ahead)
        except PartlySent as error:
            if error.count >= len(content):
                raise SessionClosed(DeliveryResult.uncertain(NO_FINAL_REPLY, "4.4.2")) from error
            raise SessionClosed(_connection_lost(error), may_resend=True) from error
        while_waiting()
        try:
            reply = self._dialogue.read_reply(DATA_TIMEOUTS)
        except (OSError, ValueError) as error:
            raise SessionClosed(DeliveryResult.uncertain(NO_FINAL_REPLY, "4.4.2")) from error
        if reply.code == 421:
            raise SessionClosed(reply.result())
        if following and ahead:
            self._pipelined = _PipelinedMessage(following, self._pipelined_answer())
        return reply.result()

    def _pipelined_commands(self, following: OutboundEmail | None) -> bytes:
        """The commands of the following message; none if the server does not support pipelining."""
        if following is None or not self._dialogue.offers("pipelining"):
            return b""
        envelope = envelope_of(self._dialogue, following)
        return b"" if isinstance(envelope, DeliveryResult) else _wire([*envelope.commands(), "DATA"])

    def _pipelined_answer(self) -> DeliveryResult | SessionClosed | None:
        try:
            return _envelope_result(self._dialogue, _replies(self._dialogue, 3))
        except SessionClosed as closed:
            return closed


def _open(dialogue: Dialogue, envelope: Envelope) -> DeliveryResult | None:
    """The commands before the content; None when the server waits for the content."""
    if dialogue.offers("pipelining"):
        return _envelope_result(dialogue, _commands(dialogue, [*envelope.commands(), "DATA"]))
    return _open_stepwise(dialogue, envelope)


def _open_stepwise(dialogue: Dialogue, envelope: Envelope) -> DeliveryResult | None:
    sender, recipient = envelope.commands()
    reply = _command(dialogue, sender)
    if not _is_positive(reply):
        _check_accepts_mail(reply)
        return _reset(dialogue, reply._replace(to_mail=True))
    reply = _command(dialogue, recipient)
    if not _is_positive(reply):
        return _reset(dialogue, reply)
    reply = _command(dialogue, "DATA")
    return None if reply.code == 354 else _reset(dialogue, reply)


def _envelope_result(dialogue: Dialogue, replies: Sequence[Reply]) -> DeliveryResult | None:
    """The result of MAIL, RCPT and DATA, sent together: None when the server waits for the content."""
    sender, recipient, data = replies
    refused = _refused(sender, recipient)
    if refused and (data.code == 354 or data is CLOSED):
        # Only closing keeps the server from accepting an empty message, and a late reply from answering RSET.
        raise SessionClosed(_refusal(refused))
    if refused or data.code != 354:
        return _reset(dialogue, refused or data)
    return None


def _refused(sender: Reply, recipient: Reply) -> Reply | None:
    """The first of the two replies that is not positive."""
    if not _is_positive(sender):
        _check_accepts_mail(sender)
        return sender._replace(to_mail=True)
    return None if _is_positive(recipient) else recipient


def _command(dialogue: Dialogue, command: str) -> Reply:
    """Sends one command and reads its reply."""
    (reply,) = _commands(dialogue, [command])
    return reply


def _commands(dialogue: Dialogue, commands: Sequence[str]) -> list[Reply]:
    """Sends several commands at once and reads a reply to each."""
    try:
        dialogue.write(_wire(commands))
    except PartlySent as error:
        raise SessionClosed(_connection_lost(error), may_resend=True) from error
    return _replies(dialogue, len(commands))


def _wire(commands: Sequence[str]) -> bytes:
    return "\r\n".join([*commands, ""]).encode()


CLOSED = Reply(421, "the server closed the connection")


def _replies(dialogue: Dialogue, count: int) -> list[Reply]:
    """A reply to each command. The first negative reply decides, even if the server closes the connection behind it."""
    replies: list[Reply] = []
    try:
        for _ in range(count):
            replies += [dialogue.read_reply()]
    except (OSError, ValueError) as error:
        if all(_is_positive(reply) for reply in replies):
            raise SessionClosed(_connection_lost(error), may_resend=True) from error
        replies += [CLOSED] * (count - len(replies))
    for reply in replies:
        if reply.code == 421:
            raise SessionClosed(reply.result(), may_resend=True, accepts_mail=False)
        if reply.code >= 400:
            break
    return replies


def _check_accepts_mail(reply: Reply) -> None:
    """A server that defers MAIL, before it knows the recipient, accepts no message of that sender now."""
    result = reply.result()
    if result.outcome is Outcome.DEFERRED:
        raise SessionClosed(result, accepts_mail=False, refuses_sender=reply.concerns_sender)


def _reset(dialogue: Dialogue, reply: Reply) -> DeliveryResult:
    """The result of a negative reply, with the session reset for the next message."""
    result = _refusal(reply)
    try:
        cleared = _is_positive(_command(dialogue, "RSET"))
    except SessionClosed:
        cleared = False
    if not cleared:
        raise SessionClosed(result)
    return result


def _refusal(reply: Reply) -> DeliveryResult:
    """A positive reply to DATA other than 354 is a deferral: it guarantees nothing."""
    return reply.result() if reply.code >= 400 else reply.deferral()


def _is_positive(reply: Reply) -> bool:
    return 200 <= reply.code <= 299


def _connection_lost(error: Exception) -> DeliveryResult:
    return DeliveryResult.deferred("the connection to the relay was lost", "4.4.2", note=str(error))


def _dot_stuffed(content: bytes) -> bytes:
    """The content with dot-stuffing (RFC 5321, 4.5.2) and the end of DATA, which nothing in the content can imitate."""
    if not content.count(b"\r\n") == content.count(b"\n") == content.count(b"\r"):
        content = _LINE_END.sub(b"\r\n", content)
    stuffed = content.replace(b"\r\n.", b"\r\n..")
    if stuffed.startswith(b"."):
        stuffed = b"." + stuffed
    return stuffed + (b".\r\n" if stuffed.endswith(b"\r\n") else b"\r\n.\r\n")


@dataclass(frozen=True, slots=True)
class SmtpTransport:
    """The transport of mails over one relay."""

    settings: SmtpSettings
    context: ssl.SSLContext | None = field(repr=False)

    def connect(self) -> SmtpConnection:
        """A connection for one thread."""
        return SmtpConnection(self)


class SmtpConnection:
    """A connection to a relay, with at most one session at a time."""

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
