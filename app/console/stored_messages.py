"""Stored messages: finding one, what it would look like, and a test of it
(docs/console-contents.md#stored-messages).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import List, Message
from app.db.public_ids import has_id
from app.errors import ServiceError
from app.ids import existing, shown_id
from app.names import LONGEST_NAME
from app.sends.accept.accept import LoadDraft, SendRequest, accept
from app.sends.accept.content import effective_content, find_saved_message
from app.sends.accept.draft import Limits
from app.sends.dry_run.dry_run import Preview, preview
from app.services import Services

PATH = "/console/stored-messages"
VERSIONS = "contact.view"
"""The scope of versions: keys of the level standard have it."""
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "email": (
        *("name", "subject", "from_name", "from_address", "reply_to", "thumbnail_url"),
        *("body_html", "body_text"),
    ),
    "sms": ("name", "from_address", "body_text"),
}
"""Type -> the attributes that are written."""
LONGEST_VALUES = 100_000
"""Characters of the JSON object with values."""
MAX_LINES = 2000
"""Lines of each body that the page of a version shows."""
CONTENT_FIELDS = ("subject", "from_name", "from_address", "reply_to", "body_html", "body_text")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who a message is shown for, as a form says it: an address, a list by its name or id, and the values of wildcards
    as a JSON object. Each may be empty."""

    list: str = ""
    address: str = ""
    values: str = ""


def find_message(session: Session, account_id: int | None, message_id: int) -> Message:
    """The account's message with the id that everybody outside sees, or that of any account for None. Raises
    `not_found`."""
    statement = select(Message).where(Message.id == message_id)
    if account_id is not None:
        statement = select(Message).where(has_id(Message, account_id, message_id))
    return existing(session.scalars(statement).first(), "message", message_id)


def preview_message(
    services: Services,
    message: Message,
    written: Mapping[str, str | None],
    reader: Reader,
    *,
    load: LoadDraft,
    request_id: str,
) -> Preview:
    """What the message would look like with the content that somebody has written. `load` validates the body of a send.
    Raises `ServiceError` for content, a list or values that no send may have."""
    content = {name: text for name, text in written.items() if name in CONTENT_FIELDS}
    with services.database.read() as session:
        list_id = _list(session, message.account_id, reader.list)
    return preview(
        services,
        message.account_id,
        message.type,
        content,
        list_id=list_id,
        recipient=_recipient(message, reader),
        load=load,
        request_id=request_id,
    )


def send_test(
    transaction: Transaction,
    services: Services,
    message: Message,
    reader: Reader,
    *,
    load: LoadDraft,
    request_id: str,
) -> str:
    """Sends the message as it is stored, as the API does; returns the uuid of what is sent. Raises what a send
    raises."""
    if not reader.address:
        raise ServiceError("required", field="address", detail="Enter an address to send the test to.")
    account_id, saved = message.account_id, find_saved_message(transaction, message.account_id, message.id)
    body = {
        "type": message.type,
        "list_id": _list(transaction, account_id, reader.list),
        "message_id": message.id,
        "group_name": f"Tests of {message.name}"[:LONGEST_NAME].strip(),
        "recipients": [_recipient(message, reader)],
    }
    limits = Limits(services.settings.max_attachments, services.settings.max_attachment_bytes)
    draft = load(body, saved.type if saved else None, limits)
    content = effective_content(draft, saved)
    return accept(transaction, services, SendRequest(account_id, request_id, draft, saved, content)).uuids[0]


def _list(session: Session, account_id: int, name_or_id: str) -> int | None:
    return shown_id(find_by_name_or_id(session, List, account_id, name_or_id, "list").id) if name_or_id else None


def _recipient(message: Message, reader: Reader) -> dict[str, Any]:
    """The only recipient, as a send has it."""
    kind = ADDRESS_KIND_BY_TYPE[message.type]
    return {**values_of(reader.values), **({kind: reader.address} if reader.address else {})}


def values_of(text: str) -> dict[str, Any]:
    """The values that a form has as a JSON object; numbers as they are written. Raises `invalid_object`."""
    if not text.strip():
        return {}
    if len(text) > LONGEST_VALUES:
        detail = f"The values have more than {LONGEST_VALUES:,} characters."
        raise ServiceError("too_long", field="values", detail=detail)
    try:
        values = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
        json.dumps(values, ensure_ascii=False).encode()  # half a surrogate pair cannot be stored
    except (ValueError, RecursionError) as error:
        raise ServiceError(
            "invalid_object", field="values", detail=f"The values are not valid JSON: {error}."
        ) from None
    if not isinstance(values, dict):
        raise ServiceError("invalid_object", field="values", detail="The values must be a JSON object.")
    return values


def _refuse(constant: str) -> Any:
    """Refuses `NaN` and `Infinity`, which Python would read."""
    raise ValueError(f"{constant} is not a JSON value")
