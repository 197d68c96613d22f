"""Mail transactions (RFC 5321, 3.3) over an open session: MAIL, RCPT, DATA, and the results of their replies.

With PIPELINING (RFC 2920) a message costs one round trip: the commands of the next one are sent with the end of the one
before, and all replies are read together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.transports.base import DeliveryResult, OutboundEmail, Outcome, wait_only
from app.transports.email.replies import Reply
from app.transports.email.smtp_dialogue import Dialogue, Unsent
from app.transports.email.smtp_envelope import Envelope, envelope_of
from app.transports.email.smtp_session import SessionClosed

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
        except Unsent as error:
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
    if refused and data.code == 354:
        raise SessionClosed(_refusal(refused))  # only closing keeps the server from accepting an empty message
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
    except Unsent as error:
        raise SessionClosed(_connection_lost(error), may_resend=True) from error
    return _replies(dialogue, len(commands))


def _wire(commands: Sequence[str]) -> bytes:
    return "\r\n".join([*commands, ""]).encode()


def _replies(dialogue: Dialogue, count: int) -> list[Reply]:
    try:
        replies = [dialogue.read_reply() for _ in range(count)]
    except (OSError, ValueError) as error:
        raise SessionClosed(_connection_lost(error), may_resend=True) from error
    for reply in replies:
        if reply.code == 421:
            raise SessionClosed(reply.result(), may_resend=True, accepts_mail=False)
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
