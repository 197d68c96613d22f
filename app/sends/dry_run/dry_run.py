"""The use case behind `POST /v1/transactional-sends?dry_run=true`: everything but the writing
(docs/sending.md#dry-run)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.content.invalid_markup import find_invalid_markup
from app.ids import shown_id
from app.sends.accept.accept import SendRequest, check_references, check_rules
from app.sends.accept.content import Content
from app.sends.accept.groups import find_group
from app.sends.accept.write import ValidSend
from app.sends.dry_run.forecast import Forecast, forecasts
from app.sends.dry_run.prepare import prepare
from app.services import Services

PARTS = ("subject", "body_html", "body_text")
"""Attributes that have wildcards and conditionals."""
MAX_MARKERS = 100
"""Invalid markers of one attribute that are shown."""


def dry_run(services: Services, request: SendRequest) -> dict[str, Any]:
    """What the send would do, as the API shows it. It takes no lock and writes nothing, and no message leaves.

    Raises `ServiceError` with every violation, as `accept` does.
    """
    with services.database.read() as session:
        check = check_references(session, request.account_id, request.draft, request.content)
        group = find_group(check, services.settings.max_groups, only_reading=True)
        valid = check_rules(check, request.saved_message, group)
        recipients = prepare(session, check, valid, request.request_id)
    found = [_recipient(forecast) for forecast in forecasts(services.settings, recipients)]
    return {**_send(valid), "_embedded": {"recipients": found}}


def _send(valid: ValidSend) -> dict[str, Any]:
    """What all recipients have in common."""
    draft, content = valid.draft, valid.content
    return {
        "type": draft.type,
        "list_id": shown_id(draft.list_id),
        "message_id": shown_id(draft.message_id),
        "group_id": valid.group.id,
        "group_name": valid.group.name,
        "from_name": valid.sender.name,
        "from_address": valid.sender.address,
        "reply_to": content.reply_to,
        "bcc_address": draft.bcc_address,
        "priority": valid.priority,
        "include_unsubscribed": draft.include_unsubscribed,
        "track_opens": valid.tracking.opens,
        "track_clicks": valid.tracking.clicks,
        "invalid_markup": list(invalid_markup(valid.content)),
    }


def invalid_markup(content: Content) -> Iterator[dict[str, Any]]:
    """The markers that stay as written, each with the attribute and the line."""
    for field in PARTS:
        markers = find_invalid_markup(getattr(content, field) or "")
        for found, _ in zip(markers, range(MAX_MARKERS), strict=False):
            yield {"field": field, "line": found.line, "marker": found.marker}


def _recipient(forecast: Forecast) -> dict[str, Any]:
    prepared = forecast.planned.prepared
    is_email = prepared.compiled.send.type == "email"
    rendered = forecast.shown.rendered if forecast.shown else None
    return {
        "outcome": forecast.outcome,
        "reason": forecast.reason,
        "detail": forecast.detail,
        "contact_id": prepared.claimed.contact_id,
        "creates_contact": forecast.planned.creates_contact,
        "email": prepared.address or None if is_email else None,
        "mobile": None if is_email else prepared.address or None,
        "subject": rendered.subject if rendered and is_email else None,
        "body_html": rendered.html if rendered else None,
        "body_text": rendered.text if rendered else None,
        "headers": forecast.headers,
        "size": forecast.size,
        "encoding": None,
        "segments": None,
        **forecast.sms,
        "wildcards_without_value": [wildcard._asdict() for wildcard in forecast.unfilled],
    }
