"""The automation of each account of the suite: contacts of its second list go through a series with three messages, a
wait that an outcome ends, a wait for a minute, a call and a change."""

from __future__ import annotations

from typing import Any

LIST = "Series"
FIELDS = (("Email", "Email"), ("First Name", "First Name"), ("Progress", "Text Field"))
SENDING = ("hello", "again", "last")
"""The steps that send; the subjects of their messages are the same."""
PASSED = (
    *(("hello", "done"), ("arrived", "then"), ("again", "done"), ("a minute", "done")),
    *(("last", "done"), ("tell", "done"), ("mark", "done")),
)
"""What each run passes, in this order."""


def automation(webhook: str) -> dict[str, Any]:
    """The definition; the webhook belongs to the account."""
    return {
        "name": LIST,
        "kind": "advanced",
        "list": LIST,
        "trigger": "REST API Contact Created",
        "again": "never",
        "steps": [
            {"name": "hello", "send": "hello"},
            {
                "name": "arrived",
                "branch": {"step": "hello", "did": "delivered", "within": "1 hour"},
                "then": [{"name": "again", "send": "again"}],
            },
            {"name": "a minute", "wait": "1 minute"},
            {"name": "last", "send": "last"},
            {"name": "tell", "call": webhook},
            {"name": "mark", "set": {"progress": "done"}},
        ],
    }


def messages(from_address: str) -> list[dict[str, str]]:
    """What it sends; the relay looks for the name in the text."""
    text = {"from_name": "Series", "from_address": from_address, "body_text": "This is for %%first_name%%."}
    return [{"name": name, "type": "email", "subject": name, **text} for name in SENDING]
