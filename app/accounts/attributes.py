"""The attributes of an account, for all doors (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Sequence

from app.accounts.accounts import PRIORITIES, RETENTION_ATTRIBUTES
from app.db.models import Account
from app.resources.definition import Attribute, Choice, Kind, Lines, Switch, Text

SETTING = "the setting of the service"
RETENTIONS = {
    "retain_content": "content is kept after the last outcome",
    "retain_recipients": "recipients are kept",
    "retain_captured": "captured messages are kept",
    "retain_logs": "the log of webhook deliveries is kept",
    "retain_audit": "the audit log is kept",
}


def _attribute(key: str, kind: Kind, meaning: str, empty: str | None = None, example: str = "") -> Attribute:
    return Attribute(
        key=key, column=getattr(Account, key), kind=kind, meaning=meaning, empty_meaning=empty, example=example
    )


def _priority(key: str, messages: str) -> Attribute:
    words = {priority: priority for priority in reversed(PRIORITIES)}
    return _attribute(key, Choice(words), f"Priority of {messages} if the send sets none", "normal")


def _retention(key: str) -> Attribute:
    return _attribute(key, Text(), f"How long {RETENTIONS[key]}", SETTING, "7d|off")


ATTRIBUTES: Sequence[Attribute] = (
    Attribute(key="id", column=Account.id),
    Attribute(key="name", column=Account.name, kind=Text(), meaning="Name", is_required=True),
    _attribute("owner_email", Text(), "Email address of the owner, who answers for the account", "none", "EMAIL"),
    _attribute("owner_confirmed", Switch(), "The owner has confirmed this address (if not, all sends are refused)"),
    _attribute("allowed_networks", Lines(), "Networks from which keys and sessions work", "any", "192.0.2.0/24"),
    _attribute("default_from_name", Text(), "Name of the default sender of emails", "none", "NAME"),
    _attribute("default_from_address", Text(), "Address of the default sender of emails", "none", "EMAIL"),
    _attribute("brand_name", Text(), "Brand name on pages for recipients", "the name of the account", "NAME"),
    _attribute("brand_colour", Text(), "Brand colour on pages for recipients", "none", "#RRGGBB"),
    _attribute("time_zone", Text(), "Time zone of times in messages, such as Australia/Brisbane", "UTC", "NAME"),
    _attribute("rate_limit", Text(), "Requests that each key may make, such as 100/minute", SETTING, "N/minute"),
    _attribute("track_opens", Switch(), "Track opens of emails"),
    _attribute("track_clicks", Switch(), "Track clicks in emails"),
    _attribute("machine_events", Switch(), "Send events for opens and clicks by machines, such as scanners"),
    _priority("email_priority", "emails"),
    _priority("sms_priority", "text messages"),
    *(_retention(key) for key in RETENTION_ATTRIBUTES),
    Attribute(key="creation_time", column=Account.creation_time),
    Attribute(key="last_modified_time", column=Account.last_modified_time),
    Attribute(key="test_of", column=Account.test_of),
)
"""All, in the order in which they are shown."""
