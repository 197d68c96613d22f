"""Events of SendGrid (docs/relay-hooks.md#sendgrid).

They name the Message-ID that a mail had when the relay accepted it, which contains the recipient's uuid. The secret in
the URL proves that a call is genuine.
"""

from __future__ import annotations

from app.inbound.email.fields import one_line
from app.inbound.email.report import Report, ReportKind, failure_status, status_in
from app.inbound.hooks.base import (
    NOT_ATTEMPTED_STATUS,
    Fields,
    HookRequest,
    RelayEvent,
    SecretHook,
    address_of,
    fingerprint_of,
    objects_of,
    text_of,
    uuid_in,
)

KIND_BY_EVENT = {
    "bounce": ReportKind.FAILED,
    "dropped": ReportKind.FAILED,
    "deferred": ReportKind.DELAYED,
    "delivered": ReportKind.ARRIVED,
    "spamreport": ReportKind.COMPLAINT,
    "unsubscribe": ReportKind.OPT_OUT,
    "group_unsubscribe": ReportKind.OPT_OUT,
}
"""Other events, such as `processed`, `open` and `click`, add nothing that this service does not record itself."""
BLOCK_TYPE = "blocked"
"""The type of a bounce that SendGrid calls temporary, whatever its status: the server refused the sender, not the
address."""


class SendgridHook(SecretHook):
    """The hook of SendGrid's event webhook."""

    success = 204
    setting = "sendgrid_webhook_secret"

    def read(self, request: HookRequest) -> list[RelayEvent]:
        """The events of a batch."""
        self.check(request)
        return [parsed for event in objects_of(request.document()) if (parsed := parse_event(event))]


def parse_event(event: Fields) -> RelayEvent | None:
    """The event in the terms of this service; None for one that reports nothing."""
    kind = KIND_BY_EVENT.get(text_of(event, "event"))
    uuid = uuid_in(text_of(event, "smtp-id"))
    if kind is None or uuid is None:
        return None
    return RelayEvent(_report(kind, event), fingerprint_of("sendgrid", text_of(event, "sg_event_id"), event), uuid)


def _report(kind: ReportKind, event: Fields) -> Report:
    detail = one_line(text_of(event, "reason") or text_of(event, "response"))
    status = status_in(text_of(event, "status")) or status_in(detail)
    if kind is ReportKind.FAILED:
        status = NOT_ATTEMPTED_STATUS if event["event"] == "dropped" else failure_status(status, detail)
        if event.get("type") == BLOCK_TYPE:
            status = f"4{status[1:]}"
    if kind is ReportKind.COMPLAINT:
        detail = "spam report at SendGrid"
    return Report(kind, status, detail, address_of(text_of(event, "email")))
