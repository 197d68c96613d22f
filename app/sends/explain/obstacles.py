"""What keeps messages from an address now: what makes them wait, and what of the address and of the contact has them
skipped (docs/delivery.md#skipped-recipients)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import List, Recipient
from app.recipients.conditions import settled_as
from app.recipients.filters import sent_to
from app.recipients.states import FailReason, RecipientState
from app.sends.explain.waits import Finding, Route, at, waits
from app.sends.skipping import Entry, Skip, load_suppressions, skips

MAX_LISTS = 10
"""Lists from which an address is unsubscribed that are named where the message has none."""


def obstacles(session: Session, route: Route) -> Iterator[Finding]:
    """What would keep a further message from its address; what makes it wait comes first."""
    yield from waits(session, route)
    suppressions = load_suppressions(session, [route.address], has_digests=route.account.has_digests)
    includes_unsubscribed = route.send is not None and route.send.include_unsubscribed
    possible_skips = skips(
        route.address,
        route.contact,
        suppressions,
        list_id=route.list_id,
        names_contact=route.contact_id is not None,
        include_unsubscribed=includes_unsubscribed,
        is_test=route.account.test_of is not None,
    )
    for skip in possible_skips:
        yield from _findings(session, route, skip)
    if route.list_id is None and not includes_unsubscribed:
        list_entries = sorted(entry for entry in suppressions.unsubscribed.values() if entry.list_id is not None)
        yield from (_unsubscribed(session, route, entry) for entry in list_entries[:MAX_LISTS])


def _findings(session: Session, route: Route, skip: Skip) -> Iterator[Finding]:
    match skip:
        case Skip(FailReason.CONTACT_DELETED):
            yield Finding(f"The contact {route.contact_id} has been deleted.", prevents=True)
        case Skip(FailReason.CONTACT_INACTIVE):
            yield _contact_finding(session, route, "is not active", "is_active=yes")
        case Skip(FailReason.ADDRESS_MISSING) if route.contact is not None:
            yield _contact_finding(session, route, "has no address to send to", f"{route.kind}=ADDRESS")
        case Skip(FailReason.BLOCKED, Entry() as entry):
            yield _blocked(session, route, entry)
        case Skip(FailReason.UNSUBSCRIBED, Entry() as entry):
            yield _unsubscribed(session, route, entry)
        case Skip(FailReason.UNSUBSCRIBED):
            yield _contact_finding(session, route, "is unsubscribed", f"subscribed.{route.kind}=yes")


def _contact_finding(session: Session, route: Route, state: str, remedy: str) -> Finding:
    name = str(_list_name(session, route.list_id))
    command = ("contacts", "update", str(route.contact_id), "--list", name, *route.in_account, remedy)
    return Finding(f"The contact {route.contact_id} of the list {name} {state}.", [command], prevents=True)


def _list_name(session: Session, list_id: int | None) -> str | None:
    return None if list_id is None else session.scalar(select(List.name).where(List.id == list_id))


def _blocked(session: Session, route: Route, entry: Entry) -> Finding:
    address = entry.address
    text = f"{address.key} has been blocked since {at(entry.since)} ({entry.cause}). It gets no messages."
    bounced = settled_as(RecipientState.BOUNCED), Recipient.creation_time <= entry.since
    bounces = select(Recipient).where(Recipient.account_id == address.account_id, sent_to(address), *bounced)
    bounce = session.scalars(bounces.order_by(Recipient.creation_time.desc(), Recipient.id.desc()).limit(1)).first()
    if bounce is not None:
        text += f" Before that, {bounce.uuid} bounced: {bounce.reason}"
    return Finding(text, [("suppressions", "unblock", address.key, *route.in_account)], prevents=True)


def _unsubscribed(session: Session, route: Route, entry: Entry) -> Finding:
    """An address that is unsubscribed. An entry of one list does not prevent a message that goes to another list."""
    key, name = entry.address.key, _list_name(session, entry.list_id)
    where = "account-wide" if name is None else f"in the list {name}"
    list_option = () if name is None else ("--list", name)
    command = ("suppressions", "resubscribe", key, *list_option, *route.in_account)
    text = f"{key} has been unsubscribed {where} since {at(entry.since)}."
    return Finding(text, [command], prevents=entry.list_id in (None, route.list_id))
