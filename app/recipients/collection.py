"""The collection of an account's recipients, the newest first (docs/endpoints.md#recipients)."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import BigInteger, type_coerce
from sqlalchemy.orm import Session

from app.db.index_hints import planned_for_values
from app.db.models import Recipient
from app.query.conditions import Query
from app.query.fields import Resource
from app.query.reader import Page, Shape, read_page
from app.recipients.filters import EMAIL_KEY, answered_by_indexes
from app.recipients.read import ANONYMOUS, FILTERS, PROPERTIES, RECIPIENT, Viewer

COPIED = ("list_id", "message_id")
"""Filters that test keys give the ids of the originals (docs/testing.md#copies)."""
RECIPIENTS = Resource(
    name="recipient of a transactional send", collection="recipients", filters=FILTERS, fields=tuple(PROPERTIES)
)


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
