"""Contacts of a list: searching them, and one with why it gets no messages (docs/console.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, normalize_address
from app.clock import timestamp
from app.console.automation_runs import OnItsWay, runs_of_contact
from app.console.lists import path_of_list
from app.console.messages import search as search_messages
from app.console.queries import Pairs, older_query
from app.console.suppressions import Suppression, suppressions_of
from app.contacts.blocked import BLOCKED
from app.contacts.read import contact_shape, get_contact, page_contacts
from app.db.models import Account
from app.lists.fields import ListSpec
from app.query.conditions import Query
from app.query.cursors import CursorScope
from app.query.grammar import parse_collection
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.secret_keys import SecretKeys
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


def search(
    session: Session, secret_keys: SecretKeys, contact_list: ListSpec, pairs: Pairs, limit: int
) -> tuple[Sequence[Item], Pairs | None]:
    """The contacts of the list that match, the newest first, and the query of older ones. Raises the errors of the
    query. A list with a field of the key `cursor` has no further pages."""
    resource = contact_shape(contact_list.value_fields).resource
    path = path_of_list(contact_list)
    cursors = CursorScope(secret_keys, contact_list.account_id, path).at(path, resource)
    query = replace(parse_collection(pairs, resource, cursors), limit=limit)
    page = page_contacts(session, contact_list, query)
    if cursors is None or not page.ends.has_next:
        return page.items, None
    return page.items, older_query(cursors, pairs, page.ends.next)


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
    pairs = [("contact_id", str(contact_id))]
    viewer, keys = Viewer(True, Redaction.of(settings)), settings.secret_keys
    latest = search_messages(session, keys, account, pairs, viewer=viewer, limit=MOST_MESSAGES)
    own = [Subscription(kind, item[kind], item["subscribed"][kind]) for kind in ADDRESS_KINDS if item[kind] is not None]
    runs = runs_of_contact(session, account.id, contact_list.id, contact_id)
    return OneContact(item, list(_reasons(session, account, contact_list, item)), own, latest.page.items, runs)


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
