"""Finding lists and contacts for commands, and showing a contact."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.addresses import address_forms, email_key
from app.cli.base import Row
from app.clock import timestamp
from app.contacts.read import contact_shape, get_contact
from app.db.lookup import find_by_name_or_id
from app.db.models import Contact, List
from app.errors import ServiceError
from app.ids import id_in
from app.lists.fields import ListSpec
from app.lists.find import get_list
from app.query.grammar import parse_instance


def find_list(session: Session, account: str | None, name: str) -> ListSpec:
    """The list with that name or id of the account with that name or id."""
    return list_named(session, find_account(session, account).id, name)


def list_named(session: Session, account_id: int, name: str) -> ListSpec:
    """The account's list with that name or id."""
    return get_list(session, account_id, find_by_name_or_id(session, List, account_id, name, "list").id)


def find_contact(session: Session, contact_list: ListSpec, reference: str) -> Contact:
    """The list's contact with that id, else the oldest one with that email or mobile.

    Raises `ServiceError` (`invalid_id`).
    """
    contact = None
    if (contact_id := id_in(reference)) is not None:
        statement = select(Contact).where(Contact.list_id == contact_list.id, Contact.id == contact_id)
        contact = session.scalars(statement).first()
    if contact is None:
        address = or_(Contact.email_key.in_(address_forms(email_key(reference))), Contact.mobile == reference)
        statement = select(Contact).where(Contact.list_id == contact_list.id, address)
        contact = session.scalars(statement.order_by(Contact.creation_time, Contact.id).limit(1)).first()
    if contact is None:
        raise ServiceError("invalid_id", field="contact", detail=f"the list has no contact {reference!r}")
    return contact


def contact_row(session: Session, contact_list: ListSpec, contact_id: int) -> Row:
    """The contact as the API shows it, without links."""
    shape = contact_shape(contact_list.value_fields)
    return without_links(get_contact(session, contact_list, contact_id, parse_instance([], shape.resource)))


def without_links(item: Row) -> dict[str, Any]:
    """An object of the API without its links, which only clients of the API can use, and with times as text."""
    return {
        name: timestamp(value) if isinstance(value, datetime) else value
        for name, value in item.items()
        if name != "_links"
    }
