"""Events of Amazon SES, which come through Amazon SNS (docs/inbound.md#amazon-ses).

SES replaces the Message-ID of a mail, but returns its envelope sender, which is our signed return path.
"""

from __future__ import annotations

import functools
import logging
import ssl
from collections.abc import Collection

import orjson

from app.events.guarded_connection import fetch, trusted_roots
from app.inbound.email.complaint import KINDS as FEEDBACK_KINDS
from app.inbound.email.delivery_status import failure_status, status_in
from app.inbound.email.fields import one_line
from app.inbound.email.report import Report, ReportKind
from app.inbound.hooks.base import HookRequest, RelayEvent
from app.inbound.hooks.sns import Fetch, Topics
from app.inbound.hooks.values import (
    NOT_ATTEMPTED,
    Fields,
    address_of,
    diagnostic,
    fields_of,
    fingerprint_of,
    hard_status,
    objects_of,
    soft_status,
    text_of,
    uuid_in,
)
from app.settings import Settings

logger = logging.getLogger(__name__)

SUPPRESSED = frozenset({"Suppressed", "OnAccountSuppressionList"})
"""Kinds of bounces and complaints of mails that SES did not try to deliver."""
REJECTED = "4.6.0"
"""SES refused the content; the address may be valid."""
LONGEST_MESSAGE = 256 * 1024
"""Characters; Amazon SNS allows no longer ones."""


class SesHook:
    """The hook of an https subscription of Amazon SNS, with notifications or published events of SES."""

    success = 200

    def __init__(self, topics: Collection[str], fetch: Fetch) -> None:
        self._topics = Topics(topics, fetch)

    @classmethod
    def of(cls, settings: Settings) -> SesHook | None:
        """None without SES_TOPICS."""
        return cls(settings.ses_topics, _fetch) if settings.ses_topics else None

    def read(self, request: HookRequest) -> list[RelayEvent]:
        """The events of a message; one that asks to confirm a subscription is confirmed."""
        (message, *_) = objects_of([request.document()]) or [{}]
        self._topics.check(message)
        topic = text_of(message, "TopicArn")
        match text_of(message, "Type"):
            case "SubscriptionConfirmation":
                self._topics.confirm(message)
                logger.info("subscribed to a topic of Amazon SNS", extra={"topic": topic})
                return []
            case "UnsubscribeConfirmation":
                logger.warning("a topic of Amazon SNS ends its subscription", extra={"topic": topic})
                return []
        return _events(text_of(message, "Message"), text_of(message, "MessageId"))


def _events(text: str, message_id: str) -> list[RelayEvent]:
    try:
        event = orjson.loads(text) if len(text) <= LONGEST_MESSAGE else None
    except orjson.JSONDecodeError:
        event = None  # such as the text by which Amazon tries out a topic
    if not isinstance(event, dict):
        return []
    mail = fields_of(event, "mail")
    uuid = uuid_in(text_of(fields_of(mail, "commonHeaders"), "messageId"))
    fingerprint = fingerprint_of("ses", message_id, event)
    return [RelayEvent(report, fingerprint, uuid, text_of(mail, "source")) for report in reports_of(event)]


def reports_of(event: Fields) -> list[Report]:
    """The event in the terms of this service; none for one that reports nothing, such as an open."""
    kind = text_of(event, "notificationType") or text_of(event, "eventType")
    match kind:
        case "Bounce":
            return _bounces(fields_of(event, "bounce"))
        case "Complaint":
            return _complaints(fields_of(event, "complaint"))
        case "Delivery":
            return _delivery(fields_of(event, "delivery"))
        case "DeliveryDelay":
            return _delays(fields_of(event, "deliveryDelay"))
        case "Reject":
            reason = one_line(text_of(fields_of(event, "reject"), "reason"))
            return [Report(ReportKind.FAILED, REJECTED, f"rejected by SES: {reason}")]
        case "Subscription" if _unsubscribes(fields_of(event, "subscription")):
            return [Report(ReportKind.OPT_OUT, None, "unsubscribed at SES")]
    return []


def _bounces(bounce: Fields) -> list[Report]:
    reports = []
    for recipient in _recipients(bounce, "bouncedRecipients"):
        detail = diagnostic(text_of(recipient, "diagnosticCode"))
        status = _bounce_status(bounce, text_of(recipient, "status"), detail)
        reports.append(Report(ReportKind.FAILED, status, detail, address_of(text_of(recipient, "emailAddress"))))
    return reports


def _bounce_status(bounce: Fields, status: str, detail: str) -> str:
    if text_of(bounce, "bounceSubType") in SUPPRESSED:
        return NOT_ATTEMPTED
    match text_of(bounce, "bounceType"):
        case "Permanent":
            return hard_status(status, detail)
        case "Transient":
            return soft_status(status, detail)
    # Undetermined: without a code it is no reason to block an address.
    known = status_in(status) or status_in(detail)
    return failure_status(known, detail) if known else soft_status(status, detail)


def _complaints(complaint: Fields) -> list[Report]:
    addresses = [address_of(text_of(one, "emailAddress")) for one in _recipients(complaint, "complainedRecipients")]
    if text_of(complaint, "complaintSubType") in SUPPRESSED:
        detail = "not sent by SES: the address has complained before"
        return [Report(ReportKind.FAILED, NOT_ATTEMPTED, detail, about) for about in addresses]
    type_ = text_of(complaint, "complaintFeedbackType") or "abuse"
    kind = FEEDBACK_KINDS.get(type_.lower())
    detail = f"{one_line(type_)} reported at SES"
    return [Report(kind, None, detail, about) for about in addresses] if kind else []


def _delivery(delivery: Fields) -> list[Report]:
    detail = one_line(text_of(delivery, "smtpResponse"))
    addresses = delivery.get("recipients")
    about = frozenset(one.lower() for one in addresses if isinstance(one, str)) if isinstance(addresses, list) else ()
    return [Report(ReportKind.ARRIVED, status_in(detail), detail, frozenset(about))]


def _delays(delay: Fields) -> list[Report]:
    return [
        Report(
            ReportKind.DELAYED,
            status_in(text_of(one, "status")),
            diagnostic(text_of(one, "diagnosticCode")),
            address_of(text_of(one, "emailAddress")),
        )
        for one in _recipients(delay, "delayedRecipients")
    ]


def _recipients(fields: Fields, name: str) -> list[Fields]:
    found = fields.get(name)
    return objects_of(found) if isinstance(found, list) else []


def _unsubscribes(subscription: Fields) -> bool:
    return fields_of(subscription, "newTopicPreferences").get("unsubscribeAll") is True


@functools.cache
def _roots() -> ssl.SSLContext:
    return trusted_roots()


def _fetch(url: str) -> bytes:
    """Through the SSRF guard, whatever webhooks may reach."""
    return fetch(url, _roots())
