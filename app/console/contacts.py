"""Contacts of a list: searching them, one with why it gets no messages, and its form
(docs/console-contents.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, normalize_address
from app.console.automations import LiveRun, runs_of_contact
from app.console.lists import path_of_list
from app.console.messages import search as search_messages
from app.console.queries import SearchPage, SearchRequest
from app.console.suppressions import path_of_suppression, words_of
from app.contacts.by_hand import ContactActs, ContactAddresses
from app.contacts.cells import FLAGS, contact_from_cells
from app.contacts.read import contact_shape, get_contact, page_contacts
from app.db.models import Account
from app.errors import ServiceError
from app.lists.fields import FieldSpec, ListSpec, ValueType
from app.query.conditions import Query
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.settings import Settings
from app.suppressions.entries import suppressions_of
from app.suppressions.states import BLOCKED

Item = Mapping[str, Any]
"""A contact as the API shows it."""

MAX_MESSAGES = 10
"""How many messages the page of a contact shows."""
MAX_COLUMNS = 3
"""List fields that the table of contacts has."""
HIDDEN_FIELD_TYPE = "Password Field"
"""The type of fields whose values are on no table, and behind dots in forms."""


def path_of_contact(contact_list: ListSpec, contact_id: int) -> str:
    """The path of the page of a contact."""
    return f"{path_of_list(contact_list)}/contacts/{contact_id}"


def search(search_request: SearchRequest, contact_list: ListSpec) -> SearchPage:
    """The contacts of the list that match, the newest first. Raises the errors of the query."""
    resource = contact_shape(contact_list.value_fields).resource
    return search_request.read_page(
        path_of_list(contact_list), resource, lambda session, _, query: page_contacts(session, contact_list, query)
    )


def columns_of_table(contact_list: ListSpec) -> list[tuple[str, str]]:
    """Key and name of the fields that the table has beside the addresses."""
    columns = [(field.key, field.name) for field in contact_list.value_fields if field.type != HIDDEN_FIELD_TYPE]
    return columns[:MAX_COLUMNS]


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
    is_subscribed: bool


@dataclass(frozen=True, slots=True)
class ContactPage:
    """A contact with what keeps messages from it, its addresses, its latest messages, and its ways through
    automations that have not ended."""

    item: Item
    reasons: Sequence[Reason]
    subscriptions: Sequence[Subscription]
    messages: Sequence[Mapping[str, Any]]
    runs: Sequence[LiveRun]


def read_contact(
    session: Session, settings: Settings, account: Account, contact_list: ListSpec, contact_id: int
) -> ContactPage:
    """What the page of the contact shows. Raises `not_found`."""
    item = get_contact(session, contact_list, contact_id, Query())
    search_request = SearchRequest(
        session, settings.secret_keys, account, [("contact_id", str(contact_id))], MAX_MESSAGES
    )
    latest = search_messages(search_request, Viewer(True, Redaction.of(settings)))
    subscriptions = [
        Subscription(kind, item[kind], item["subscribed"][kind]) for kind in ADDRESS_KINDS if item[kind] is not None
    ]
    runs = runs_of_contact(session, account.id, contact_list.id, contact_id)
    return ContactPage(item, list(_reasons(session, account, contact_list, item)), subscriptions, latest.items, runs)


def addresses_of(item: Item) -> list[NormalizedAddress]:
    """The addresses of a contact, as suppressions have them."""
    return [normalize_address(kind, item[kind]) for kind in ADDRESS_KINDS if item[kind] is not None]


def check_kind(item: Item, kind: str) -> None:
    """Raises `invalid_string` unless the contact has an address of that kind."""
    if kind not in ADDRESS_KINDS or item[kind] is None:
        raise ServiceError("invalid_string", field="kind", detail=f"The contact has no address {kind!r}.")


def _reasons(session: Session, account: Account, contact_list: ListSpec, item: Item) -> Iterator[Reason]:
    """What keeps messages of this list from the contact: two statements."""
    if not account.owner_confirmed:
        yield Reason("The account owner has not confirmed the owner's email address. All sends are refused.")
    if not item["is_active"]:
        yield Reason("The contact is not active. Its messages are skipped.")
    addresses = addresses_of(item)
    if not addresses:
        yield Reason("The contact has no address.")
        return
    suppressions = suppressions_of(session, contact_list.account_id, contact_list.id, addresses)
    for suppression in suppressions:
        yield Reason(words_of(suppression), path_of_suppression(suppression))
    unsubscribed = {suppression.kind for suppression in suppressions if suppression.state != BLOCKED}
    for kind in ADDRESS_KINDS:
        if item[kind] is not None and not item["subscribed"][kind] and kind not in unsubscribed:
            yield Reason(f"{item[kind]} is unsubscribed, but only for this contact.")


# The form of a contact: an input for each field of its list, and what it says as text. Pure.

LONG_FIELD_TYPES = ("Comment Field", "HTML Snippet")
"""Types of fields that have several lines."""
KEYBOARDS = {
    ValueType.EMAIL: "email",
    ValueType.MOBILE: "tel",
    ValueType.URL: "url",
    ValueType.NUMBER: "decimal",
}
"""Type of values -> the keyboard of a telephone for it. Browsers that check an address write some domains anew."""


@dataclass(frozen=True, slots=True)
class Input:
    """A field of the form: `kind` is `text`, `date`, `password`, `lines` or `choice`; `options` are those of the list
    field."""

    key: str
    label: str
    kind: str
    value: str
    options: Sequence[str] = ()
    keyboard: str = "text"


def inputs_of(contact_list: ListSpec, item: Item | None, form: Mapping[str, str] | None = None) -> list[Input]:
    """The form of a contact, or of a new one: with what `form` says already, else with the values of the contact."""
    inputs = []
    for field in contact_list.fields:
        if field.is_address or field.key in contact_list.value_keys:
            stored = text_of(None if item is None else item[field.key])
            inputs.append(_input(field, stored if form is None else form.get(field.key, "")))
    return inputs


def _input(field: FieldSpec, value: str) -> Input:
    options = field.options
    if options and field.value_type is ValueType.OPTION and value and value not in options:
        options = (*options, value)  # The option was removed: the value stays until another one is chosen.
    keyboard = KEYBOARDS.get(field.value_type, "text")
    return Input(field.key, field.name, _kind(field, value), value, options, keyboard)


def _kind(field: FieldSpec, value: str) -> str:
    if field.options and field.value_type is ValueType.OPTION:
        return "choice"
    if field.type in LONG_FIELD_TYPES or "\n" in value:
        return "lines"
    if field.value_type is ValueType.DATE:
        return "date"
    return "password" if field.type == HIDDEN_FIELD_TYPE else "text"


def text_of(value: Any) -> str:
    """A value as the form has it; browsers write ends of lines in one way."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value).replace("\r\n", "\n")


def cells_of(contact_list: ListSpec, form: Mapping[str, str]) -> dict[str, str]:
    """What a form says, by attribute."""
    keys = [*(input_.key for input_ in inputs_of(contact_list, None)), *FLAGS]
    return {key: form[key].replace("\r\n", "\n") for key in keys if key in form}


# Creating, changing and deleting contacts in the console, as the API and the command line do
# (docs/console-contents.md#lists-and-contacts).


@dataclass(frozen=True, slots=True)
class ContactChanges:
    """Changes of contacts of a list, as forms say them. All raise the errors of the acts."""

    acts: ContactActs

    @property
    def contact_list(self) -> ListSpec:
        """The list of the contacts."""
        return self.acts.contact_list

    def add(self, cells: Mapping[str, str]) -> int:
        """Creates a contact; returns its id. Raises `required` for a form without any value."""
        attributes = self._attributes(cells, clear=False)
        if not attributes.keys() - FLAGS:
            raise ServiceError("required", detail="Enter an address or another value.")
        return self.acts.create(attributes)

    def write(self, contact_id: int, cells: Mapping[str, str]) -> None:
        """Writes the attributes that differ from those of the contact; an empty one clears."""
        item = self._item(contact_id)
        changed = {key: text for key, text in cells.items() if text != text_of(item[key])}
        if changed:
            self.acts.update(_requested_identifier(item), self._attributes(changed, clear=True))

    def subscribe(self, contact_id: int, kind: str, subscribed: bool) -> None:
        """Subscribes an address of the contact to the list, or unsubscribes it from the list. Raises `invalid_string`
        for one that it does not have."""
        item = self._item(contact_id)
        check_kind(item, kind)
        self.acts.update(_requested_identifier(item), {"subscribed": {kind: subscribed}})

    def remove(self, contact_id: int) -> None:
        """Deletes the contact."""
        self.acts.delete(_requested_identifier(self._item(contact_id)))

    def _item(self, contact_id: int) -> Item:
        return get_contact(self.acts.transaction, self.contact_list, contact_id, Query())

    def _attributes(self, cells: Mapping[str, str], *, clear: bool) -> Mapping[str, Any]:
        attributes, errors = contact_from_cells(self.contact_list, cells, clear=clear)
        if errors:
            raise ServiceError.of(errors)
        return attributes


def _requested_identifier(item: Item) -> ContactAddresses:
    return ContactAddresses(item["id"], item["email"], item["mobile"])
