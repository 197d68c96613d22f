"""The events of SendGrid, if that is the relay, in the terms of this service.

Its events name the Message-ID that a mail had when the relay accepted it, which contains the recipient's uuid. The
secret in the URL proves that a call is genuine, so nothing else needs to be signed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson
from sqlalchemy import select

from app.db.database import Transaction
from app.db.models import Recipient
from app.inbound.effect import Effect
from app.inbound.email.delivery_status import failure_status, status_in
from app.inbound.email.fields import one_line
from app.inbound.email.record import record_report
from app.inbound.email.report import Report, ReportKind
from app.services import Services

KINDS = {
    "bounce": ReportKind.FAILED,
    "dropped": ReportKind.FAILED,
    "deferred": ReportKind.DELAYED,
    "delivered": ReportKind.ARRIVED,
    "spamreport": ReportKind.COMPLAINT,
    "unsubscribe": ReportKind.OPT_OUT,
    "group_unsubscribe": ReportKind.OPT_OUT,
}
"""Other events, such as `processed`, `open` and `click`, add nothing that this service does not record itself."""
DROPPED = "4.7.0"
"""SendGrid did not attempt delivery, because of its own suppression list; the address may be valid."""
BLOCKED = "blocked"
"""The type of a bounce that SendGrid calls temporary, whatever its status: the server refused the sender, not the
address."""
_MESSAGE_ID = re.compile(r"<?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})@", re.ASCII | re.IGNORECASE)

Event = Mapping[str, Any]


class ReportedEvent(NamedTuple):
    """The report of one event; its copies have the same fingerprint."""

    uuid: str
    report: Report
    fingerprint: str


def take_sendgrid_events(services: Services, events: Iterable[object]) -> bool:
    """Writes what the events report, each in its own transaction.

    Returns False if one of them is about a message whose outcome is not written yet; all of them may then be sent
    again.
    """
    reported = [parsed for event in events if isinstance(event, dict) and (parsed := _parse_event(event))]
    ids = _recipients(services, {event.uuid for event in reported})
    effects = [_record(services, ids[event.uuid], event) for event in reported if event.uuid in ids]
    return Effect.EARLY not in effects


def _record(services: Services, recipient_id: int, event: ReportedEvent) -> Effect:
    def work(transaction: Transaction) -> Effect:
        return record_report(transaction, recipient_id, event.report, event.fingerprint)

    return services.database.transact(work)


def _parse_event(event: Event) -> ReportedEvent | None:
    kind = KINDS.get(_text(event, "event"))
    named = _MESSAGE_ID.match(_text(event, "smtp-id"))
    if kind is None or named is None:
        return None
    own_id = _text(event, "sg_event_id").encode() or orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
    return ReportedEvent(named[1].lower(), _report(kind, event), "sendgrid " + hashlib.sha256(own_id).hexdigest())


def _report(kind: ReportKind, event: Event) -> Report:
    detail = one_line(_text(event, "reason") or _text(event, "response"))
    status = status_in(_text(event, "status")) or status_in(detail)
    if kind is ReportKind.FAILED:
        status = DROPPED if event["event"] == "dropped" else failure_status(status, detail)
        if event.get("type") == BLOCKED:
            status = f"4{status[1:]}"
    if kind is ReportKind.COMPLAINT:
        detail = "spam report at SendGrid"
    return Report(kind, status, detail, frozenset({_text(event, "email").lower()} - {""}))


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _recipients(services: Services, uuids: set[str]) -> dict[str, int]:
    with services.database.read() as session:
        rows = session.execute(select(Recipient.uuid, Recipient.id).where(Recipient.uuid.in_(uuids)))
        return {row.uuid: row.id for row in rows}
