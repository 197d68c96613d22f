"""Making the message of a parcel, within the bounds: what a thread does before it sends."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from app.infrastructure import logs
from app.sends.delivery.bounds import SizeLimits
from app.sends.delivery.compose import RenderedContent
from app.sends.delivery.load import PreparedRecipient
from app.sends.delivery.sign import signed
from app.sends.delivery.unsendable import Unsendable
from app.sends.outcomes.attempt_result import internal_fault
from app.settings import Settings
from app.tracking.feedback_channels import FeedbackChannels, feedback_channels, receipt_url
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BuiltMessage:
    """A parcel with its message, and the bytes that it was rendered to; `message` is why there is none where it could
    not be composed. `copy` is the blind copy, which leaves once the message is accepted."""

    parcel: PreparedRecipient
    message: OutboundEmail | OutboundSms | DeliveryResult | Unsendable
    rendered: int | None = None
    copy: OutboundEmail | None = None


class MessageBuilder:
    """Makes the messages of one process; threads share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.bounds = SizeLimits.of(settings)

    def make(self, parcel: PreparedRecipient) -> BuiltMessage:
        """The message of a parcel. Raises nothing: a fault of our own defers."""
        logs.request_id.set(parcel.letter.send.request_id)
        try:
            return self._composed(parcel)
        except Unsendable as refusal:
            return BuiltMessage(parcel, refusal)
        except BaseException as fault:
            return BuiltMessage(parcel, deferred(parcel, fault))

    def _composed(self, parcel: PreparedRecipient) -> BuiltMessage:
        """Raises `Unsendable`: at the first bound that would be passed, or for a message that says nothing."""
        letter, addressee = parcel.letter, parcel.addressee
        if parcel.allowance:
            parcel.allowance.check()
        letter.check_files(addressee, self.bounds.mail)
        ways = feedback_channels(self._settings, addressee.id, letter.send.from_address)
        filled = letter.filled_in(addressee, ways, self.bounds.body)
        message = self._message(parcel, ways, filled)
        size, copy = filled.size, None
        if letter.send.type == "email" and letter.send.bcc_address:
            filled = letter.filled_in(addressee, ways.of_copy(), self.bounds.body)
            copy = self._signed(parcel, letter.copy_of(addressee, ways, filled, self.bounds.mail))
            size += filled.size
        if parcel.allowance:
            parcel.allowance.take(size)
        return BuiltMessage(parcel, message, size, copy)

    def _message(
        self, parcel: PreparedRecipient, ways: FeedbackChannels, filled: RenderedContent
    ) -> OutboundEmail | OutboundSms:
        letter, addressee = parcel.letter, parcel.addressee
        if letter.send.type == "email":
            return self._signed(parcel, letter.email_to(addressee, ways, filled, self.bounds.mail))
        text = letter.sms_to(addressee, ways, filled)
        return replace(text, receipt_url=receipt_url(self._settings, addressee.id))

    def _signed(self, parcel: PreparedRecipient, email: OutboundEmail) -> OutboundEmail:
        letter = parcel.letter
        return signed(email, letter.keys, self._settings.secret_key, letter.send.creation_time)


def deferred(parcel: PreparedRecipient, fault: BaseException) -> DeliveryResult:
    """What a fault of the service itself, or of an installed transport, comes to."""
    logger.error("cannot send", exc_info=fault, extra={"uuid": parcel.recipient.uuid})
    return internal_fault(fault)
