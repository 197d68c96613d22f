"""Mail transactions (RFC 5321, 3.3) over an open session: MAIL, RCPT, DATA, and what each answer means.

With PIPELINING (RFC 2920) a message costs one round trip: the commands of the next one go out behind the end of the one
before, and all the answers are read together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.transports.base import DeliveryResult, OutboundEmail, Outcome
from app.transports.email.replies import Reply
from app.transports.email.smtp_dialogue import Dialogue, Unsent
from app.transports.email.smtp_envelope import Envelope, envelope_of
from app.transports.email.smtp_session import ChannelClosed

# Giving up on the answer to a whole message may double it, so that answer is awaited longer than the others
# (RFC 5321, 4.5.3.2.6).
PATIENCE = 4

UNANSWERED = "the connection was lost after the message was sent and before the server answered; it may have arrived"

_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class _Announced:
    """A message whose commands went out ahead, and what the server said to them: nothing when it waits for the
    message, the result when it refused it, or why the session is of no more use."""

    email: OutboundEmail
    answer: DeliveryResult | ChannelClosed | None


class Transactions:
    """Those of one session, one after the other."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._announced: _Announced | None = None

    @property
    def is_between(self) -> bool:
        """Whether the server waits for no message, so that any command may be said."""
        return self._announced is None

    def send(self, email: OutboundEmail, following: OutboundEmail | None = None) -> DeliveryResult:
        """Send one message, and announce the one that comes next where that is possible.

        Raises `ChannelClosed` when the session is of no more use, with the answer for this message inside.
        """
        return self._open(email) or self._transmit(email, following)

    def _open(self, email: OutboundEmail) -> DeliveryResult | None:
        """Everything before the message itself, unless it went ahead; None when the server waits for the message."""
        announced, self._announced = self._announced, None
        if announced is None:
            envelope = envelope_of(self._dialogue, email)
            return envelope if isinstance(envelope, DeliveryResult) else _open(self._dialogue, envelope)
        if announced.email is not email:
            raise ChannelClosed(DeliveryResult.deferred("another message was announced"), repeatable=True)
        if isinstance(announced.answer, ChannelClosed):
            raise announced.answer
        return announced.answer

    def _transmit(self, email: OutboundEmail, following: OutboundEmail | None) -> DeliveryResult:
        """The message itself and the answer to it, which alone tells whether the server has taken it over."""
        content, ahead = _stuffed(email.content), self._commands_ahead(following)
        try:
            self._dialogue.say(content + ahead)
        except Unsent as error:
            if error.count >= len(content):
                raise ChannelClosed(DeliveryResult.uncertain(UNANSWERED, "4.4.2")) from error
            raise ChannelClosed(_lost(error), repeatable=True) from error
        try:
            reply = self._dialogue.hear(PATIENCE)
        except (OSError, ValueError) as error:
            raise ChannelClosed(DeliveryResult.uncertain(UNANSWERED, "4.4.2")) from error
        if reply.code == 421:
            raise ChannelClosed(reply.result())
        if following and ahead:
            self._announced = _Announced(following, self._answer_to_announced())
        return reply.result()

    def _commands_ahead(self, following: OutboundEmail | None) -> bytes:
        """Those of the next message; none where the server would have to be asked step by step."""
        if following is None or not self._dialogue.offers("pipelining"):
            return b""
        envelope = envelope_of(self._dialogue, following)
        return b"" if isinstance(envelope, DeliveryResult) else _wire([*envelope.commands(), "DATA"])

    def _answer_to_announced(self) -> DeliveryResult | ChannelClosed | None:
        try:
            return _invitation(self._dialogue, _replies(self._dialogue, 3))
        except ChannelClosed as closed:
            return closed


def _open(dialogue: Dialogue, envelope: Envelope) -> DeliveryResult | None:
    """Everything before the message itself; None when the server waits for the message."""
    if dialogue.offers("pipelining"):
        return _invitation(dialogue, _ask_all(dialogue, [*envelope.commands(), "DATA"]))
    return _open_stepwise(dialogue, envelope)


def _open_stepwise(dialogue: Dialogue, envelope: Envelope) -> DeliveryResult | None:
    sender, recipient = envelope.commands()
    reply = _ask(dialogue, sender)
    if not _is_yes(reply):
        _check_willing(reply)
        return _abandon(dialogue, reply)
    reply = _ask(dialogue, recipient)
    if not _is_yes(reply):
        return _abandon(dialogue, reply)
    reply = _ask(dialogue, "DATA")
    return None if reply.code == 354 else _abandon(dialogue, reply)


def _invitation(dialogue: Dialogue, replies: Sequence[Reply]) -> DeliveryResult | None:
    """What MAIL, RCPT and DATA, said at once, were answered: None when the server waits for the message."""
    sender, recipient, data = replies
    refused = _refused(sender, recipient)
    if refused and data.code == 354:
        raise ChannelClosed(_refusal(refused))  # only hanging up keeps the server from taking an empty message
    if refused or data.code != 354:
        return _abandon(dialogue, refused or data)
    return None


def _refused(sender: Reply, recipient: Reply) -> Reply | None:
    """The first of the two that is no yes."""
    if not _is_yes(sender):
        _check_willing(sender)
        return sender
    return None if _is_yes(recipient) else recipient


def _ask(dialogue: Dialogue, command: str) -> Reply:
    """Send one command before the message itself and read its reply."""
    (reply,) = _ask_all(dialogue, [command])
    return reply


def _ask_all(dialogue: Dialogue, commands: Sequence[str]) -> list[Reply]:
    """Send several commands at once and read a reply to each."""
    try:
        dialogue.say(_wire(commands))
    except Unsent as error:
        raise ChannelClosed(_lost(error), repeatable=True) from error
    return _replies(dialogue, len(commands))


def _wire(commands: Sequence[str]) -> bytes:
    return "".join(f"{command}\r\n" for command in commands).encode()


def _replies(dialogue: Dialogue, count: int) -> list[Reply]:
    try:
        replies = [dialogue.hear() for _ in range(count)]
    except (OSError, ValueError) as error:
        raise ChannelClosed(_lost(error), repeatable=True) from error
    for reply in replies:
        if reply.code == 421:
            raise ChannelClosed(reply.result(), repeatable=True, willing=False)
    return replies


def _check_willing(reply: Reply) -> None:
    """A server that puts the sender off, before it knows for whom the message is, takes no message of theirs now."""
    result = reply.result()
    if result.outcome is Outcome.DEFERRED:
        raise ChannelClosed(result, willing=False, refuses_sender=reply.concerns_sender)


def _abandon(dialogue: Dialogue, reply: Reply) -> DeliveryResult:
    """The answer that `reply` means, with the session cleared for the next message."""
    result = _refusal(reply)
    try:
        cleared = _is_yes(_ask(dialogue, "RSET"))
    except ChannelClosed:
        cleared = False
    if not cleared:
        raise ChannelClosed(result)
    return result


def _refusal(reply: Reply) -> DeliveryResult:
    """A yes to DATA that does not invite the message is no promise of anything."""
    return reply.result() if reply.code >= 400 else reply.deferral()


def _is_yes(reply: Reply) -> bool:
    return 200 <= reply.code <= 299


def _lost(error: Exception) -> DeliveryResult:
    return DeliveryResult.deferred("the connection to the relay was lost", "4.4.2", note=str(error))


def _stuffed(content: bytes) -> bytes:
    """The message as DATA carries it (RFC 5321, 4.5.2), with an end that nothing in the message can imitate."""
    if not content.count(b"\r\n") == content.count(b"\n") == content.count(b"\r"):
        content = _LINE_END.sub(b"\r\n", content)
    stuffed = content.replace(b"\r\n.", b"\r\n..")
    if stuffed.startswith(b"."):
        stuffed = b"." + stuffed
    return stuffed + (b".\r\n" if stuffed.endswith(b"\r\n") else b"\r\n.\r\n")
