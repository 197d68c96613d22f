"""What one message would look like, also that of a send that would be refused: a dry run that goes on where acceptance
ends (docs/console.md#stored-messages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.addresses import is_valid_email
from app.content.placeholder_lines import placeholder_lines
from app.errors import FieldError, ServiceError
from app.lists.fields import ListSpec
from app.recipients.reasons import FailReason
from app.sends.accept.accept import check_references, check_rules
from app.sends.accept.content import Content, SavedMessage, effective_content
from app.sends.accept.draft import SendDraft
from app.sends.accept.groups import SendGroup
from app.sends.accept.references import SendCheck
from app.sends.accept.senders import Sender
from app.sends.accept.write import TrackingOptions, ValidSend
from app.sends.dry_run.dry_run import PARTS, invalid_markup
from app.sends.dry_run.forecast import Forecast, forecasts
from app.sends.dry_run.prepare import PlannedRecipient, prepare
from app.services import Services

GROUP = SendGroup(None, "preview")
STAND_IN = "sender@sender.invalid"
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


def preview(services: Services, account_id: int, draft: SendDraft, request_id: str) -> Preview:
    """The message of the draft's only recipient, rendered by what delivers. It takes no lock and writes nothing."""
    content = effective_content(draft, None)
    with services.database.read() as session:
        check = check_references(session, account_id, draft, content)
        valid, refusals = _valid(check)
        recipient, further = _prepared(check, valid, request_id)
    skip, recipient.prepared.skip = recipient.prepared.skip, None
    (forecast,) = forecasts(services.settings, [recipient])
    return Preview(
        content, forecast, [*refusals, *further], skip, list(invalid_markup(content)), _lines(content, forecast)
    )


def _valid(check: SendCheck) -> tuple[ValidSend, Sequence[FieldError]]:
    """The send, and why it would be refused, if it would be: then it has a sender all the same."""
    draft, content = check.draft, check.content
    try:
        return check_rules(check, SavedMessage(draft.type, content), GROUP), ()
    except ServiceError as error:
        account = check.references.account
        made = ValidSend(
            draft,
            content,
            _sender(check),
            GROUP,
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
    return Sender(account.default_from_address or STAND_IN, content.from_name or account.default_from_name)


def _list(check: SendCheck) -> ListSpec | None:
    """The list, if it has addresses for the type of the send."""
    found, type_ = check.references.contact_list, check.draft.type
    has_addresses = found is not None and (found.has_email if type_ == "email" else found.has_mobile)
    return found if has_addresses else None


def _prepared(check: SendCheck, valid: ValidSend, request_id: str) -> tuple[PlannedRecipient, Sequence[FieldError]]:
    """The recipient as delivery would load it. Without its contact, if the list could have no such contact."""
    try:
        (found,) = prepare(check.session, check, valid, request_id)
    except ServiceError as error:
        (found,) = prepare(check.session, check, replace(valid, contact_list=None), request_id)
        return found, error.errors
    return found, ()


def _lines(content: Content, forecast: Forecast) -> dict[tuple[str, str, str], Sequence[int]]:
    known = {part: placeholder_lines(getattr(content, part) or "") for part in PARTS}
    return {
        (one.field, one.name, one.fallback): known[one.field].get((one.name, one.fallback), ())
        for one in forecast.unfilled
    }
