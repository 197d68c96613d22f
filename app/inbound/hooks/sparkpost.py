"""Events of SparkPost (docs/relay-hooks.md#sparkpost).

They come in batches and name the mail by the metadata that our transport gave it. SparkPost signs nothing; it sends a
user and a password, or a bearer token.
"""

from __future__ import annotations

from app.inbound.email.fields import one_line
from app.inbound.email.report import KIND_BY_FEEDBACK_TYPE, UNSPECIFIC_STATUS, Report, ReportKind, status_in
from app.inbound.hooks.base import (
    METADATA_NAME,
    NOT_ATTEMPTED_STATUS,
    Fields,
    HookRequest,
    RelayEvent,
    SecretHook,
    address_of,
    fields_of,
    fingerprint_of,
    hard_status,
    objects_of,
    soft_status,
    text_of,
    uuid_in,
)

EVENT_CLASSES = ("message_event", "unsubscribe_event", "gen_event")
"""Members of `msys` with the events that are read."""
HARD_CLASSES = {"10": "5.1.1", "30": UNSPECIFIC_STATUS}
"""Classes of permanent bounces, and what they mean where the mail server has given no code: an invalid recipient, and
that no recipient was named."""
UNATTEMPTED_CLASSES = frozenset({"25", "26"})
"""Failed by the sender's own settings, or by those of SparkPost."""
OPT_OUT_CLASS = "90"
NO_FAILURES = frozenset({"60", "80", "100"})
"""Automatic replies, subscriptions and challenges, which SparkPost also calls bounces."""
UNATTEMPTED_EVENTS = frozenset({"policy_rejection", "generation_failure", "generation_rejection"})


class SparkpostHook(SecretHook):
    """The hook of SparkPost's event webhooks."""

    success = 200
    setting = "sparkpost_webhook_secret"

    def read(self, request: HookRequest) -> list[RelayEvent]:
        """The events of a batch; the test batch of a new webhook has none."""
        self.check(request)
        batches = [fields_of(envelope, "msys") for envelope in objects_of(request.document())]
        events = [fields_of(batch, name) for batch in batches for name in EVENT_CLASSES if name in batch]
        return [parsed for event in events if (parsed := _parse_event(event))]


def _parse_event(event: Fields) -> RelayEvent | None:
    report = report_of(event)
    uuid = uuid_in(text_of(fields_of(event, "rcpt_meta"), METADATA_NAME))
    if report is None or uuid is None:
        return None
    return RelayEvent(report, fingerprint_of("sparkpost", text_of(event, "event_id"), event), uuid)


def report_of(event: Fields) -> Report | None:
    """The event in the terms of this service; None for one that reports nothing, such as an open."""
    type_ = text_of(event, "type")
    detail = one_line(text_of(event, "raw_reason") or text_of(event, "reason"))
    about = address_of(text_of(event, "raw_rcpt_to") or text_of(event, "rcpt_to"))
    match type_:
        case "bounce" | "out_of_band":
            return _bounce(text_of(event, "bounce_class"), text_of(event, "error_code"), detail, about)
        case "delay":
            return Report(ReportKind.DELAYED, status_in(detail), detail, about)
        case "delivery":
            return Report(ReportKind.ARRIVED, status_in(detail), detail, about)
        case "spam_complaint":
            return _complaint(text_of(event, "fbtype") or "abuse", about)
        case "list_unsubscribe" | "link_unsubscribe":
            return Report(ReportKind.OPT_OUT, None, "unsubscribed at SparkPost", about)
    return Report(ReportKind.FAILED, NOT_ATTEMPTED_STATUS, detail, about) if type_ in UNATTEMPTED_EVENTS else None


def _bounce(bounce_class: str, code: str, detail: str, about: frozenset[str]) -> Report | None:
    if bounce_class in NO_FAILURES:
        return None
    if bounce_class == OPT_OUT_CLASS:
        return Report(ReportKind.OPT_OUT, None, detail, about)
    if bounce_class in UNATTEMPTED_CLASSES:
        return Report(ReportKind.FAILED, NOT_ATTEMPTED_STATUS, detail, about)
    if bounce_class in HARD_CLASSES:
        status = hard_status("", detail or code, HARD_CLASSES[bounce_class])
    else:
        status = soft_status("", detail or code)
    return Report(ReportKind.FAILED, status, detail, about)


def _complaint(type_: str, about: frozenset[str]) -> Report | None:
    kind = KIND_BY_FEEDBACK_TYPE.get(type_.lower())
    return Report(kind, None, f"{one_line(type_)} reported at SparkPost", about) if kind else None
