"""The message of a recipient: composed within the size limits, and signed."""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import NamedTuple

from app.infrastructure import logs
from app.infrastructure.tracing import span
from app.sends.delivery.recipient import PreparedRecipient, RenderedContent, masked
from app.sends.delivery.sizes import SizeLimits, Unsendable
from app.sends.outcomes.attempt_result import internal_fault
from app.settings import Settings
from app.tracking.feedback_channels import FeedbackChannels, SenderChannels, receipt_url
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms

logger = logging.getLogger(__name__)


class BuiltMessage(NamedTuple):
    """The message of a recipient, and how many bytes were rendered for it. If none could be built, `message` is the
    reason. `copy` is the blind copy, which is sent once the message is accepted."""

    recipient: PreparedRecipient
    message: OutboundEmail | OutboundSms | DeliveryResult | Unsendable
    rendered_bytes: int | None = None
    copy: OutboundEmail | None = None


class ComposedMessage(NamedTuple):
    """The message of a recipient with what was rendered for it: the copy counts in `size`, too."""

    message: OutboundEmail | OutboundSms
    rendered: RenderedContent
    size: int
    copy: OutboundEmail | None = None


class MessageBuilder:
    """Builds the messages of one process; threads share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.limits = SizeLimits.of(settings)
        self._channels_of_sender = lru_cache(maxsize=1024)(partial(SenderChannels, settings))

    def build(self, recipient: PreparedRecipient) -> BuiltMessage:
        """The message of a recipient. Raises nothing: an internal fault defers."""
        request_id = recipient.compiled.send.request_id
        before = logs.request_id.set(request_id)
        try:
            with span("compose", request_id=request_id, tms__uuid=recipient.claimed.uuid):
                return self._build(recipient)
        except Unsendable as refusal:
            return BuiltMessage(recipient, refusal)
        except BaseException as fault:
            return BuiltMessage(recipient, deferred_by_fault(recipient, fault))
        finally:
            logs.request_id.reset(before)  # it may be built while another one is being sent

    def _build(self, recipient: PreparedRecipient) -> BuiltMessage:
        composed = self.compose(recipient, self.channels(recipient))
        return BuiltMessage(recipient, composed.message, composed.size, composed.copy)

    def channels(self, recipient: PreparedRecipient) -> FeedbackChannels:
        """The links and addresses by which the recipient answers, with the hosts of its sender's domain."""
        compiled = recipient.compiled
        return self._channels_of_sender(compiled.send.from_address, compiled.domain.hosts).of_recipient(recipient.id)

    def compose(self, recipient: PreparedRecipient, channels: FeedbackChannels) -> ComposedMessage:
        """The message of a recipient with these links and addresses. Raises `Unsendable` at the first limit that would
        be exceeded, and for an empty text message."""
        compiled = recipient.compiled
        if recipient.quota:
            recipient.quota.check()
        compiled.check_attachments(recipient, self.limits.mail)
        rendered = compiled.render(recipient, channels, self.limits.body)
        message = self._message(recipient, channels, rendered)
        size, copy = rendered.size, None
        if compiled.send.type == "email" and compiled.send.bcc_address:
            of_copy = compiled.render(masked(recipient), channels.of_copy(), self.limits.body)
            copy = self._signed(recipient, compiled.build_copy(recipient, channels, of_copy, self.limits.mail))
            size += of_copy.size
        if recipient.quota:
            recipient.quota.consume(size)
        return ComposedMessage(message, rendered, size, copy)

    def _message(
        self, recipient: PreparedRecipient, channels: FeedbackChannels, rendered: RenderedContent
    ) -> OutboundEmail | OutboundSms:
        compiled = recipient.compiled
        if compiled.send.type == "email":
            return self._signed(recipient, compiled.build_email(recipient, channels, rendered, self.limits.mail))
        return compiled.build_sms(recipient, channels, rendered, receipt_url(self._settings, recipient.id))

    def _signed(self, recipient: PreparedRecipient, email: OutboundEmail) -> OutboundEmail:
        compiled = recipient.compiled
        return compiled.domain.signed(email, self._settings, compiled.send.creation_time)


def deferred_by_fault(recipient: PreparedRecipient, fault: BaseException) -> DeliveryResult:
    """The result of an internal fault, or of an exception of an installed transport."""
    logger.error("cannot send", exc_info=fault, extra={"uuid": recipient.claimed.uuid})
    return internal_fault(fault)
