"""The nouns of a seed file: the shape of each, and seeding those that are short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

from app.accounts import attributes as accounts
from app.accounts.domain_hosts import HOST_PURPOSES, set_hosts
from app.accounts.domains import add_domain_without_keys
from app.accounts.signing_keys import import_key, make_missing_keys
from app.addresses import ADDRESS_KINDS, NormalizedAddress, normalize_address
from app.automations.parse import Draft, read_definition
from app.contacts import upsert
from app.contacts.cells import check_attributes
from app.db.lookup import find_by_name
from app.db.models import List, Message
from app.errors import MAX_LISTED_ERRORS, ServiceError
from app.ids import shown_id
from app.lists import attributes as lists
from app.lists.define import apply_fields, create_list, update_list
from app.lists.find import get_list
from app.messages.define import create_message, update_message
from app.plain_data import Check, Record, each, flag, joined, moment, nullable, number, refuse, text
from app.resources.definition import record_of
from app.runs.define import apply_automation
from app.seed.errors import SeedError, located
from app.seed.report import SeedContext, columns_in
from app.senders import resource as senders


def automation(value: Any, path: str) -> Draft:
    """The definition of an automation; what is wrong with it is reported with what its account does not have."""
    try:
        return read_definition(value)
    except ServiceError as error:
        raise ServiceError.of(
            [
                replace(field_error, field=joined(path, field_error.field) if field_error.field else path)
                for field_error in error.errors
            ]
        ) from None


def apply_automations(context: SeedContext, entries: Sequence[Draft]) -> None:
    """Automations, found by their name; one that differs from its newest version gets another."""
    limit = context.services.settings.max_automations
    for index, draft in enumerate(entries):
        with located(f"{context.path}.automations[{index}]", most=MAX_LISTED_ERRORS):
            row, created, updated = apply_automation(context.transaction, context.account.id, draft, limit)
        context.report.automations.append({"id": row.id, "name": row.name})
        context.report.count("automation", created=created, updated=updated)


RESOURCES = (senders.RESOURCE,)
"""Nouns with a definition, from which their entries are checked and applied."""

_record = partial(Record, null=True)
"""The checks of optional attributes take null: it clears them, or is an empty list."""

SENDER_ATTRIBUTES = {"default_from_name", "default_from_address"}
"""Attributes of an account that a file has together, under `default_from`."""
DEFAULT_FROM = _record({"address": text}, {"name": nullable(text)})
KEY = _record(
    {"name": text},
    {"access_level": text, "token": text, "expires": nullable(moment), "list": nullable(text), "test": flag},
)
FIELD = _record({"name": text, "type": text}, {"options": each(text)})
SECRET = _record({"id": text, "secret": text})
CHOSEN_NAMES = nullable(each(text))
WEBHOOK = _record({"url": text}, {"secrets": each(SECRET), "events": CHOSEN_NAMES, "lists": CHOSEN_NAMES, "test": flag})
MESSAGE = _record(
    {"name": text, "type": text},
    dict.fromkeys(
        ("subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_html", "body_text"), nullable(text)
    ),
)
DKIM_KEY = _record({"selector": text, "private_key": text})
DOMAIN = _record(
    {"name": text},
    {
        "selector": text,
        "keys": each(DKIM_KEY),
        "tracking_host": nullable(text),
        "return_path_host": nullable(text),
    },
)


def contact(value: Any, path: str) -> dict[str, Any]:
    """A contact. Its other keys are those of the list's fields, which only the database may know."""
    if not isinstance(value, dict):
        refuse(path, "invalid_object", "must be a mapping of the contact's attributes")
    return value


def domain(value: Any, path: str) -> dict[str, Any]:
    """A sending domain: its name, or a mapping with it."""
    return {"name": text(value, path)} if not isinstance(value, dict) else DOMAIN(value, path)


def one_address(optional: dict[str, Check]) -> Check:
    """An entry that names either an email or a mobile."""
    record = _record({}, {"email": nullable(text), "mobile": nullable(text), **optional})

    def entry(value: Any, path: str) -> dict[str, Any]:
        checked = record(value, path)
        if (checked.get("email") is None) == (checked.get("mobile") is None):
            refuse(path, "invalid_value", "must name either an email or a mobile")
        return checked

    return entry


LIST = record_of(lists.ATTRIBUTES, {"fields": each(FIELD), "contacts": each(contact)})
ACCOUNT = record_of(
    [attribute for attribute in accounts.ATTRIBUTES if attribute.key not in SENDER_ATTRIBUTES],
    {
        "default_from": nullable(DEFAULT_FROM),
        "keys": each(KEY),
        "domains": each(domain),
        **{resource.seed_key: each(resource.record) for resource in RESOURCES},
        "unsubscribers": each(one_address({"list": nullable(text)})),
        "blocked": each(one_address({"reason": text})),
        "lists": each(LIST),
        "messages": each(MESSAGE),
        "webhooks": each(WEBHOOK),
        "automations": each(automation),
    },
)
TRANSPORT = _record(
    {"name": text},
    {
        "type": text,
        "url": text,
        "enabled": flag,
        "connections": nullable(number),
        "messages_per_second": nullable(number),
        "any_account": flag,
        "accounts": each(text),
    },
)
ROUTE = _record(
    {"name": text, "transports": each(text)},
    {
        "type": text,
        "account": nullable(text),
        "sender_domain": nullable(text),
        "country_prefixes": each(text),
        "priority": nullable(text),
    },
)
FILE = _record({}, {"accounts": each(ACCOUNT), "transports": each(TRANSPORT), "routes": each(ROUTE)})


def checked_file(data: Any) -> dict[str, Any]:
    """The entries of a file by kind. Raises `SeedError` with all that is wrong."""
    with located("", most=MAX_LISTED_ERRORS):
        return FILE(data, "")


Entry = Mapping[str, Any]


def apply_lists(context: SeedContext, entries: Sequence[Entry]) -> list[tuple[str, List, Sequence[Entry]]]:
    """Lists, found by their name, with their fields. Returns path, list and contact entries of each."""
    applied = []
    for index, entry in enumerate(entries):
        path = f"{context.path}.lists[{index}]"
        row = _apply_list(context, entry, path)
        context.report.lists.append({"id": shown_id(row.id), "name": row.name})
        applied.append((path, row, entry.get("contacts", [])))
    return applied


def _apply_list(context: SeedContext, entry: Entry, path: str) -> List:
    attributes = columns_in(entry, List)
    row = find_by_name(context.transaction, List, context.account.id, entry["name"])
    created, updated = row is None, False
    with located(path):
        if row is None:
            row = create_list(context.transaction, context.account.id, attributes)
        else:
            updated = update_list(context.transaction, row, attributes)
        updated |= apply_fields(context.transaction, row, entry.get("fields", []))
    context.report.count("list", created=created, updated=updated)
    return row


def apply_messages(context: SeedContext, entries: Sequence[Mapping[str, Any]]) -> None:
    """Messages, found by their name."""
    for index, entry in enumerate(entries):
        message = find_by_name(context.transaction, Message, context.account.id, entry["name"].strip())
        created, updated = message is None, False
        with located(f"{context.path}.messages[{index}]"):
            if message is None:
                message = create_message(context.transaction, context.account.id, entry)
            else:
                updated = update_message(context.transaction, message, entry)
        context.report.messages.append({"id": shown_id(message.id), "name": message.name})
        context.report.count("message", created=created, updated=updated)


def apply_domains(context: SeedContext, entries: Sequence[Mapping[str, Any]]) -> None:
    """Sending domains, found by their name. They count as verified, and have DKIM keys: those of the file, and
    generated ones where there are none."""
    for index, entry in enumerate(entries):
        _apply_domain(context, entry, f"{context.path}.domains[{index}]")


def _apply_domain(context: SeedContext, entry: Mapping[str, Any], path: str) -> None:
    transaction, secret_key = context.transaction, context.services.settings.secret_key
    with located(path, {"domain": ""}):
        domain, created = add_domain_without_keys(transaction, context.account.id, entry["name"], trusted=True)
    updated = False
    for index, key in enumerate(entry.get("keys", [])):
        with located(f"{path}.keys[{index}]"):
            updated = import_key(transaction, domain, secret_key, key["selector"], key["private_key"]) or updated
    with located(path):
        hosts = {name: entry[name] for name in HOST_PURPOSES if name in entry}
        updated = set_hosts(transaction, domain, hosts, by_operator=True) or updated
        updated = make_missing_keys(transaction, domain, secret_key, entry.get("selector")) or updated
    context.report.count("domain", created=created, updated=updated)


def apply_contacts(
    context: SeedContext, row: List, entries: Sequence[Entry], path: str, unsubscribers: Sequence[Entry]
) -> None:
    """Contacts of a list, found by its unique identifier, including those of a system list.

    A contact with `subscribed: true` must not be among the file's `unsubscribers`: the two would undo each other at
    every load.
    """
    if not entries:
        return
    contact_list = get_list(context.transaction, context.account.id, row.id)
    unsubscribed = _unsubscribed_addresses(context, unsubscribers, row)
    checked = []
    for index, entry in enumerate(entries):
        place = f"{path}.contacts[{index}]"
        attributes, errors = check_attributes(contact_list, {name: _plain(value) for name, value in entry.items()})
        with located(place):
            if errors:
                raise ServiceError.of(errors)
        _check_not_unsubscribed(attributes, unsubscribed, place)
        checked.append(attributes)
    with located(path):
        upserted = upsert.upsert_contacts(context.transaction, contact_list, checked, allow_system=True)
    context.report.created["contact"] += upserted.created
    context.report.updated["contact"] += upserted.updated
    if upserted.left_out:
        context.report.notes.append(
            f"  list {row.name}: contacts left out, because they were forgotten: {upserted.left_out}"
        )


def _plain(value: Any) -> Any:
    """Converts YAML dates to the strings that contacts have."""
    return value.isoformat() if isinstance(value, date) else value


def _unsubscribed_addresses(
    context: SeedContext, unsubscribers: Sequence[Entry], contact_list: List
) -> set[NormalizedAddress]:
    """The addresses that the file unsubscribes from the list, which it names by its name or its id, or from all."""
    names, id_ = {None, contact_list.name}, str(shown_id(contact_list.id))
    if find_by_name(context.transaction, List, context.account.id, id_) is None:
        names.add(id_)
    return {
        normalize_address(kind, entry[kind])
        for entry in unsubscribers
        if entry.get("list") in names
        for kind in ADDRESS_KINDS
        if entry.get(kind) is not None
    }


def _check_not_unsubscribed(attributes: Entry, unsubscribed: set[NormalizedAddress], path: str) -> None:
    for kind, is_subscribed in attributes.get("subscribed", {}).items():
        if (
            is_subscribed
            and attributes.get(kind) is not None
            and normalize_address(kind, attributes[kind]) in unsubscribed
        ):
            raise SeedError(f"{path}.subscribed.{kind}", "is true, but the file names the address under unsubscribers")
