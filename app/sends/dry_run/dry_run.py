"""What a send would do: the use cases of a dry run and of a preview (docs/dry-run.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.addresses import ADDRESS_KIND_BY_TYPE, is_valid_email
from app.clock import timestamp
from app.content.invalid_markup import find_invalid_markup, placeholder_lines
from app.errors import FieldError, ServiceError
from app.ids import shown_id
from app.lists.fields import ListSpec
from app.recipients.states import FailReason
from app.sends.accept.accept import LoadDraft, SendRequest, check_references, check_rules
from app.sends.accept.content import Content, SavedMessage, effective_content
from app.sends.accept.draft import DESTINATIONS, Limits
from app.sends.accept.references import SendCheck, SendGroup, find_group
from app.sends.accept.senders import Sender
from app.sends.accept.write import TrackingOptions, ValidSend
from app.sends.dry_run.prepare import Forecast, PlannedRecipient, forecasts, prepare
from app.services import Services

RENDERED_ATTRIBUTES = ("subject", "body_html", "body_text")
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
    recipient_forecasts = [
        recipient_forecast(forecast, valid.draft.metadata_of(recipient))
        for forecast, recipient in zip(forecasts(services.settings, recipients), valid.draft.recipients, strict=True)
    ]
    return {**_send(valid), "_embedded": {"recipients": recipient_forecasts}}


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
        "send_at": timestamp(draft.send_at) if draft.send_at else None,
        "tags": list(draft.tags) or None,
        "invalid_markup": list(invalid_markup(valid.content)),
    }


def invalid_markup(content: Content) -> Iterator[dict[str, Any]]:
    """The markers that stay as written, each with the attribute and the line."""
    for field in RENDERED_ATTRIBUTES:
        markers = find_invalid_markup(getattr(content, field) or "")
        for invalid, _ in zip(markers, range(MAX_MARKERS), strict=False):
            yield {"field": field, "line": invalid.line, "marker": invalid.marker}


def recipient_forecast(forecast: Forecast, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """What would become of one recipient, as the API shows it."""
    recipient = forecast.planned.recipient
    is_email = recipient.compiled.send.type == "email"
    rendered = forecast.masked.rendered if forecast.masked else None
    return {
        "outcome": forecast.outcome,
        "reason": forecast.reason,
        "detail": forecast.detail,
        "contact_id": recipient.contact_id,
        "creates_contact": forecast.planned.creates_contact,
        "email": recipient.address or None if is_email else None,
        "mobile": None if is_email else recipient.address or None,
        "subject": rendered.subject if rendered and is_email else None,
        "body_html": rendered.html if rendered else None,
        "body_text": rendered.text if rendered else None,
        "headers": forecast.headers,
        "size": forecast.size,
        "encoding": None,
        "segments": None,
        **forecast.sms,
        "metadata": metadata,
        "wildcards_without_value": [wildcard._asdict() for wildcard in forecast.unfilled],
    }


PREVIEW_ADDRESSES = {"email": "someone@example.com", "mobile": "61400000000"}
"""Kind of an address -> the one of a preview for which none is chosen."""
PREVIEW_GROUP = SendGroup(None, "preview")
STAND_IN_SENDER = "sender@sender.invalid"
"""Stands for the sender of a mail that has none."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A message as it would be delivered. `refusals` say why a send of it would be refused, `skip` why its recipient
    would get nothing; it is rendered all the same. `lines` maps each wildcard without a value, by attribute, name and
    fallback, to the lines in which it stands; `markup` are the markers that stay as written."""

    content: Content
    forecast: Forecast
    refusals: Sequence[FieldError]
    skip: FailReason | None
    markup: Sequence[Mapping[str, Any]]
    lines: Mapping[tuple[str, str, str], Sequence[int]]


def preview(
    services: Services,
    account_id: int,
    message_type: str,
    attributes: Mapping[str, str | None],
    *,
    list_id: int | None,
    recipient: Mapping[str, Any],
    load: LoadDraft,
    request_id: str,
) -> Preview:
    """A message with the content of these attributes as its only recipient would get it, rendered by what delivers.

    `recipient` is as in a send; without an address it gets one that stands for any. It takes no lock and writes
    nothing. `load` validates the body of a send, and raises its errors.
    """
    kind, settings = ADDRESS_KIND_BY_TYPE[message_type], services.settings
    send = {"type": message_type, "list_id": list_id, "group_name": PREVIEW_GROUP.name, **attributes}
    stand_in: Mapping[str, str] = {} if {*DESTINATIONS} & {*recipient} else {kind: PREVIEW_ADDRESSES[kind]}
    body = {**send, "recipients": [{**stand_in, **recipient}]}
    # Without a type of its own, because a message that is only shown may lack what a send needs.
    draft = load(body, None, Limits(settings.max_attachments, settings.max_attachment_bytes))
    content = effective_content(draft, None)
    with services.database.read() as session:
        check = check_references(session, account_id, draft, content)
        valid, refusals = _valid(check)
        planned, further = _prepared(check, valid, request_id)
    skip, planned.recipient.skip = planned.recipient.skip, None
    (forecast,) = forecasts(services.settings, [planned])
    return Preview(
        content, forecast, [*refusals, *further], skip, list(invalid_markup(content)), _lines(content, forecast)
    )


def _valid(check: SendCheck) -> tuple[ValidSend, Sequence[FieldError]]:
    """The send, and why it would be refused, if it would be: then it has a sender all the same."""
    draft, content = check.draft, check.content
    try:
        return check_rules(check, SavedMessage(draft.type, content), PREVIEW_GROUP), ()
    except ServiceError as error:
        account = check.references.account
        made = ValidSend(
            draft,
            content,
            _sender(check),
            PREVIEW_GROUP,
            _list(check),
            TrackingOptions.of(draft, account),
            draft.priority or account.priority(draft.type),
            is_test=bool(account.is_test),
        )
        return made, error.errors


def _sender(check: SendCheck) -> Sender:
    content, account = check.content, check.references.account
    if check.draft.type == "sms":
        return Sender(content.from_address or "")
    if content.from_address and is_valid_email(content.from_address):
        return Sender(content.from_address, content.from_name)
    return Sender(account.default_from_address or STAND_IN_SENDER, content.from_name or account.default_from_name)


def _list(check: SendCheck) -> ListSpec | None:
    """The list, if it has addresses for the type of the send."""
    contact_list, type_ = check.references.contact_list, check.draft.type
    has_addresses = contact_list is not None and (
        contact_list.has_email if type_ == "email" else contact_list.has_mobile
    )
    return contact_list if has_addresses else None


def _prepared(check: SendCheck, valid: ValidSend, request_id: str) -> tuple[PlannedRecipient, Sequence[FieldError]]:
    """The recipient as delivery would load it. Without its contact, if the list could have no such contact."""
    try:
        (planned,) = prepare(check.session, check, valid, request_id)
    except ServiceError as error:
        (planned,) = prepare(check.session, check, replace(valid, contact_list=None), request_id)
        return planned, error.errors
    return planned, ()


def _lines(content: Content, forecast: Forecast) -> dict[tuple[str, str, str], Sequence[int]]:
    lines_by_part = {part: placeholder_lines(getattr(content, part) or "") for part in RENDERED_ATTRIBUTES}
    return {
        (wildcard.field, wildcard.name, wildcard.fallback): lines_by_part[wildcard.field].get(
            (wildcard.name, wildcard.fallback), ()
        )
        for wildcard in forecast.unfilled
    }
