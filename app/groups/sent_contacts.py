"""The sent contacts of a message: one per recipient to whom a send that refers to the message has sent it
(docs/endpoints.md#sent-contacts)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row
from sqlalchemy.orm import Session

from app.db.models import Recipient
from app.lists.paths import contact_path, list_path
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_page

PROPERTIES = {
    "contact_id": Property(Recipient.contact_id),
    "list_id": Property(Recipient.list_id),
    "send_time": Property(Recipient.sent_time, as_timestamp),
    "report_id": Property(Recipient.group_id),
    "first_open_time": Property(Recipient.first_open_time, as_timestamp),
    "last_open_time": Property(Recipient.last_open_time, as_timestamp),
    "open_type": Property(Recipient.open_type),
}
FILTERS = {
    "contact_id": Filter("contact_id", FilterType.INTEGER),
    "list_id": Filter("list_id", FilterType.INTEGER),
    "send_time": Filter("send_time", FilterType.TIMESTAMP),
    "report_id": Filter("report_id", FilterType.INTEGER),
    "first_open_time": Filter("first_open_time", FilterType.TIMESTAMP),
    "last_open_time": Filter("last_open_time", FilterType.TIMESTAMP),
    "open_type": Filter("open_type", FilterType.ENUM, ("not_opened", "html", "text", "sms")),
}


def _links(row: Row[Any]) -> dict[str, Any]:
    """A text message may go to a recipient without a list, who then has no contact either."""
    links = {}
    if row.list_id is not None:
        links["list"] = {"href": list_path(row.list_id)}
        if row.contact_id is not None:
            links["contact"] = {"href": contact_path(row.list_id, row.contact_id)}
    return links


SENT_CONTACTS = Shape(
    resource=Resource(name="sent contact", collection="sent-contacts", filters=FILTERS, fields=tuple(PROPERTIES)),
    properties=PROPERTIES,
    keys=(Recipient.list_id, Recipient.contact_id),
    links=_links,
    order_by=(Recipient.sent_time.desc(), Recipient.contact_id.desc(), Recipient.id.desc()),
)


def page_sent_contacts(session: Session, account_id: int, message_id: int, query: Query) -> Page:
    """A page of the sent contacts of the message, newest first."""
    return read_page(
        session,
        SENT_CONTACTS,
        query,
        Recipient.account_id == account_id,
        Recipient.message_id == message_id,
        Recipient.sent_time.is_not(None),
    )
