"""The list of places where something about people is held (docs/privacy.md#what-is-held-about-a-person).

In the order of erasing: first what is found only by what the later ones hold. Contacts and suppressions come last, so
that a run which was interrupted finds the person again. A test checks that each column of text of the database is
either in one of these places or in `impersonal.IMPERSONAL`.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.privacy.events import erase_events, erase_requests, read_events, read_requests
from app.privacy.place import Place
from app.privacy.recipients import erase_received, erase_replied, read_received, read_replied
from app.privacy.small_places import (
    erase_answers,
    erase_bounces,
    erase_contacts,
    erase_replies,
    erase_suppressions,
    read_answers,
    read_bounces,
    read_contacts,
    read_replies,
    read_suppressions,
)

PLACES = (
    Place(
        "events",
        "events that wait for webhooks, or are kept to be sent again",
        {"events": ("payload",)},
        read_events,
        erase_events,
        is_searched=True,
    ),
    Place(
        "webhook_requests",
        "what receivers of events have answered",
        {"webhook_attempts": ("detail", "answer")},
        read_requests,
        erase_requests,
        is_searched=True,
    ),
    Place(
        "stored_answers",
        "answers kept for idempotency keys",
        {"idempotency_records": ("key", "body")},
        read_answers,
        erase_answers,
        is_searched=True,
    ),
    Place(
        "parts_of_replies",
        "parts of long replies by text message",
        {"reply_parts": ("mobile", "body")},
        read_replies,
        erase_replies,
    ),
    Place("soft_bounces", "the count of soft bounces", {"soft_bounces": ("address",)}, read_bounces, erase_bounces),
    Place(
        "named_in_sends",
        "sends to others with the address for replies or for a blind copy",
        {"sends": ("reply_to", "bcc_address")},
        read_replied,
        erase_replied,
    ),
    Place(
        "recipients",
        "messages to the person: address, values, timeline, attachments, content, and what test keys have captured",
        {
            "recipients": ("email", "mobile", "values", "reason", "gateway_id"),
            "recipient_steps": ("detail", "note", "country"),
            "send_queue": ("secret_values",),
            "attachments": ("name", "mime_type", "content_id", "content"),
            "sends": ("subject", "body_html", "body_text"),
            "send_links": ("url",),
            "captured_messages": ("sender", "address", "subject", "content", "uuid", "simulates", "type"),
        },
        read_received,
        erase_received,
        files="messages in the folders of `file://` transports; journals of senders",
    ),
    Place(
        "contacts",
        "contacts with their list fields",
        {"contacts": ("email", "email_key", "mobile", "identifier", "values")},
        read_contacts,
        erase_contacts,
    ),
    Place(
        "suppressions",
        "unsubscribed and blocked addresses",
        {"unsubscribers": ("address",), "blocked_addresses": ("address", "reason", "reply")},
        read_suppressions,
        erase_suppressions,
    ),
)


# What is removed of a person, in words. Pure.

ONE = {
    **{"answers of receivers": "answer of a receiver", "counts of bounces": "count of bounces"},
    **{"parts of replies": "part of a reply", "contents of sends": "content of a send"},
    **{"messages not sent": "message not sent", "sends that named the address": "send that named the address"},
    "named in sends": "named in sends",
}
"""What is counted -> what one of it is called, where that is more than the letter at the end."""


def counted(counts: Mapping[str, int]) -> str:
    """The numbers with their nouns."""
    return ", ".join(_with_noun(count, name.replace("_", " ")) for name, count in counts.items())


def _with_noun(count: int, noun: str) -> str:
    return f"{count} {ONE.get(noun, noun.removesuffix('s')) if count == 1 else noun}"
