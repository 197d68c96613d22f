"""One mail transaction (RFC 5321, 3.3) over an open session: MAIL, RCPT, DATA, and what each answer means.

The blind copy is a second RCPT of the same transaction. It never decides about the message: refused, it is only
mentioned in the reply.
"""

from __future__ import annotations

import re
import smtplib
from collections.abc import Sequence
from dataclasses import dataclass

from app.transports.base import DeliveryResult, OutboundEmail, Outcome
from app.transports.email.addresses import ascii_domain, is_safe
from app.transports.email.replies import Reply
from app.transports.email.smtp_session import ChannelClosed

# Giving up on the answer to a whole message may double it, so that answer is awaited longer than the others
# (RFC 5321, 4.5.3.2.6).
PATIENCE = 4

UNANSWERED = "the connection was lost after the message was sent and before the server answered; it may have arrived"

_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class _Envelope:
    sender: str
    to: str
    copy: str | None
    options: str
    note: str = ""

    def commands(self) -> list[str]:
        """Those that name sender and recipient."""
        return [f"MAIL FROM:<{self.sender}>{self.options}", f"RCPT TO:<{self.to}>"]


def transact(client: smtplib.SMTP, email: OutboundEmail) -> DeliveryResult:
    """Send one message. Raises `ChannelClosed` when the session is of no more use, with the answer inside."""
    envelope = _envelope(client, email)
    if isinstance(envelope, DeliveryResult):
        return envelope
    opened = _open_pipelined(client, envelope) if client.has_extn("pipelining") else _open(client, envelope)
    if isinstance(opened, DeliveryResult):
        return opened
    return _noted(_transmit(client, email.content), opened)


def _open(client: smtplib.SMTP, envelope: _Envelope) -> str | DeliveryResult:
    """Everything before the message itself, step by step. Gives the note about the copy when the server waits for the
    message."""
    for command in envelope.commands():
        reply = _ask(client, command)
        if command.startswith("MAIL"):
            _check_willing(reply)
        if not _is_yes(reply):
            return _abandon(client, reply)
    note = envelope.note or _add_copy(client, envelope.copy)
    reply = _ask(client, "DATA")
    if reply.code != 354:
        return _abandon(client, reply)
    return note


def _open_pipelined(client: smtplib.SMTP, envelope: _Envelope) -> str | DeliveryResult:
    """The same in one round trip (RFC 2920). With a copy DATA is held back: a server that refuses the recipient and
    takes the copy would wait for a message that must not be sent."""
    commands = envelope.commands()
    if envelope.copy is None:
        commands.append("DATA")
    sender, recipient, *data = _ask_all(client, commands)
    _check_willing(sender)
    refused = sender if not _is_yes(sender) else recipient if not _is_yes(recipient) else None
    if refused and data and data[0].code == 354:
        raise ChannelClosed(_refusal(refused))  # only hanging up keeps the server from taking an empty message
    if refused:
        return _abandon(client, refused)
    note = envelope.note or _add_copy(client, envelope.copy)
    reply = data[0] if data else _ask(client, "DATA")
    return note if reply.code == 354 else _abandon(client, reply)


def _envelope(client: smtplib.SMTP, email: OutboundEmail) -> _Envelope | DeliveryResult:
    """The addresses as this server can take them, or why it cannot."""
    sender, to = ascii_domain(email.envelope_from), ascii_domain(email.to)
    copy = ascii_domain(email.bcc) if email.bcc else None
    if not is_safe(to) or not to:
        return DeliveryResult.refused("the address has characters that no address has", "5.1.3")
    if not is_safe(sender):
        return DeliveryResult.deferred("the sender's address has characters that no address has", "4.1.7")
    options = f" SIZE={len(email.content)}" if client.has_extn("size") else ""
    if client.has_extn("smtputf8"):
        return _Envelope(sender, to, copy, options + _utf8_options(email.content, sender, to, copy or ""))
    return _ascii_envelope(email.content, _Envelope(sender, to, copy, options))


def _utf8_options(content: bytes, *addresses: str) -> str:
    """SMTPUTF8 only for a message that needs it: any later server without it would have to refuse the message."""
    if not content.isascii():
        return " SMTPUTF8 BODY=8BITMIME"
    return "" if all(address.isascii() for address in addresses) else " SMTPUTF8"


def _ascii_envelope(content: bytes, envelope: _Envelope) -> _Envelope | DeliveryResult:
    """For a server without SMTPUTF8. Only the recipient's own address may count against the recipient."""
    if not envelope.to.isascii():
        return DeliveryResult.refused("the relay has no SMTPUTF8, which this address needs", "5.6.7")
    if not (envelope.sender.isascii() and content.isascii()):
        return DeliveryResult.deferred("the relay has no SMTPUTF8, which the sender's address needs", "4.6.7")
    if envelope.copy and not envelope.copy.isascii():
        note = f"no copy to {envelope.copy}: the relay has no SMTPUTF8"
        return _Envelope(envelope.sender, envelope.to, None, envelope.options, note)
    return envelope


def _add_copy(client: smtplib.SMTP, copy: str | None) -> str:
    """Ask for the blind copy; the answer is a note for the reply, empty when all is well."""
    if not copy:
        return ""
    if not is_safe(copy):
        return "no copy: its address has characters that no address has"
    reply = _ask(client, f"RCPT TO:<{copy}>")
    return "" if _is_yes(reply) else f"no copy to {copy}: {reply}"


def _transmit(client: smtplib.SMTP, content: bytes) -> DeliveryResult:
    """The message itself and the answer to it, which alone tells whether the server has taken it over."""
    try:
        client.send(_stuffed(content))
    except smtplib.SMTPServerDisconnected as error:
        raise ChannelClosed(_lost(error), repeatable=True) from error
    _wait_at_most(client, PATIENCE)
    try:
        reply = _read(client)
    except (OSError, ValueError) as error:
        raise ChannelClosed(DeliveryResult.uncertain(UNANSWERED, "4.4.2")) from error
    if reply.code == 421:
        raise ChannelClosed(reply.result())
    _wait_at_most(client, 1)
    return reply.result()


def _ask(client: smtplib.SMTP, command: str) -> Reply:
    """Send one command before the message itself and read its reply."""
    (reply,) = _ask_all(client, [command])
    return reply


def _ask_all(client: smtplib.SMTP, commands: Sequence[str]) -> list[Reply]:
    """Send several commands at once and read a reply to each."""
    try:
        client.send("".join(f"{command}\r\n" for command in commands).encode())
        replies = [_read(client) for _ in commands]
    except (OSError, ValueError) as error:
        raise ChannelClosed(_lost(error), repeatable=True) from error
    for reply in replies:
        if reply.code == 421:
            raise ChannelClosed(reply.result(), repeatable=True, willing=False)
    return replies


def _check_willing(reply: Reply) -> None:
    """A server that puts the sender off, before it knows for whom the message is, takes none now."""
    result = reply.result()
    if result.outcome is Outcome.DEFERRED:
        raise ChannelClosed(result, willing=False)


def _read(client: smtplib.SMTP) -> Reply:
    """The next reply; raises `OSError` when the connection is lost and `ValueError` when this is no SMTP."""
    reply = Reply.from_wire(*client.getreply())
    if not 200 <= reply.code <= 599:
        raise ValueError(f"unintelligible reply: {reply}")
    return reply


def _abandon(client: smtplib.SMTP, reply: Reply) -> DeliveryResult:
    """The answer that `reply` means, with the session cleared for the next message."""
    result = _refusal(reply)
    try:
        cleared = _is_yes(_ask(client, "RSET"))
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
    return DeliveryResult.deferred(f"the connection was lost: {error}", "4.4.2")


def _noted(result: DeliveryResult, note: str) -> DeliveryResult:
    return DeliveryResult(result.outcome, f"{result.reply}; {note}", result.status) if note else result


def _wait_at_most(client: smtplib.SMTP, factor: int) -> None:
    if client.sock:
        client.sock.settimeout(client.timeout * factor)


def _stuffed(content: bytes) -> bytes:
    """The message as DATA carries it (RFC 5321, 4.5.2), with an end that nothing in the message can imitate."""
    if not content.count(b"\r\n") == content.count(b"\n") == content.count(b"\r"):
        content = _LINE_END.sub(b"\r\n", content)
    stuffed = content.replace(b"\r\n.", b"\r\n..")
    if stuffed.startswith(b"."):
        stuffed = b"." + stuffed
    return stuffed + (b".\r\n" if stuffed.endswith(b"\r\n") else b"\r\n.\r\n")
