"""What keeps messages from an address now: what makes them wait, and what of the address and of the contact has them
skipped (docs/delivery.md#skipped-recipients)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, address_forms
from app.contacts.subscriptions import SUBSCRIBED_COLUMNS
from app.db.address_forms import find_digests
from app.db.models import BlockedAddress, Contact, List, Recipient, Unsubscriber
from app.recipients.conditions import settled_as
from app.recipients.filters import sent_to
from app.recipients.states import RecipientState
from app.sends.explain.waits import Finding, Route, at, waits


def obstacles(session: Session, route: Route) -> Iterator[Finding]:
    """What would keep a further message from its address; what makes it wait comes first."""
    yield from waits(session, route)
    contact, list_name = _contact(session, route), _list_name(session, route.list_id)
    yield from _of_contact(route, contact, list_name)
    if route.address is not None:
        yield from _blocked(session, route, route.address)
        if route.send is None or not route.send.include_unsubscribed:
            yield from _unsubscribed(session, route, route.address, contact, list_name)


def _contact(session: Session, route: Route) -> Contact | None:
    if route.contact_id is None:
        return None
    of_account = Contact.account_id == route.account.id, Contact.id == route.contact_id
    return session.scalars(select(Contact).where(*of_account)).first()


def _list_name(session: Session, list_id: int | None) -> str | None:
    return None if list_id is None else session.scalar(select(List.name).where(List.id == list_id))


def _of_contact(route: Route, contact: Contact | None, list_name: str | None) -> Iterator[Finding]:
    if route.contact_id is None:
        return
    if contact is None:
        yield Finding(f"The contact {route.contact_id} has been deleted.", prevents=True)
        return
    update = ("contacts", "update", str(contact.id), "--list", str(list_name), *route.in_account)
    if not contact.is_active:
        text = f"The contact {contact.id} of the list {list_name} is not active."
        yield Finding(text, [(*update, "is_active=yes")], prevents=True)
    if route.address is None:
        text = f"The contact {contact.id} of the list {list_name} has no address to send to."
        yield Finding(text, [(*update, f"{route.kind}=ADDRESS")], prevents=True)


def _stored(session: Session, address: AccountAddress) -> list[str]:
    """What stands in suppressions of the address: itself, or its digest if it was forgotten."""
    return [*address_forms(address.key), *find_digests(session, [address])]


def _blocked(session: Session, route: Route, address: AccountAddress) -> Iterator[Finding]:
    of_address = BlockedAddress.account_id == address.account_id, BlockedAddress.address.in_(_stored(session, address))
    entry = session.scalars(select(BlockedAddress).where(*of_address, BlockedAddress.kind == address.kind)).first()
    if entry is None:
        return
    text = f"{address.key} has been blocked since {at(entry.creation_time)} ({entry.reason}): nothing is sent to it."
    bounced = settled_as(RecipientState.BOUNCED), Recipient.creation_time <= entry.creation_time
    bounces = select(Recipient).where(Recipient.account_id == address.account_id, sent_to(address), *bounced)
    bounce = session.scalars(bounces.order_by(Recipient.creation_time.desc(), Recipient.id.desc()).limit(1)).first()
    if bounce is not None:
        text += f" Before that {bounce.uuid} bounced: {bounce.reason}"
    yield Finding(text, [("suppressions", "unblock", address.key, *route.in_account)], prevents=True)


def _unsubscribed(
    session: Session, route: Route, address: AccountAddress, contact: Contact | None, list_name: str | None
) -> Iterator[Finding]:
    """By an entry of the unsubscribers list for this list or for all, else by the flag of the contact alone."""
    for_list = or_(Unsubscriber.list_id.is_(None), Unsubscriber.list_id == route.list_id)
    entries = (
        select(Unsubscriber)
        .where(Unsubscriber.account_id == address.account_id, Unsubscriber.kind == address.kind)
        .where(Unsubscriber.address.in_(_stored(session, address)), *(() if route.list_id is None else (for_list,)))
        .order_by(Unsubscriber.id)
        .limit(10)
    )
    found = session.scalars(entries).all()
    for entry in found:
        name = None if entry.list_id is None else _list_name(session, entry.list_id)
        where = "account-wide" if name is None else f"in the list {name}"
        text = f"{address.key} has been unsubscribed {where} since {at(entry.creation_time)}."
        of_list = () if name is None else ("--list", name)
        command = ("suppressions", "resubscribe", address.key, *of_list, *route.in_account)
        # Without a list, the entry of one does not keep away what goes to another.
        yield Finding(text, [command], prevents=name is None or route.list_id is not None)
    if contact is not None and not found and not getattr(contact, SUBSCRIBED_COLUMNS[address.kind].key):
        text = f"The contact {contact.id} of the list {list_name} is unsubscribed."
        words = (f"subscribed.{address.kind}=yes", "--list", str(list_name), *route.in_account)
        yield Finding(text, [("contacts", "update", str(contact.id), *words)], prevents=True)
