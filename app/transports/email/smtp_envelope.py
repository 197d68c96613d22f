"""The envelope of a message for one server (RFC 5321, 3.3): addresses, and the parameters of MAIL."""

from __future__ import annotations

from typing import NamedTuple

from app.transports.base import DeliveryResult, OutboundEmail
from app.transports.email.addresses import ascii_domain, is_safe
from app.transports.email.smtp_dialogue import Dialogue


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
