"""Contacts of a list: searching them, and one with why it gets no messages (docs/console.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, normalize_address
from app.clock import timestamp
from app.console.automation_runs import OnItsWay, runs_of_contact
from app.console.lists import path_of_list
from app.console.messages import search as search_messages
from app.console.queries import Asked, Found
from app.console.suppressions import Suppression, suppressions_of
from app.contacts.blocked import BLOCKED
from app.contacts.read import contact_shape, get_contact, page_contacts
from app.db.models import Account
from app.lists.fields import ListSpec
from app.query.conditions import Query
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.settings import Settings

Item = Mapping[str, Any]
"""A contact as the API shows it."""

MOST_MESSAGES = 10
"""Of a contact that its page shows."""
MOST_COLUMNS = 3
"""List fields that the table of contacts has."""
HIDDEN = "Password Field"
"""The type of fields whose values are on no table, and behind dots in forms."""


def path_of_contact(contact_list: ListSpec, contact_id: int) -> str:
    """The path of the page of a contact."""
    return f"{path_of_list(contact_list)}/contacts/{contact_id}"


def search(asked: Asked, contact_list: ListSpec) -> Found:
    """The contacts of the list that match, the newest first. Raises the errors of the query."""
    resource = contact_shape(contact_list.value_fields).resource
    return asked.found(
        path_of_list(contact_list), resource, lambda session, _, query: page_contacts(session, contact_list, query)
    )


def columns_of_table(contact_list: ListSpec) -> list[tuple[str, str]]:
    """Key and name of the fields that the table has beside the addresses."""
    shown = [(field.key, field.name) for field in contact_list.value_fields if field.type != HIDDEN]
    return shown[:MOST_COLUMNS]


def state_of(item: Item) -> str:
    """What a contact is, in one word; the first that keeps messages from one of its addresses counts."""
    kinds = [kind for kind in ADDRESS_KINDS if item[kind] is not None]
    if not item["is_active"]:
        return "inactive"
    if any(item["blocked"][kind] for kind in kinds):
        return "blocked"
    if any(not item["subscribed"][kind] for kind in kinds):
        return "unsubscribed"
    return "subscribed" if kinds else "without address"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a contact gets no messages, with the path of its suppression, if that is what keeps them away."""

    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """An address of a contact, and whether it is subscribed to the list."""

    kind: AddressKind
    address: str
    subscribed: bool


@dataclass(frozen=True, slots=True)
class OneContact:
    """A contact with what keeps messages from it, its addresses, its latest messages, and its ways through
    automations that have not ended."""

    item: Item
    reasons: Sequence[Reason]
    subscriptions: Sequence[Subscription]
    messages: Sequence[Mapping[str, Any]]
    runs: Sequence[OnItsWay]


def read_contact(
    session: Session, settings: Settings, account: Account, contact_list: ListSpec, contact_id: int
) -> OneContact:
    """What the page of the contact shows. Raises `not_found`."""
    item = get_contact(session, contact_list, contact_id, Query())
    asked = Asked(session, settings.secret_keys, account, [("contact_id", str(contact_id))], MOST_MESSAGES)
    latest = search_messages(asked, Viewer(True, Redaction.of(settings)))
    own = [Subscription(kind, item[kind], item["subscribed"][kind]) for kind in ADDRESS_KINDS if item[kind] is not None]
    runs = runs_of_contact(session, account.id, contact_list.id, contact_id)
    return OneContact(item, list(_reasons(session, account, contact_list, item)), own, latest.items, runs)


def addresses_of(item: Item) -> list[NormalizedAddress]:
    """The addresses of a contact, as suppressions have them."""
    return [normalize_address(kind, item[kind]) for kind in ADDRESS_KINDS if item[kind] is not None]


def _reasons(session: Session, account: Account, contact_list: ListSpec, item: Item) -> Iterator[Reason]:
    """What keeps messages of this list from the contact: two statements."""
    if not account.owner_confirmed:
        yield Reason("The owner of the account has not confirmed the address, so every send is refused.")
    if not item["is_active"]:
        yield Reason("The contact is not active, so every send to it is skipped.")
    addresses = addresses_of(item)
    if not addresses:
        yield Reason("The contact has no address.")
        return
    found = suppressions_of(session, contact_list.account_id, contact_list.id, addresses)
    for one in found:
        yield Reason(_said(one), one.path)
    unsubscribed = {one.kind for one in found if one.state != BLOCKED}
    for kind in ADDRESS_KINDS:
        if item[kind] is not None and not item["subscribed"][kind] and kind not in unsubscribed:
            yield Reason(f"{item[kind]} is unsubscribed in this contact alone.")


def _said(one: Suppression) -> str:
    since = timestamp(one.creation_time)
    if one.state == BLOCKED:
        return f"{one.address} has been blocked since {since}: {one.reason}."
    where = "all lists" if one.stored_list_id is None else "this list"
    return f"{one.address} has been unsubscribed from {where} since {since}."
