"""What would become of each recipient of a send: skipped, failed, or sent with which message. Pure; no database."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from app.content.placeholder_lines import placeholder_of
from app.recipients.reasons import FailReason
from app.sends.delivery.message import ComposedMessage, MessageBuilder, PreparedRecipient, masked
from app.sends.delivery.recipient import Unfilled
from app.sends.delivery.sizes import RenderQuota, Unsendable
from app.sends.dry_run.prepare import PlannedRecipient
from app.settings import Settings
from app.tracking.feedback_channels import FeedbackChannels
from app.transports.base import OutboundEmail, OutboundSms
from app.transports.sms.segments import count_segments, is_gsm

MAX_BUILT_BYTES = 32 * 1024 * 1024
"""Bytes of messages, and of the templates that they are made of, after which a dry run builds no more: the answer is
made in one piece, while a client waits."""
MAX_UNFILLED = 100
"""Wildcards without a value of one recipient that are named: a body of a megabyte has room for 150,000."""

SHOWN_HEADERS = (
    *("from", "to", "reply-to", "subject", "list-unsubscribe", "list-unsubscribe-post"),
    *("mime-version", "auto-submitted"),
)
"""Headers that do not differ from message to message, as dates, ids and signatures do."""


class ForecastOutcome(enum.StrEnum):
    """What would become of a recipient."""

    SEND = "send"
    """A message would be handed to the transport."""
    SKIP = "skip"
    """No message would be built, for the reason given."""
    FAIL = "fail"
    """The message would turn out to be unsendable, for the reason given."""
    NOT_RENDERED = "not_rendered"
    """Not skipped; what it would be sent was not rendered, because the messages before are large."""


class UnfilledWildcard(NamedTuple):
    """A wildcard, or `attachment:` with a name, that has no value where a message shows it."""

    field: str
    name: str
    fallback: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would become of one recipient; `composed` is None unless it would be sent to. `shown` is the same with
    a mask in place of each secret value; None if it would not be sent like that."""

    planned: PlannedRecipient
    outcome: ForecastOutcome
    reason: FailReason | None = None
    detail: str | None = None
    composed: ComposedMessage | None = None
    shown: ComposedMessage | None = None
    unfilled: tuple[UnfilledWildcard, ...] = ()

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of the mail as it is sent, each on one line."""
        message = self.shown and self.shown.message
        return _headers(message.content) if isinstance(message, OutboundEmail) else []

    @property
    def sms(self) -> dict[str, Any]:
        """Text, encoding and number of segments of the text message; empty for a mail."""
        message = self.composed and self.composed.message
        if not isinstance(message, OutboundSms):
            return {}
        encoding = "gsm" if is_gsm(message.text) else "ucs2"
        shown = self.shown and self.shown.message
        text = shown.text if isinstance(shown, OutboundSms) else None
        return {"body_text": text, "encoding": encoding, "segments": count_segments(message.text)}

    @property
    def size(self) -> int | None:
        """Bytes of the mail with attachments, tracking and signatures; None for a text message."""
        message = self.composed and self.composed.message
        return len(message.content) if isinstance(message, OutboundEmail) else None


def forecasts(settings: Settings, recipients: Sequence[PlannedRecipient]) -> Iterator[Forecast]:
    """The forecast of each recipient, in their order."""
    builder, built = MessageBuilder(settings), 0
    quota = RenderQuota(builder.limits.send, builder.limits.send)
    for planned in recipients:
        if planned.prepared.skip is not None:
            yield Forecast(planned, ForecastOutcome.SKIP, planned.prepared.skip)
        elif built > MAX_BUILT_BYTES:
            yield Forecast(planned, ForecastOutcome.NOT_RENDERED)
        else:
            planned.prepared.quota = quota
            forecast = _forecast(builder, planned)
            if forecast.composed is not None:
                built += forecast.composed.size + (forecast.size or 0) + planned.prepared.compiled.sizes.source
            yield forecast


def _forecast(builder: MessageBuilder, planned: PlannedRecipient) -> Forecast:
    recipient = planned.prepared
    channels = builder.channels(recipient).of_dry_run()
    try:
        composed = builder.compose(recipient, channels)
    except Unsendable as refusal:
        return Forecast(planned, ForecastOutcome.FAIL, refusal.reason, str(refusal))
    unfilled = recipient.compiled.unfilled(recipient, channels, builder.limits.body)
    return Forecast(
        planned,
        ForecastOutcome.SEND,
        composed=composed,
        shown=_shown(builder, recipient, channels, composed),
        unfilled=tuple(islice(_named(unfilled), MAX_UNFILLED)),
    )


def _shown(
    builder: MessageBuilder, recipient: PreparedRecipient, channels: FeedbackChannels, composed: ComposedMessage
) -> ComposedMessage | None:
    shown = masked(recipient)
    if shown is recipient:
        return composed
    shown.quota = None
    with suppress(Unsendable):
        return builder.compose(shown, channels)
    return None


def _named(unfilled: Unfilled) -> Iterator[UnfilledWildcard]:
    for field, placeholders in unfilled.items():
        for one in placeholders:
            yield UnfilledWildcard(field, *placeholder_of(one))


def _headers(content: bytes) -> list[dict[str, str]]:
    """Linear in the header, however it is folded."""
    head, _, _ = content.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").replace("\r\n ", " ").replace("\r\n\t", " ").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return [{"name": name, "value": value} for name, _, value in pairs if name.lower() in SHOWN_HEADERS]
