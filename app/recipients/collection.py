"""The collection of an account's recipients, the newest first (docs/endpoints.md#recipients)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import BigInteger, type_coerce
from sqlalchemy.orm import Session

from app.db.index_hints import planned_for_values
from app.db.models import Recipient
from app.errors import ServiceError
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.parameters import Parameter
from app.query.reader import Page, Shape, read_page
from app.recipients.filters import EMAIL_KEY, answered_by_indexes
from app.recipients.read import ANONYMOUS, PROPERTIES, RECIPIENT, Viewer
from app.recipients.states import SHOWN

FILTERS = {
    "uuid": Filter("uuid", FilterType.UUID),
    "email": Filter("email", FilterType.EMAIL),
    "mobile": Filter("mobile", FilterType.STRING),
    **{name: Filter(name, FilterType.INTEGER) for name in ("contact_id", "list_id", "group_id", "message_id")},
    "state": Filter("state", FilterType.ENUM, SHOWN),
    "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    "send_time": Filter("send_time", FilterType.TIMESTAMP),
}
OF_CONTACTS = ("email", "mobile", "contact_id")
"""Filters that tell whether somebody was written to."""
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


def check_filters(pairs: Iterable[tuple[str, str]], viewer: Viewer) -> None:
    """Raises `permission_denied` for a filter by what the viewer may not see, before its value is looked at."""
    names = (Parameter.of(key, value).name for key, value in pairs)
    hidden = next((name for name in names if name in OF_CONTACTS), None)
    if hidden is not None and not viewer.sees_contacts:
        detail = f"The filter {hidden} needs the scope contact.view."
        raise ServiceError("permission_denied", field=hidden, detail=detail)


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
