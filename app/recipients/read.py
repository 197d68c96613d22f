"""One recipient of a send and its timeline, as clients see them (docs/delivery.md#recipient-states)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Row, case, null, select
from sqlalchemy.orm import Session

from app.automations.paths import automation_path
from app.db.models import Recipient, RecipientStep, Send
from app.db.public_ids import public_id
from app.errors import ServiceError
from app.groups.read import group_path
from app.ids import UUID
from app.lists.paths import contact_path, list_path
from app.messages.read import message_path
from app.query.compile import count, page, split_page
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource, keyed_name
from app.query.links import PageEnds, ends_beyond_end, is_beyond_end, page_ends, page_links
from app.query.reader import Property, Shape, as_timestamp, read_one
from app.recipients.conditions import CURRENT_ATTEMPTS, SHOWN_STATE
from app.recipients.labels import METADATA, METADATA_KEY
from app.recipients.redaction import Redaction
from app.recipients.states import SHOWN_STATES, RecipientState


def _send_column(name: str) -> ColumnElement[Any]:
    """A column of the recipient's send, as a lookup by its key."""
    return select(getattr(Send, name)).where(Send.id == Recipient.send_id).correlate(Recipient).scalar_subquery()


_SEND_COLUMNS = {name: _send_column(name) for name in ("automation_id", "step_id")}
TIMELINE = "timeline"
STEP_ORDER: tuple[Any, ...] = (RecipientStep.id,)
STEP_COLUMNS: tuple[Any, ...] = (
    *(RecipientStep.id, RecipientStep.time, RecipientStep.step, RecipientStep.detail, RecipientStep.transport),
)
SUMMARY_PROPERTIES = (
    "type",
    "state",
    "reason",
    "list_id",
    "contact_id",
    "message_id",
    "group_id",
    "automation_id",
    "step_id",
)
COMPUTED_COLUMNS: dict[str, Any] = {
    "list_id": public_id(Recipient.list_id),
    "message_id": public_id(Recipient.message_id),
    "state": SHOWN_STATE,
    "group_id": case((_SEND_COLUMNS["step_id"].is_(None), Recipient.group_id)),
    **_SEND_COLUMNS,
}
"""Values that are no columns of the recipient, or not always."""
PROPERTIES = {
    "uuid": Property(Recipient.uuid),
    "id": Property(Recipient.id),
    **{
        name: Property(COMPUTED_COLUMNS[name] if name in COMPUTED_COLUMNS else getattr(Recipient, name))
        for name in SUMMARY_PROPERTIES
    },
    "email": Property(Recipient.email),
    "mobile": Property(Recipient.mobile),
    "attempts": Property(CURRENT_ATTEMPTS),
    "creation_time": Property(Recipient.creation_time, as_timestamp),
    "send_at": Property(_send_column("send_at"), as_timestamp),
    "send_time": Property(Recipient.sent_time, as_timestamp),
    "first_open_time": Property(Recipient.first_open_time, as_timestamp),
    "last_open_time": Property(Recipient.last_open_time, as_timestamp),
    "open_type": Property(Recipient.open_type),
    "tags": Property(Recipient.tags),
    "metadata": Property(Recipient.custom_metadata),
    "first_click_time": Property(Recipient.first_click_time, as_timestamp),
    "further_visits": Property(Recipient.further_visits),
    "complaint_time": Property(Recipient.complaint_time, as_timestamp),
    "content_purged_time": Property(_send_column("content_purged_time"), as_timestamp),
}

TAG_FILTER = "tag"
METADATA_FILTER = keyed_name(METADATA)
MAX_TAGS_OF_FILTER = 100
FILTERS = {
    "uuid": Filter("uuid", FilterType.UUID),
    "email": Filter("email", FilterType.EMAIL),
    "mobile": Filter("mobile", FilterType.STRING),
    **{name: Filter(name, FilterType.INTEGER) for name in ("contact_id", "list_id", "group_id", "message_id")},
    "state": Filter("state", FilterType.ENUM, SHOWN_STATES),
    "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    "send_time": Filter("send_time", FilterType.TIMESTAMP),
    TAG_FILTER: Filter(TAG_FILTER, FilterType.LABEL, operators=("", "in"), most=MAX_TAGS_OF_FILTER),
    METADATA_FILTER: Filter(METADATA_FILTER, FilterType.LABEL, operators=("",), key=METADATA_KEY),
}
CONTACT_FILTERS = ("email", "mobile", "contact_id", METADATA_FILTER)
"""Filters that tell whether somebody was written to."""


def recipient_path(uuid: str) -> str:
    """The path of a recipient."""
    return f"/v1/transactional-sends/{uuid}"


def _links(row: Row[Any]) -> dict[str, Any]:
    """Links to the objects that the recipient refers to; some may be deleted by now."""
    links = {"self": recipient_path(row.uuid)}
    if row.automation_id is None:
        links["transactional_group"] = group_path(row.group_id)
    else:
        links["automation"] = automation_path(row.automation_id)
    if row.list_id is not None:
        links["list"] = list_path(row.list_id)
        if row.contact_id is not None:
            links["contact"] = contact_path(row.list_id, row.contact_id)
    if row.message_id is not None:
        links["message"] = message_path(row.message_id)
    return {name: {"href": path} for name, path in links.items()}


def _links_without_contact(row: Row[Any]) -> dict[str, Any]:
    return {name: link for name, link in _links(row).items() if name != "contact"}


RECIPIENT_SHAPE = Shape(
    resource=Resource(
        name="recipient of a transactional send", collection="", filters=FILTERS, fields=(*PROPERTIES, TIMELINE)
    ),
    properties=PROPERTIES,
    keys=(
        Recipient.id,
        Recipient.uuid,
        Recipient.group_id,
        _SEND_COLUMNS["automation_id"].label("automation_id"),
        Recipient.list_id,
        Recipient.contact_id,
        Recipient.message_id,
    ),
    links=_links,
    order=(),
)

# The reason of a bounce is a text of the other side; that of a failure is one of our codes.
ANONYMOUS_RECIPIENT_SHAPE = replace(
    RECIPIENT_SHAPE,
    properties={
        **PROPERTIES,
        **{name: Property(null()) for name in ("contact_id", "email", "mobile", "metadata")},
        "reason": Property(case((Recipient.state == RecipientState.FAILED, Recipient.reason))),
    },
    links=_links_without_contact,
)
"""For keys that may not see contacts (docs/requests.md#confidentiality)."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """What a key may see of people and of texts of other servers, and what no key may see."""

    sees_contacts: bool
    redaction: Redaction

    @property
    def shape(self) -> Shape:
        """The properties of a recipient that it sees."""
        return RECIPIENT_SHAPE if self.sees_contacts else ANONYMOUS_RECIPIENT_SHAPE

    @property
    def hidden_filters(self) -> tuple[str, ...]:
        """The filters that it may not use."""
        return () if self.sees_contacts else CONTACT_FILTERS

    def redacted(self, text: str | None) -> str | None:
        """A text of another server, redacted; None if the viewer may not see it."""
        return self.redaction.redact(text) if self.sees_contacts and text is not None else None


def require_recipient(session: Session, account_id: int, uuid: str) -> int:
    """The id of the account's recipient with that uuid, in any case. Raises `not_found`."""
    if not UUID.fullmatch(uuid):
        raise ServiceError("not_found")
    statement = select(Recipient.id).where(Recipient.account_id == account_id, Recipient.uuid == uuid.lower())
    recipient_id = session.execute(statement).scalar_one_or_none()
    if recipient_id is None:
        raise ServiceError("not_found")
    return recipient_id


def get_recipient(session: Session, account_id: int, recipient_id: int, query: Query, viewer: Viewer) -> dict[str, Any]:
    """The recipient, with a page of its steps in the order in which they happened. Raises `not_found`."""
    recipient = read_one(session, viewer.shape, query, {Recipient.account_id: account_id, Recipient.id: recipient_id})
    if recipient is None:
        raise ServiceError("not_found")
    links = recipient.pop("_links")
    if recipient.get("reason") is not None and viewer.sees_contacts:
        recipient["reason"] = viewer.redacted(recipient["reason"])
    if query.fields is None or TIMELINE in query.fields:
        recipient[TIMELINE], ends = _timeline(session, account_id, recipient_id, query, viewer)
        links = {**links, **page_links(links["self"]["href"], query, ends)}
    return {**recipient, "_links": links}


def _timeline(
    session: Session, account_id: int, recipient_id: int, query: Query, viewer: Viewer
) -> tuple[list[dict[str, Any]], PageEnds]:
    """A page of the steps, and its ends."""
    steps_of = select(*STEP_COLUMNS).where(
        RecipientStep.account_id == account_id, RecipientStep.recipient_id == recipient_id
    )
    fetched = session.execute(page(steps_of, query, STEP_ORDER, ascending=True)).all()
    rows, has_more = split_page(fetched, query)
    first, last = ((rows[0].id,), (rows[-1].id,)) if rows else (None, None)
    ends = page_ends(query, len(rows), has_more=has_more, first=first, last=last)
    if is_beyond_end(query, len(rows)):
        ends = ends_beyond_end(query, session.execute(count(steps_of)).scalar_one())
    steps = [
        {
            "time": as_timestamp(row.time, query.zone),
            "step": row.step,
            "detail": viewer.redacted(row.detail),
            **({"transport": row.transport} if row.transport else {}),
        }
        for row in rows
    ]
    return steps, PageEnds(0) if query.counts_only else ends


def find_recipient(session: Session, uuid: str) -> Recipient:
    """The recipient with that uuid, in any case and of any account. Raises `ServiceError` (`invalid_id`)."""
    recipient = session.scalars(select(Recipient).where(Recipient.uuid == uuid.lower())).first()
    if recipient is None:
        raise ServiceError("invalid_id", field="uuid", detail=f"there is no recipient with the uuid {uuid!r}")
    return recipient


def latest_steps(session: Session, recipient: Recipient, limit: int) -> list[RecipientStep]:
    """The latest steps of the recipient, in the order in which they happened."""
    statement = select(RecipientStep).where(RecipientStep.recipient_id == recipient.id)
    return list(session.scalars(statement.order_by(RecipientStep.id.desc()).limit(limit)))[::-1]
