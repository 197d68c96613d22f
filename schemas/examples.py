"""Examples of request bodies in the OpenAPI description. A test sends each of them (docs/openapi.md#examples)."""

from __future__ import annotations

from typing import Any


def _example(summary: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "value": value}


SENDS = {
    "email": _example(
        "An email to contacts of a list",
        {
            "type": "email",
            "list_id": 1,
            "group_name": "Password resets",
            "subject": "Your new password, %%first_name**friend%%",
            "from_name": "Acme",
            "from_address": "hello@acme.example",
            "body_html": '<p>Choose it within the hour: <a href="%%link%%">new password</a></p>',
            "body_text": "Choose it within the hour: %%link%%",
            "include_unsubscribed": True,
            "secret_values": ["link"],
            "recipients": [{"email": "ann@example.com", "link": "https://acme.example/reset/41"}],
        },
    ),
    "sms": _example(
        "A text message",
        {
            "type": "sms",
            "group_name": "Sign-in codes",
            "unsubscribe_type": "none",
            "from_address": "61400000001",
            "body_text": "Your code is %%code%%.",
            "secret_values": ["code"],
            "recipients": [{"mobile": "61411111111", "code": "482913"}],
        },
    ),
}
NEW_CONTACTS = {
    "one": _example(
        "One contact; `first_name` is a list field",
        {"email": "ann@example.com", "first_name": "Ann", "subscribed": {"email": True}},
    ),
    "many": _example(
        "Several contacts",
        {"contacts": [{"email": "ben@example.com"}, {"email": "cleo@example.com", "is_active": True}]},
    ),
}
CHANGED_CONTACT = {"one": _example("Null clears an attribute", {"first_name": None, "is_active": True})}
CHANGED_CONTACTS = {
    "many": _example("Contacts by id", {"contacts": [{"id": 1, "double_opt_in": True}, {"id": 2, "is_active": False}]})
}
CANCELLATION = {
    "uuids": _example("Two messages", {"uuids": [f"0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a{n}" for n in (10, 11)]}),
    "filters": _example("All that the filters in the query find", {}),
}
NEW_SUPPRESSIONS = {
    "one": _example(
        "An address that is blocked", {"state": "blocked", "email": "ann@example.com", "reason": "left us"}
    ),
    "many": _example(
        "The list of another provider",
        {
            "suppressions": [
                {"state": "blocked", "email": "ben@example.com", "reason": "complaint"},
                {"state": "unsubscribed", "email": "cleo@example.com"},
                {"state": "unsubscribed", "mobile": "61411111111", "list_id": 1},
            ]
        },
    ),
}
RESUMPTION = {"shift": _example("Everything that is held moves by the length of the pause", {"held": "shift"})}
DEFINITIONS = {
    "standard": _example(
        "A welcome mail two hours after a contact was created",
        {
            "name": "Welcome",
            "kind": "standard",
            "list": "Customers",
            "trigger": "When a Contact is created from the REST API",
            "after": "2 hours",
            "message": "Welcome",
        },
    )
}
MANAGEMENT = {
    "lists": {
        "one": _example(
            "A list with two fields",
            {
                "name": "Members",
                "fields": [
                    {"name": "Email", "type": "Email"},
                    {"name": "Plan", "type": "Dropdown", "options": ["free"]},
                ],
            },
        )
    },
    "messages": {
        "one": _example(
            "A mail",
            {
                "name": "Receipt",
                "type": "email",
                "subject": "Your receipt",
                "body_text": "You paid %%amount**nothing%%.",
            },
        )
    },
    "preview": {
        "one": _example("For one recipient", {"recipients": [{"email": "ann@example.com", "amount": "12.50"}]}),
    },
    "webhooks": {
        "one": _example(
            "A webhook for the events of messages", {"url": "https://acme.example/events", "events": ["recipient"]}
        )
    },
    "domains": {"one": _example("A domain", {"name": "news.acme.example"})},
    "keys": {"one": _example("A key that sends", {"name": "shop", "access_level": "standard"})},
    "changed lists": {"one": _example("One more field", {"fields": [{"name": "Points", "type": "Number"}]})},
    "changed messages": {"one": _example("Another subject", {"subject": "Thank you"})},
    "changed webhooks": {"one": _example("Events of contacts, too", {"events": ["recipient", "contact"]})},
    "changed domains": {"one": _example("A host of its own for links", {"tracking_host": "go.news.acme.example"})},
    "changed senders": {"one": _example("For any list", {"list_id": None, "note": "Parcel tracking"})},
    "changed keys": {"one": _example("Another level", {"access_level": "limited"})},
    "secret": {"one": _example("A generated secret", {})},
    "selector": {"one": _example("A selector of your own", {"selector": "autumn-2026"})},
    "rotation": {"one": _example("The old token works for one more day", {"overlap_hours": 24})},
}
"""Bodies for keys of the level manager."""
