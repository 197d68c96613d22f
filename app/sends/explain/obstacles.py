"""What keeps messages from an address now: of the account, of the address, and of the contact
(docs/delivery.md#skipped-recipients)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, AddressKind, address_forms, domain_of
from app.clock import now
from app.contacts.subscriptions import SUBSCRIBED_COLUMNS
from app.db.address_digests import find_digests
from app.db.models import Account, BlockedAddress, Contact, Domain, DomainBackoff, List, Recipient, Unsubscriber
from app.recipients.conditions import settled_as
from app.recipients.filters import sent_to
from app.recipients.states import RecipientState
from app.sends.explain.finding import Command, Finding, at
from app.sends.outcomes.domain_deferrals import FAILURE_THRESHOLD
from app.sends.outcomes.shown_refusals import shown_refusals
from app.sends.pauses.read import ShownPause, pauses_concerning


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message goes: the address, if it is known, the contact and the list, and the sender of an email.
    `in_account` are the words by which commands name the account."""

    account: Account
    kind: AddressKind
    address: AccountAddress | None
    in_account: Command
    list_id: int | None = None
    contact_id: int | None = None
    sender: str | None = None
    include_unsubscribed: bool = False


def obstacles(session: Session, route: Route) -> Iterator[Finding]:
    """What would keep a further message from its address, the account's own obstacles first."""
    yield from _of_account(route)
    yield from _paused(session, route)
    yield from _refused(session, route)
    yield from _of_sender(session, route)
    contact, list_name = _contact(session, route), _list_name(session, route.list_id)
    yield from _of_contact(route, contact, list_name)
    if route.address is not None:
        yield from _blocked(session, route, route.address)
        if not route.include_unsubscribed:
            yield from _unsubscribed(session, route, route.address, contact, list_name)


def _of_account(route: Route) -> Iterator[Finding]:
    if not route.account.owner_confirmed:
        text = "The account's owner has not confirmed the address, so every send is refused (account_owner_unverified)."
        yield Finding(text, [("accounts", "update", route.account.name, "--owner-confirmed")], prevents=True)


def _of_sender(session: Session, route: Route) -> Iterator[Finding]:
    if route.sender is None:
        return
    name, account_id = domain_of(route.sender), route.account.id
    of_account = Domain.account_id == account_id, Domain.name == name
    domain = session.scalars(select(Domain).where(*of_account)).first()
    if domain is None:
        text = f"The account has no sending domain {name} any more, so new sends from it are refused."
        yield Finding(text, [("domains", "add", name, *route.in_account)], prevents=True)
    elif domain.verified_time is None:
        text = f"The sending domain {name} is not verified, so new sends from it are refused."
        yield Finding(text, [("domains", "verify", name, *route.in_account)], prevents=True)
    if route.address is not None and "@" in route.address.key:
        yield from _backed_off(session, route.account.id, name, domain_of(route.address.key))


def _paused(session: Session, route: Route) -> Iterator[Finding]:
    is_mail = route.address is not None and route.kind == "email"
    domain = domain_of(route.address.key) if is_mail and route.address is not None else None
    for one in pauses_concerning(session, route.account, list_id=route.list_id, domain=domain):
        yield Finding(paused_words(one), [one.resuming])


def _refused(session: Session, route: Route) -> Iterator[Finding]:
    """By relays, which are not for one address to mend."""
    if route.kind != "email":
        return
    for one in shown_refusals(session, route.account.id):
        if one.ended_time is None:
            yield Finding(one.sentence, [one.command("list"), one.command("retry")] if one.bounced else [])


def paused_words(one: ShownPause, *, in_full: bool = True) -> str:
    """What is paused, and in full why and by whom, which is not for accounts to know where it is the operator's
    matter."""
    since = one.since if in_full and not one.is_everywhere else f"since {at(one.creation_time)}"
    return f"{one.subject[0].upper()}{one.subject[1:]} is paused {since}: messages wait until it goes on."


def _backed_off(session: Session, account_id: int, sender: str, domain: str) -> Iterator[Finding]:
    routed = DomainBackoff.account_id == account_id, DomainBackoff.sender_domain == sender
    found = select(DomainBackoff).where(*routed, DomainBackoff.domain == domain)
    backoff = session.scalars(found.where(DomainBackoff.failures >= FAILURE_THRESHOLD)).first()
    if backoff is not None and backoff.until_time > now():
        yield Finding(
            f"All mail from {sender} to {domain} waits until {at(backoff.until_time)}: its mail server has deferred "
            f"{backoff.failures} messages without accepting one (a domain back-off, which ends by itself)."
        )


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
