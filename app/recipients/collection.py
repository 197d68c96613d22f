"""The collection of an account's recipients, the newest first (docs/endpoints.md#recipients)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, func, select, type_coerce
from sqlalchemy.orm import Session

from app.db.index_hints import planned_for_values
from app.db.models import Recipient, RecipientStep
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Shape, read_page
from app.recipients.filters import EMAIL_KEY, answered_by_indexes
from app.recipients.read import ANONYMOUS, FILTERS, PROPERTIES, RECIPIENT, Viewer
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT

COPIED = ("list_id", "message_id")
"""Filters that test keys give the ids of the originals (docs/testing.md#copies)."""
RECIPIENTS = Resource(
    name="recipient of a transactional send", collection="recipients", filters=FILTERS, fields=tuple(PROPERTIES)
)
SEARCHED = replace(
    RECIPIENTS,
    filters={
        **FILTERS,
        "end_time": Filter("end_time", FilterType.TIMESTAMP),
        "transport": Filter("transport", FilterType.STRING),
    },
)
"""The same for operators, in searches, exports and bulk actions: when a message bounced or failed, and over which
transport. No index answers these: they are looked up for each message that meets the other conditions."""


def _at_its_end(column: Any) -> ColumnElement[Any]:
    """A column of the latest step by which the message bounced or failed."""
    ends = RecipientStep.step.in_((TimelineStep.BOUNCED, TimelineStep.FAILED))
    steps = select(column).where(RecipientStep.recipient_id == Recipient.id, ends).order_by(RecipientStep.id.desc())
    return steps.limit(1).correlate(Recipient).scalar_subquery()


def _collected(shape: Shape) -> Shape:
    """The shape of one recipient, in pages. The filter `group_id` also finds what a step of an automation has sent."""
    return replace(
        shape,
        resource=RECIPIENTS,
        order=(Recipient.creation_time, Recipient.id),
        filters={
            "email": EMAIL_KEY,
            "group_id": type_coerce(Recipient.group_id, BigInteger()),
            "list_id": Recipient.list_id,
            "message_id": Recipient.message_id,
            "end_time": _at_its_end(RecipientStep.time),
            "transport": _at_its_end(func.coalesce(RecipientStep.transport, DEFAULT)),
        },
    )


WHOLE, WITHOUT_CONTACTS = _collected(RECIPIENT), _collected(ANONYMOUS)


def page_recipients(session: Session, account_id: int, query: Query, viewer: Viewer) -> Page:
    """A page of the account's recipients, as the viewer may see them."""
    shape = WHOLE if viewer.sees_contacts else WITHOUT_CONTACTS
    of_account = Recipient.account_id == account_id
    if not query.conditions:
        page = read_page(session, shape, query, of_account)
    else:
        with planned_for_values(session):
            formed, others = answered_by_indexes(session, account_id, query.conditions)
            page = read_page(session, shape, replace(query, conditions=others), of_account, *formed)
    if viewer.sees_contacts:
        for item in page.items:
            if item.get("reason") is not None:
                item["reason"] = viewer.redacted(item["reason"])
    return page
