"""The attributes of an account, for all doors (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.accounts.accounts import DEFAULT_PRIORITY, DEFAULT_ZONE, PRIORITIES, RETENTION_ATTRIBUTES
from app.db.models import Account
from app.resources.definition import Attribute, Choice, Switch, Text, Words

SETTING = "the setting of the service"
RETENTIONS = {
    "retain_content": "content is kept after the last outcome",
    "retain_recipients": "recipients are kept",
    "retain_captured": "captured messages are kept",
    "retain_logs": "the log of webhook deliveries is kept",
    "retain_audit": "the audit log is kept",
}


def _priority(column: Any, messages: str) -> Attribute:
    words = {priority: priority for priority in reversed(PRIORITIES)}
    return Attribute.of(
        column, Choice(words), f"Priority of {messages} if the send sets none", empty_meaning=DEFAULT_PRIORITY
    )


def _retention(key: str) -> Attribute:
    meaning = f"How long {RETENTIONS[key]}"
    return Attribute.of(getattr(Account, key), Text(), meaning, empty_meaning=SETTING, example="7d|off")


ATTRIBUTES: Sequence[Attribute] = (
    Attribute.of(Account.id),
    Attribute.of(Account.name, Text(), "Name", is_required=True),
    Attribute.of(
        Account.owner_email,
        Text(),
        "Email address of the owner, who is responsible for the account",
        empty_meaning="none",
        example="EMAIL",
    ),
    Attribute.of(
        Account.owner_confirmed,
        Switch("owner-unconfirmed"),
        "The owner has confirmed this address (if not, all sends are refused)",
    ),
    Attribute.of(
        Account.allowed_networks,
        Words(),
        "Networks from which keys and sessions work",
        empty_meaning="any",
        example="192.0.2.0/24",
        option="allow-network",
    ),
    Attribute.of(
        Account.default_from_name, Text(), "Name of the default sender of emails", empty_meaning="none", example="NAME"
    ),
    Attribute.of(
        Account.default_from_address,
        Text(),
        "Address of the default sender of emails",
        empty_meaning="none",
        example="EMAIL",
    ),
    Attribute.of(
        Account.brand_name,
        Text(),
        "Brand name on pages for recipients",
        empty_meaning="the name of the account",
        example="NAME",
    ),
    Attribute.of(
        Account.brand_colour, Text(), "Brand colour on pages for recipients", empty_meaning="none", example="#RRGGBB"
    ),
    Attribute.of(
        Account.time_zone,
        Text(),
        "Time zone of times in messages, such as Australia/Brisbane",
        empty_meaning=DEFAULT_ZONE,
        example="NAME",
    ),
    Attribute.of(
        Account.rate_limit,
        Text(),
        "Requests that each key may make, such as 100/minute",
        empty_meaning=SETTING,
        example="N/minute",
    ),
    Attribute.of(Account.track_opens, Switch(), "Track opens of emails"),
    Attribute.of(Account.track_clicks, Switch(), "Track clicks in emails"),
    Attribute.of(Account.machine_events, Switch(), "Send events for opens and clicks by machines, such as scanners"),
    _priority(Account.email_priority, "emails"),
    _priority(Account.sms_priority, "text messages"),
    *(_retention(key) for key in RETENTION_ATTRIBUTES),
    Attribute.of(Account.creation_time),
    Attribute.of(Account.last_modified_time),
    Attribute.of(Account.test_of),
)
"""All, in the order in which they are shown."""
