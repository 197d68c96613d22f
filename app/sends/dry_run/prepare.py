"""The recipients of a send that is not stored, completed as delivery completes them, and what would become of each."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, normalize_address
from app.clock import now, this_second
from app.contacts.get_or_create import planned_contacts
from app.contacts.row import ContactRow, hidden_by
from app.content.attachments import new_content_id
from app.content.invalid_markup import placeholder_of
from app.content.mail_headers import is_accepted
from app.db.models import Account
from app.recipients.states import FailReason
from app.sends.accept.draft import AttachmentDraft
from app.sends.accept.references import SendCheck, addresses_of
from app.sends.accept.write import ValidSend, recipient_rows, send_columns, shared_columns
from app.sends.delivery.load import load_domains, prepare_recipient
from app.sends.delivery.message import MessageBuilder
from app.sends.delivery.recipient import ClaimedRecipient, CompiledMessage, SendContent, UnfilledByPart
from app.sends.delivery.sizes import RenderQuota, Unsendable
from app.sends.secret_values import secrets_of
from app.sends.skipping import Suppressions, load_contacts, load_suppressions, suppression_key
from app.settings import Settings
from app.tracking.feedback_channels import FeedbackChannels, LinkIds
from app.transports.base import OutboundEmail, OutboundSms
from app.transports.email import mime
from app.transports.sms.segments import count_segments, is_gsm

STAND_IN_UUID = "00000000-0000-4000-8000-000000000000"
STAND_IN_ID = 1 << 24
"""Stands for the ids that links would contain, so that a mail is as long as the one that would be sent."""
NEW_CONTACT_ID = 0
"""Stands for the id of a contact that the send would create."""

PlannedContacts = Mapping[str, ContactRow]
"""Normalized address -> the contact that the send would create."""


@dataclass(frozen=True, slots=True)
class PlannedRecipient:
    """A recipient of the request with its message's ingredients, and whether its contact would be created."""

    recipient: ClaimedRecipient
    creates_contact: bool


def prepare(session: Session, check: SendCheck, valid: ValidSend, request_id: str) -> list[PlannedRecipient]:
    """The recipients in the order of the request; at most six selects, whatever their number.

    Raises `list_not_mutable` if a system list lacks a contact.
    """
    planned = _planned(session, check, valid)
    claimed = _claimed_recipients(check, valid)
    contacts = load_contacts(session, claimed) | {
        row.id: new for row in claimed if (new := _new_contact(row, planned)) is not None
    }
    compiled = _compiled(session, check, valid, claimed, request_id)
    keys = (suppression_key(row, contacts.get(row.id)) for row in claimed)
    suppressions = load_suppressions(session, keys, has_digests=compiled.send.has_digests)
    for row, recipient in zip(claimed, valid.draft.recipients, strict=True):
        _complete(row, compiled, contacts.get(row.id), suppressions, _encoded(recipient.attachments))
    return [PlannedRecipient(row, row.contact_id is None and row.contact is not None) for row in claimed]


def _planned(session: Session, check: SendCheck, valid: ValidSend) -> PlannedContacts:
    """The contacts that the send would create."""
    if valid.contact_list is None:
        return {}
    kind, ids_by_address = ADDRESS_KIND_BY_TYPE[valid.draft.type], check.references.contacts.by_key
    states = planned_contacts(session, valid.contact_list, kind, addresses_of(valid.draft), ids_by_address)
    new_contacts = {}
    for key, state in states.items():
        columns: dict[str, Any] = {"id": NEW_CONTACT_ID, "blocked_email": False, "blocked_mobile": False, **state}
        new_contacts[key] = ContactRow(**{field.name: columns[field.name] for field in fields(ContactRow)})
    return new_contacts


def _claimed_recipients(check: SendCheck, valid: ValidSend) -> list[ClaimedRecipient]:
    """The rows that acceptance would write, as a worker would claim them. Their ids are their positions, because there
    are none yet."""
    draft = valid.draft
    shared = {**shared_columns(draft, check.account_id, 0, now()), "send_id": 0}
    rows = recipient_rows(draft, check.references.contacts)
    return [
        ClaimedRecipient.from_columns(
            {**shared, **row, "id": position, "uuid": STAND_IN_UUID}, secrets_of(recipient.values, draft.secret_values)
        )
        for position, (row, recipient) in enumerate(zip(rows, draft.recipients, strict=True))
    ]


def _new_contact(row: ClaimedRecipient, planned: PlannedContacts) -> ContactRow | None:
    """The contact that would be created for the recipient, if any."""
    address = row.email or row.mobile
    if address is None or row.contact_id is not None:
        return None
    return planned.get(normalize_address(ADDRESS_KIND_BY_TYPE[row.type], address).key)


def _compiled(
    session: Session, check: SendCheck, valid: ValidSend, claimed: Sequence[ClaimedRecipient], request_id: str
) -> CompiledMessage:
    columns = send_columns(check.account_id, request_id, valid, valid.group.id or 0, this_second())
    is_test = Account.test_of.is_not(None).label("is_test")
    account_statement = select(Account.time_zone, Account.owner_confirmed, is_test, Account.has_digests)
    account = session.connection().execute(account_statement.where(Account.id == check.account_id)).one()
    hidden = hidden_by(valid.contact_list) if valid.contact_list else None
    columns |= {
        **account._mapping,
        "id": 0,
        "begin_time": valid.draft.send_at or columns["creation_time"],
        "hidden_attributes": hidden,
        "routing_version": None,
        "relay_refuses": False,
    }
    send = SendContent(**{field.name: columns[field.name] for field in fields(SendContent)})
    domain = load_domains(session, claimed, [send])[send.id]
    return CompiledMessage(send, _encoded(valid.draft.attachments), domain, _link_ids(valid))


def _link_ids(valid: ValidSend) -> LinkIds:
    rows = valid.tracking.link_rows(valid.content)
    return {(row["link_type"], row["url"]): STAND_IN_ID + number for number, row in enumerate(rows)}


def _encoded(attachments: Sequence[AttachmentDraft]) -> list[mime.EncodedAttachment]:
    return [
        mime.encode_attachment(
            mime.Attachment(
                attachment.name, attachment.mime_type, attachment.content, attachment.content_id or new_content_id()
            )
        )
        for attachment in attachments
    ]


def _complete(
    row: ClaimedRecipient,
    compiled: CompiledMessage,
    contact: ContactRow | None,
    suppressions: Suppressions,
    attachments: Sequence[mime.EncodedAttachment],
) -> None:
    """Completes a recipient as delivery does; a contact that would be created has the marks of its address by then."""
    key = suppression_key(row, contact)
    if contact is not None and contact.id == NEW_CONTACT_ID and key:
        is_blocked = key in suppressions.blocked
        is_email = row.type == "email"
        contact = replace(contact, blocked_email=is_email and is_blocked, blocked_mobile=not is_email and is_blocked)
    row.id = STAND_IN_ID
    prepare_recipient(row, compiled, contact, key, suppressions, attachments=attachments)


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
    """What would become of one recipient; `composed` is it with its message, None unless it would be sent to. `masked`
    is the same with a mask in place of each secret value; None if it would not be sent like that."""

    planned: PlannedRecipient
    outcome: ForecastOutcome
    reason: FailReason | None = None
    detail: str | None = None
    composed: ClaimedRecipient | None = None
    masked: ClaimedRecipient | None = None
    unfilled: tuple[UnfilledWildcard, ...] = ()

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of the mail as it is sent, each on one line."""
        message = self.masked and self.masked.message
        return _headers(message.content) if isinstance(message, OutboundEmail) else []

    @property
    def sms(self) -> dict[str, Any]:
        """Text, encoding and number of segments of the text message; empty for a mail."""
        message = self.composed and self.composed.message
        if not isinstance(message, OutboundSms):
            return {}
        encoding = "gsm" if is_gsm(message.text) else "ucs2"
        masked_message = self.masked and self.masked.message
        text = masked_message.text if isinstance(masked_message, OutboundSms) else None
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
        if planned.recipient.skip is not None:
            yield Forecast(planned, ForecastOutcome.SKIP, planned.recipient.skip)
        elif built > MAX_BUILT_BYTES:
            yield Forecast(planned, ForecastOutcome.NOT_RENDERED)
        else:
            planned.recipient.quota = quota
            forecast = _forecast(builder, planned)
            if forecast.composed is not None:
                made_of = planned.recipient.compiled.sizes.source
                built += forecast.composed.rendered_bytes + (forecast.size or 0) + made_of
            yield forecast


def _forecast(builder: MessageBuilder, planned: PlannedRecipient) -> Forecast:
    recipient = copy(planned.recipient)  # so that not all messages stay in memory
    channels = builder.channels(recipient).for_dry_run()
    try:
        builder.compose(recipient, channels)
    except Unsendable as refusal:
        return Forecast(planned, ForecastOutcome.FAIL, refusal.reason, str(refusal))
    unfilled = recipient.compiled.unfilled(recipient, channels, builder.limits.body)
    return Forecast(
        planned,
        ForecastOutcome.SEND,
        composed=recipient,
        masked=_with_masked_message(builder, recipient, channels),
        unfilled=tuple(islice(_unfilled_wildcards(unfilled), MAX_UNFILLED)),
    )


def _with_masked_message(
    builder: MessageBuilder, recipient: ClaimedRecipient, channels: FeedbackChannels
) -> ClaimedRecipient | None:
    masked = recipient.masked()
    if masked is recipient:
        return recipient
    masked.quota = None
    with suppress(Unsendable):
        builder.compose(masked, channels)
        return masked
    return None


def _unfilled_wildcards(unfilled: UnfilledByPart) -> Iterator[UnfilledWildcard]:
    for field, placeholders in unfilled.items():
        for placeholder in placeholders:
            yield UnfilledWildcard(field, *placeholder_of(placeholder))


def _headers(content: bytes) -> list[dict[str, str]]:
    """Linear in the header, however it is folded."""
    head, _, _ = content.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").replace("\r\n ", " ").replace("\r\n\t", " ").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return [{"name": name, "value": value} for name, _, value in pairs if _is_shown(name.lower())]


def _is_shown(name: str) -> bool:
    """Whether it is one of `SHOWN_HEADERS`, or of those that the request adds."""
    return name in SHOWN_HEADERS or is_accepted(name)
