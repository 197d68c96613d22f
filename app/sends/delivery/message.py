"""The message of a recipient: composed within the size limits, and signed."""

from __future__ import annotations

import logging
from functools import lru_cache, partial

from app.infrastructure import logs
from app.infrastructure.tracing import span
from app.sends.delivery.recipient import ClaimedRecipient, RenderedContent
from app.sends.delivery.sizes import SizeLimits, Unsendable
from app.sends.outcomes.attempt_result import internal_fault
from app.settings import Settings
from app.tracking.feedback_channels import FeedbackChannels, SenderChannels, receipt_url
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms

logger = logging.getLogger(__name__)


class MessageBuilder:
    """Builds the messages of one process; threads share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.limits = SizeLimits.of(settings)
        self._channels_of_sender = lru_cache(maxsize=1024)(partial(SenderChannels, settings))

    def build(self, recipient: ClaimedRecipient) -> None:
        """Completes the recipient with its message, or with why there is none. Raises nothing: an internal fault
        defers."""
        request_id = recipient.compiled.send.request_id
        before = logs.request_id.set(request_id)
        try:
            with span("compose", request_id=request_id, tms__uuid=recipient.uuid):
                self.compose(recipient, self.channels(recipient))
        except Unsendable as refusal:
            recipient.give_up_message(refusal.reason, str(refusal))
        except BaseException as fault:
            recipient.give_up_message(fault=deferred_by_fault(recipient, fault))
        finally:
            logs.request_id.reset(before)  # it may be built while another one is being sent

    def channels(self, recipient: ClaimedRecipient) -> FeedbackChannels:
        """The links and addresses by which the recipient answers, with the hosts of its sender's domain."""
        compiled = recipient.compiled
        return self._channels_of_sender(compiled.send.from_address, compiled.domain.hosts).for_recipient(recipient.id)

    def compose(self, recipient: ClaimedRecipient, channels: FeedbackChannels) -> None:
        """Completes the recipient with its message, which has these links and addresses. Raises `Unsendable` at the
        first limit that would be exceeded, and for an empty text message."""
        compiled = recipient.compiled
        if recipient.quota:
            recipient.quota.check()
        compiled.check_attachments(recipient, self.limits.mail)
        rendered = compiled.render(recipient, channels, self.limits.body)
        message = self._message(recipient, channels, rendered)
        size, copy = rendered.size, None
        if compiled.send.type == "email" and compiled.send.bcc_address:
            copy_content = compiled.render(recipient.masked(), channels.for_copy(), self.limits.body)
            copy = self._signed(recipient, compiled.build_copy(recipient, channels, copy_content, self.limits.mail))
            size += copy_content.size
        if recipient.quota:
            recipient.quota.consume(size)
        recipient.message, recipient.copy, recipient.has_message, recipient.fault = message, copy, True, None
        recipient.rendered, recipient.rendered_bytes, recipient.is_built = rendered, size, True

    def _message(
        self, recipient: ClaimedRecipient, channels: FeedbackChannels, rendered: RenderedContent
    ) -> OutboundEmail | OutboundSms:
        compiled = recipient.compiled
        if compiled.send.type == "email":
            return self._signed(recipient, compiled.build_email(recipient, channels, rendered, self.limits.mail))
        return compiled.build_sms(recipient, channels, rendered, receipt_url(self._settings, recipient.id))

    def _signed(self, recipient: ClaimedRecipient, email: OutboundEmail) -> OutboundEmail:
        compiled = recipient.compiled
        return compiled.domain.signed(email, self._settings, compiled.send.begin_time)


def deferred_by_fault(recipient: ClaimedRecipient, fault: BaseException) -> DeliveryResult:
    """The result of an internal fault, or of an exception of an installed transport."""
    logger.error("cannot send", exc_info=fault, extra={"uuid": recipient.uuid})
    return internal_fault(fault)
