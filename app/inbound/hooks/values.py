"""Values of events, which may have any type: relays change their formats. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

from app.errors import ServiceError
from app.inbound.email.delivery_status import UNSPECIFIC, failure_status, status_in
from app.inbound.email.fields import one_line

Fields = Mapping[str, Any]

NOT_ATTEMPTED = "4.7.0"
"""The relay did not attempt delivery, because of its own suppression list or rules; the address may be valid."""
METADATA = "tmsuuid"
"""The name under which our mails carry their uuid as metadata of the relay (docs/transports.md#relay-metadata)."""
MAX_EVENTS = 10_000
"""Events of one request."""
_UUID = re.compile(r"<?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:@|$)", re.ASCII | re.IGNORECASE)


def text_of(fields: Fields, name: str) -> str:
    """A text of the fields; empty if it is absent, and for anything else but a number."""
    value = fields.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def fields_of(fields: Fields, name: str) -> Fields:
    """An object of the fields; empty if it is anything else."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def objects_of(values: object) -> list[Fields]:
    """The objects of an array. Raises `ServiceError` (`invalid_request`) for anything else than an array, and for one
    that is too long."""
    if not isinstance(values, list):
        raise ServiceError("invalid_request", detail="The body must be an array of events.")
    if len(values) > MAX_EVENTS:
        detail = f"The body holds more than {MAX_EVENTS} events; spread them over several requests."
        raise ServiceError("invalid_request", detail=detail)
    return [value for value in values if isinstance(value, dict)]


def uuid_in(text: str) -> str | None:
    """The recipient's uuid in a Message-ID of ours, or in metadata; None for another text."""
    found = _UUID.match(text)
    return found[1].lower() if found else None


def diagnostic(text: str) -> str:
    """The reply of a mail server, without the type before it (`smtp; 550 …`)."""
    line = one_line(text)
    return line.partition(";")[2].strip() if line.lower().startswith("smtp;") else line


def address_of(text: str) -> frozenset[str]:
    """The address that an event names, as a report compares it."""
    return frozenset({text.lower()} - {""})


def hard_status(status: str, detail: str, meaning: str = UNSPECIFIC) -> str:
    """The code of a failure that the relay calls permanent; `meaning` is the one of what the relay calls it, for a
    failure that has none."""
    found = _of_class("5", status, detail)
    return meaning if found == UNSPECIFIC else found


def soft_status(status: str, detail: str) -> str:
    """The code of a failure that the relay calls temporary, or does not blame on the address."""
    return _of_class("4", status, detail)


def _of_class(digit: str, status: str, detail: str) -> str:
    """The relay knows the bounces of a provider better than the code that this answered."""
    found = failure_status(status_in(status), detail)
    return f"{digit}{found[1:]}"


def fingerprint_of(relay: str, own_id: str, event: Fields) -> str:
    """The same for each copy of an event: made of the id that the relay gave it, else of all its values."""
    text = own_id.encode() or orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
    return f"{relay} {hashlib.sha256(text).hexdigest()}"
