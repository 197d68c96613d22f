"""Creating and changing stored messages (docs/contacts.md#messages)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from app.addresses import MESSAGE_TYPES, is_valid_email
from app.clock import this_second
from app.content.limits import MAX_BODY_BYTES, MAX_FROM_NAME_LENGTH, MAX_SUBJECT_LENGTH
from app.db.database import Transaction
from app.db.locks import advisory_lock
from app.db.lookup import find_by_name
from app.db.models import Message
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.messages.versions import former_content_of, keep_version
from app.names import check_name, strip_name

ADDRESS_FIELDS = ("from_address", "reply_to", "thumbnail_url")
LONGEST_URL = 2000


def create_message(transaction: Transaction, account_id: int, attributes: Mapping[str, Any]) -> Message:
    """Creates a message. `attributes` are columns of `Message`; `name` and `type` are required.

    Raises `ServiceError`: `conflict` if the name is taken, otherwise like `update_message`.
    """
    attributes = _normalized(attributes)
    for required in ("name", "type"):
        if attributes.get(required) is None:
            raise ServiceError("required", field=required)
    if attributes["type"] not in MESSAGE_TYPES:
        raise ServiceError("invalid_string", field="type", detail=f"{attributes['type']!r} is not one of email, sms")
    _check_free(transaction, account_id, attributes["name"])
    _check(attributes, attributes["type"])
    moment = this_second()
    message = Message(account_id=account_id, creation_time=moment, last_modified_time=moment, **attributes)
    transaction.add(message)
    transaction.flush()
    keep_version(transaction, message, None)
    return message


def update_message(transaction: Transaction, message: Message, attributes: Mapping[str, Any]) -> bool:
    """Changes the given attributes; returns whether any differed. Sends that were accepted keep the old content, and so
    does a version (docs/contacts.md#versions).

    Raises `ServiceError`: `conflict` if the name is taken or the type differs, and the code of an invalid value.
    """
    attributes = _normalized(attributes)
    if attributes.get("type", message.type) != message.type:
        raise ServiceError("conflict", field="type", detail=f"is {message.type} and cannot change")
    if attributes.get("name", message.name) != message.name:
        _check_free(transaction, message.account_id, attributes["name"])
    _check(attributes, message.type)
    former = former_content_of(message)
    differs = apply_changes(message, attributes)
    if differs:
        keep_version(transaction, message, former)
    return differs


def _normalized(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with a trimmed name (docs/contacts.md#messages). An empty address is null, as in a send."""
    name = {"name": strip_name(attributes["name"])} if attributes.get("name") is not None else {}
    return {**attributes, **dict.fromkeys(key for key in ADDRESS_FIELDS if attributes.get(key) == ""), **name}


def _check_free(transaction: Transaction, account_id: int, name: str) -> None:
    advisory_lock(transaction, "names of messages", account_id)
    if find_by_name(transaction, Message, account_id, name) is not None:
        raise ServiceError("conflict", field="name", detail=f"the account already has a message {name!r}")


def _check(attributes: Mapping[str, Any], type_: str) -> None:
    if "name" in attributes:
        check_name(attributes["name"])
    if type_ == "sms" and attributes.get("body_html") is not None:
        raise ServiceError("unexpected_field", field="body_html", detail="an sms has no HTML body")
    _check_lengths(attributes)
    _check_addresses(attributes, type_)
    _check_thumbnail(attributes.get("thumbnail_url"))


def _check_lengths(attributes: Mapping[str, Any]) -> None:
    for attribute, most in (("subject", MAX_SUBJECT_LENGTH), ("from_name", MAX_FROM_NAME_LENGTH)):
        if len(attributes.get(attribute) or "") > most:
            raise ServiceError("too_long", field=attribute, detail=f"has more than {most} characters")
    for attribute in ("body_html", "body_text"):
        if len((attributes.get(attribute) or "").encode()) > MAX_BODY_BYTES:
            raise ServiceError("too_long", field=attribute, detail=f"has more than {MAX_BODY_BYTES} bytes")


def _check_addresses(attributes: Mapping[str, Any], type_: str) -> None:
    # The sender of an sms is checked at each send: it must be approved then.
    for attribute in ("from_address", "reply_to") if type_ == "email" else ():
        address = attributes.get(attribute)
        if address is not None and not is_valid_email(address):
            detail = f"{address!r} is not an email address"
            raise ServiceError("invalid_email_address", field=attribute, detail=detail)


def _check_thumbnail(url: str | None) -> None:
    if url is not None and not _is_url(url):
        raise ServiceError("invalid_url", field="thumbnail_url", detail=f"{url!r} is not an http or https URL")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(text) <= LONGEST_URL and " " not in text
