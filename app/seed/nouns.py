"""The shape of every noun of a seed file: which keys it has, and what their values are."""

from __future__ import annotations

from typing import Any

from app.seed.automations import automation
from app.seed.shape import Check, Record, SeedError, each, flag, moment, nullable, number, text

DEFAULT_FROM = Record({"address": text}, {"name": nullable(text)})
KEY = Record({"name": text}, {"access_level": text, "token": text, "expires": nullable(moment), "test": flag})
SENDER = Record(
    {"address": text, "kind": text},
    {"list": nullable(text), "messages_per_second": nullable(number), "shared": flag},
)
FIELD = Record({"name": text, "type": text}, {"options": each(text)})
SECRET = Record({"id": text, "secret": text})
CHOSEN = nullable(each(text))
WEBHOOK = Record({"url": text}, {"secrets": each(SECRET), "events": CHOSEN, "lists": CHOSEN, "test": flag})
MESSAGE = Record(
    {"name": text, "type": text},
    dict.fromkeys(
        ("subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_html", "body_text"), nullable(text)
    ),
)
DKIM_KEY = Record({"selector": text, "private_key": text})
DOMAIN = Record(
    {"name": text},
    {
        "selector": text,
        "keys": each(DKIM_KEY),
        "tracking_host": nullable(text),
        "return_path_host": nullable(text),
    },
)
SUBSCRIBED = Record({}, {"email": flag, "mobile": flag})


def contact(value: Any, path: str) -> dict[str, Any]:
    """A contact. Its other keys are those of the list's fields, which only the database may know."""
    if not isinstance(value, dict):
        raise SeedError(path, "must be a mapping of the contact's attributes")
    return value


def domain(value: Any, path: str) -> dict[str, Any]:
    """A sending domain: its name, or a mapping with it."""
    return {"name": text(value, path)} if not isinstance(value, dict) else DOMAIN(value, path)


def one_address(optional: dict[str, Check]) -> Check:
    """An entry that names either an email or a mobile."""
    record = Record({}, {"email": nullable(text), "mobile": nullable(text), **optional})

    def entry(value: Any, path: str) -> dict[str, Any]:
        checked = record(value, path)
        if (checked.get("email") is None) == (checked.get("mobile") is None):
            raise SeedError(path, "must name either an email or a mobile")
        return checked

    return entry


LIST = Record(
    {"name": text},
    {
        "system": flag,
        "allow_duplicates": flag,
        "stop_words": each(text),
        "fields": each(FIELD),
        "contacts": each(contact),
    },
)
ACCOUNT = Record(
    {"name": text},
    {
        "owner_email": nullable(text),
        "owner_confirmed": flag,
        "allowed_networks": each(text),
        "time_zone": text,
        "default_from": nullable(DEFAULT_FROM),
        "rate_limit": nullable(text),
        "track_opens": flag,
        "track_clicks": flag,
        "machine_events": flag,
        "email_priority": text,
        "sms_priority": text,
        "retain_content": nullable(text),
        "retain_recipients": nullable(text),
        "retain_captured": nullable(text),
        "retain_logs": nullable(text),
        "retain_audit": nullable(text),
        "brand_name": nullable(text),
        "brand_colour": nullable(text),
        "keys": each(KEY),
        "domains": each(domain),
        "sms_senders": each(SENDER),
        "unsubscribers": each(one_address({"list": nullable(text)})),
        "blocked": each(one_address({"reason": text})),
        "lists": each(LIST),
        "messages": each(MESSAGE),
        "webhooks": each(WEBHOOK),
        "automations": each(automation),
    },
)
TRANSPORT = Record(
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
ROUTE = Record(
    {"name": text, "transports": each(text)},
    {
        "type": text,
        "account": nullable(text),
        "sender_domain": nullable(text),
        "country_prefixes": each(text),
        "priority": nullable(text),
    },
)
FILE = Record({}, {"accounts": each(ACCOUNT), "transports": each(TRANSPORT), "routes": each(ROUTE)})
