"""Events of Postmark (docs/relay-hooks.md#postmark).

Each request has one event, which names the mail by the metadata that our transport gave it. Postmark signs nothing; it
sends a user and a password, or a secret in the URL.
"""

from __future__ import annotations

from app.inbound.email.report import UNSPECIFIC_STATUS, Report, ReportKind, status_in
from app.inbound.hooks.base import (
    METADATA_NAME,
    NOT_ATTEMPTED_STATUS,
    Fields,
    HookRequest,
    RelayEvent,
    SecretHook,
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

HARD_BOUNCE_STATUSES = {"HardBounce": UNSPECIFIC_STATUS, "BadEmailAddress": "5.1.3"}
"""Permanent failures, and what they mean where the mail server has given no code: the first may be about anything."""
SOFT_BOUNCE_TYPES = frozenset(
    {
        *("SoftBounce", "DnsError", "SpamNotification", "OpenRelayTest", "Unknown", "VirusNotification", "Blocked"),
        *("SMTPApiError", "DMARCPolicy", "TemplateRenderingFailed"),
    }
)
"""Types of bounces that say nothing against the address, or nothing final."""
UNATTEMPTED_TYPES = frozenset({"ManuallyDeactivated"})
DELAY_TYPES = frozenset({"Transient"})
COMPLAINT_TYPES = frozenset({"SpamComplaint"})
OPT_OUT_TYPES = frozenset({"Unsubscribe"})
COMPLAINT = "spam complaint at Postmark"


class PostmarkHook(SecretHook):
    """The hook of Postmark's webhooks for bounces, complaints, deliveries and changes of subscriptions."""

    success = 200
    setting = "postmark_webhook_secret"

    def read(self, request: HookRequest) -> list[RelayEvent]:
        """The event of the request."""
        self.check(request)
        (event, *_) = objects_of([request.document()]) or [{}]
        report = report_of(event)
        uuid = _uuid(event)
        if report is None or uuid is None:
            return []
        return [RelayEvent(report, fingerprint_of("postmark", _id(event), event), uuid)]


def report_of(event: Fields) -> Report | None:
    """The event in the terms of this service; None for one that reports nothing, such as an open."""
    about = address_of(text_of(event, "Email") or text_of(event, "Recipient"))
    detail = diagnostic(text_of(event, "Details") or text_of(event, "Description"))
    match text_of(event, "RecordType"):
        case "Bounce":
            return _bounce(text_of(event, "Type"), detail, about)
        case "SpamComplaint":
            return Report(ReportKind.COMPLAINT, None, COMPLAINT, about)
        case "Delivery":
            return Report(ReportKind.ARRIVED, status_in(detail), detail, about)
        case "SubscriptionChange" if _is_opt_out(event):
            return Report(ReportKind.OPT_OUT, None, "unsubscribed at Postmark", about)
    return None


def _bounce(type_: str, detail: str, about: frozenset[str]) -> Report | None:
    if type_ in HARD_BOUNCE_STATUSES:
        return Report(ReportKind.FAILED, hard_status("", detail, HARD_BOUNCE_STATUSES[type_]), detail, about)
    if type_ in SOFT_BOUNCE_TYPES:
        return Report(ReportKind.FAILED, soft_status("", detail), detail, about)
    if type_ in UNATTEMPTED_TYPES:
        return Report(ReportKind.FAILED, NOT_ATTEMPTED_STATUS, detail, about)
    if type_ in DELAY_TYPES:
        return Report(ReportKind.DELAYED, status_in(detail), detail, about)
    if type_ in COMPLAINT_TYPES:
        return Report(ReportKind.COMPLAINT, None, COMPLAINT, about)
    return Report(ReportKind.OPT_OUT, None, detail, about) if type_ in OPT_OUT_TYPES else None


def _is_opt_out(event: Fields) -> bool:
    """Whether a person unsubscribed; a bounce or a complaint also changes the subscription, and has its own event."""
    return (
        event.get("SuppressSending") is True
        and event.get("Origin") == "Recipient"
        and (event.get("SuppressionReason") == "ManualSuppression")
    )


def _uuid(event: Fields) -> str | None:
    metadata = {name.lower(): value for name, value in fields_of(event, "Metadata").items()}
    return uuid_in(text_of(metadata, METADATA_NAME))


def _id(event: Fields) -> str:
    """Bounces and complaints have an id; other events are known by the mail, the kind and the time."""
    own_id = text_of(event, "ID")
    moment = text_of(event, "DeliveredAt") or text_of(event, "ChangedAt")
    if not own_id and not moment:
        return ""
    return " ".join((text_of(event, "RecordType"), own_id, text_of(event, "MessageID"), moment))
