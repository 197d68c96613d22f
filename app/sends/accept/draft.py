"""A send as a client requests it, and the rules of its body that need no database. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from app.content.limits import MAX_VALUE_LENGTH
from app.recipients.labels import MAX_METADATA_ENTRIES, METADATA
from app.sends.limits import MAX_RECIPIENTS

MessageType = Literal["email", "sms"]
Priority = Literal["high", "normal"]


@dataclass(frozen=True, slots=True)
class AttachmentDraft:
    """`content` is decoded."""

    name: str
    mime_type: str
    content: bytes
    content_id: str | None = None
    """The id by which the HTML of a literal send refers to it."""


@dataclass(frozen=True, slots=True)
class RecipientDraft:
    """A recipient with exactly one of email, mobile and contact_id. `values` are those of its wildcards, without
    nulls."""

    contact_id: int | None
    email: str | None
    mobile: str | None
    values: Mapping[str, str]
    attachments: tuple[AttachmentDraft, ...] = ()
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SendDraft:
    """`type` is the effective one: that of the saved message if the send refers to one
    (docs/sending.md#with-a-message)."""

    type: MessageType
    list_id: int | None
    group_id: int | None
    group_name: str | None
    message_id: int | None
    unsubscribe_type: str | None
    subject: str | None
    from_name: str | None
    from_address: str | None
    reply_to: str | None
    bcc_address: str | None
    priority: Priority | None
    """The priority of the request; None for that of the account for the type."""
    transport: str | None
    """The transport of the request; None for that of the routes."""
    send_at: datetime | None
    """When the messages are to be sent; None for at once."""
    body_html: str | None
    body_text: str | None
    include_unsubscribed: bool
    recipient_data_html_encoded: bool
    track_opens: bool | None
    track_clicks: bool | None
    """Whether opens or clicks are tracked; None for what the account has set."""
    secret_values: frozenset[str]
    """Names of wildcard values that are stored encrypted, in lower case and without `#`."""
    recipients: tuple[RecipientDraft, ...]
    attachments: tuple[AttachmentDraft, ...]
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] | None = None
    """What all recipients have, unless their own replaces it."""
    headers: Mapping[str, str] | None = None
    """Header fields of the mails."""
    literal: bool = False
    """Whether subject and bodies have no wildcards."""

    def metadata_of(self, recipient: RecipientDraft) -> dict[str, str] | None:
        """The metadata of a recipient, in which its own replaces that of the send; None without any."""
        return {**(self.metadata or {}), **(recipient.metadata or {})} or None


DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(SendDraft.__slots__),
    "include_unsubscribed": False,
    "recipient_data_html_encoded": True,
    "secret_values": frozenset(),
    "recipients": (),
    "attachments": (),
    "tags": (),
    "literal": False,
}
"""The attributes of a send that says nothing about them."""
EMAIL_ONLY = (
    *("subject", "from_name", "reply_to", "bcc_address", "body_html"),
    *("recipient_data_html_encoded", "attachments"),
    *("track_opens", "track_clicks", "headers"),
)
"""Attributes of a send that an sms does not have (docs/sending.md#attributes)."""

DESTINATIONS = ("contact_id", "email", "mobile")
RESERVED_VALUE_NAMES = (*DESTINATIONS, "attachments")
"""Attributes of a recipient that are no wildcard values: their numbers stay numbers."""
WILDCARD_NAME = re.compile(r"[A-Za-z0-9_]+")
MAX_NAME_LENGTH = 255
RESERVED_NAME = "id"
"""The wildcard for the contact's id if there is a list (docs/sending.md#wildcard-values)."""


class Violation(NamedTuple):
    """A violated rule: the path to the attribute, the code of the catalogue and, if useful, a more exact text. One
    that `follows` from another error is listed after all others."""

    path: tuple[str | int, ...]
    code: str
    detail: str | None = None
    follows: bool = False


class Limits(NamedTuple):
    """The limits on the attachments of one recipient: their number, and their decoded bytes together."""

    attachments: int
    attachment_bytes: int


def send_errors(body: Mapping[str, Any], type_: MessageType | None) -> Iterator[Violation]:
    """The rules of the send's type; an unknown type has none."""
    if type_ != "sms":
        return
    for name in EMAIL_ONLY:
        if body.get(name) is not None:
            yield Violation((name,), "unexpected_field", f"{name} is for email sends only.")
    if body.get("message_id") is not None and body.get("unsubscribe_type") is not None:
        yield Violation(("unsubscribe_type",), "redundant_unsubscribe_type")


@dataclass(frozen=True, slots=True)
class RecipientRules:
    """The rules for every recipient of a send: they depend on its type, its list, and whether `#name` is allowed."""

    type: MessageType | None
    with_list: bool
    allow_html_marker: bool
    valid_names: set[str] = field(default_factory=set, compare=False)
    """Names already found valid: the recipients of a send nearly always have the same ones."""

    @classmethod
    def of(cls, body: Mapping[str, Any], type_: MessageType | None) -> RecipientRules:
        """`#name` marks a value as HTML if values are plain text, so it is allowed only then."""
        allow_html_marker = type_ != "sms" and body.get("recipient_data_html_encoded") is False
        return cls(type_, body.get("list_id") is not None, allow_html_marker)

    def errors(self, recipient: Mapping[str, Any]) -> Iterator[Violation]:
        """The violations in a recipient's own attributes."""
        yield from self._destination_errors(recipient)
        if self.type == "sms" and recipient.get("attachments") is not None:
            yield Violation(("attachments",), "unexpected_field", "attachments are for email sends only.")

    def _destination_errors(self, recipient: Mapping[str, Any]) -> Iterator[Violation]:
        """Exactly one address or contact, of the send's type (docs/sending.md#recipients)."""
        # An empty string means null (docs/sending.md#recipients). Of two, the second is reported.
        destinations = [name for name in recipient if name in DESTINATIONS and recipient[name] not in (None, "")]
        if len(destinations) > 1:
            yield Violation((destinations[1],), "recipient_destination_ambiguous")
        elif destinations == ["contact_id"]:
            if self.type is not None and not self.with_list:
                # The error of an email send is its missing list; this one follows from it.
                yield Violation(("contact_id",), "recipient_missing_list_id", follows=self.type == "email")
        elif self.type == "email" and destinations != ["email"]:
            yield Violation(("email",), "email_address_missing")
        elif self.type == "sms" and destinations != ["mobile"]:
            yield Violation(("mobile",), "mobile_address_missing")

    def wildcard_error(self, name: str, value: object) -> Violation | None:
        """The violation in a wildcard's name, else in its value (docs/sending.md#wildcard-values)."""
        if name not in self.valid_names:
            if violation := self._name_error(name):
                return violation
            self.valid_names.add(name)
        return None if value is None else _value_error(name, value)

    def _name_error(self, name: str) -> Violation | None:
        bare = name[1:] if self.allow_html_marker and name.startswith("#") else name
        if not WILDCARD_NAME.fullmatch(bare):
            return Violation((name,), "invalid_wildcard_name_characters", self._name_hint(name))
        if self.with_list and bare.lower() == RESERVED_NAME:
            return Violation((name,), "invalid_wildcard_name_reserved")
        if len(bare) > MAX_NAME_LENGTH:
            return Violation((name,), "invalid_wildcard_name_too_long")
        return None

    def _name_hint(self, name: str) -> str | None:
        if name.startswith("#") and WILDCARD_NAME.fullmatch(name[1:]):
            return f"{name}: a name may begin with # only if recipient_data_html_encoded is false."
        return None


def _value_error(name: str, value: object) -> Violation | None:
    """Values are strings, or numbers, which are used as their text (docs/sending.md#wildcard-values)."""
    if type(value) is str and len(value) <= MAX_VALUE_LENGTH and "\x00" not in value:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return Violation((name,), "invalid_string", f"{name} must be a string or a number.")
    if isinstance(value, str) and "\x00" in value:
        return Violation((name,), "invalid_string", f"{name} must not contain the character U+0000.")
    if isinstance(value, str) and len(value) > MAX_VALUE_LENGTH:
        return Violation((name,), "invalid_wildcard_value_too_long")
    return None


def secret_value_errors(
    names: Sequence[str], recipients: Sequence[RecipientDraft], *, with_list: bool
) -> Iterator[Violation]:
    """Each of `secret_values` names a value of at least one recipient, once (docs/secret-values.md)."""
    value_names = (
        {name.removeprefix("#").lower() for recipient in recipients for name in recipient.values} if names else set()
    )
    rules, seen = RecipientRules(None, with_list, allow_html_marker=False), set[str]()
    for index, name in enumerate(names):
        path, key = ("secret_values", index), name.lower()
        if key in RESERVED_VALUE_NAMES:
            yield Violation(path, "invalid_wildcard_name_reserved", f"{name} is not the name of a wildcard value.")
        elif violation := rules.wildcard_error(name, None):
            yield violation._replace(path=path)
        elif key in seen:
            yield Violation(path, "invalid_string", f"{name} occurs twice in secret_values.")
        elif key not in value_names:
            yield Violation(path, "invalid_string", f"No recipient has a value with the name {name}.")
        seen.add(key)


def metadata_errors(shared: Mapping[str, str] | None, recipients: Sequence[RecipientDraft]) -> Iterator[Violation]:
    """A recipient has no more entries together with those of the send than an object may have (docs/tags.md)."""
    for index, recipient in enumerate(recipients):
        count = len({*(shared or ()), *recipient.metadata}) if recipient.metadata else 0
        if count > MAX_METADATA_ENTRIES:
            detail = (
                f"metadata: with that of the send, the recipient would have {count} keys; at most "
                f"{MAX_METADATA_ENTRIES} are accepted."
            )
            yield Violation(("recipients", index, METADATA), "too_long", detail)


def attachment_errors(
    shared: Sequence[AttachmentDraft], recipient_files: Sequence[Sequence[AttachmentDraft]], limits: Limits
) -> Iterator[Violation]:
    """Names are unique per recipient, and the attachments of one recipient stay within the limits
    (docs/sending.md#attachments).

    `shared` are the attachments of the send, `recipient_files` those of each recipient. An error of the shared
    ones is reported once, not again for each recipient.
    """
    yield from _duplicate_names(shared, frozenset(), ("attachments",))
    names, count, size = frozenset(file.name for file in shared), len(shared), _total_size(shared)
    excess = _limit_detail(count, size, limits)
    if excess:
        yield Violation(("attachments",), "too_long", excess)
    for index, files in enumerate(recipient_files):
        if files:
            path = ("recipients", index, "attachments")
            yield from _duplicate_names(files, names, path)
            own_excess = _limit_detail(count + len(files), size + _total_size(files), limits)
            if own_excess and not excess:
                yield Violation(path, "too_long", own_excess)


def _duplicate_names(
    files: Sequence[AttachmentDraft], names: frozenset[str], path: tuple[str | int, ...]
) -> Iterator[Violation]:
    seen = set(names)
    for index, file in enumerate(files):
        if file.name in seen:
            detail = f"name: another attachment of this recipient has the name {file.name}."
            yield Violation((*path, index, "name"), "invalid_attachment_name", detail)
        seen.add(file.name)


def _total_size(files: Sequence[AttachmentDraft]) -> int:
    return sum(len(file.content) for file in files)


def _limit_detail(count: int, size: int, limits: Limits) -> str | None:
    if count > limits.attachments:
        return f"attachments: a recipient would get {count} files; at most {limits.attachments} are accepted."
    if size > limits.attachment_bytes:
        return f"attachments: a recipient would get {size} bytes; at most {limits.attachment_bytes} are accepted."
    return None


class NumberText(str):
    """The text of a number."""

    __slots__ = ()


def with_number_texts(body: dict[str, Any], source: bytes) -> dict[str, Any]:
    """The body with the recipients' numbers, except `contact_id`, replaced by their texts. `source` is the valid JSON
    that the body was parsed from.

    Linear in the source: this parser converts no text to a number, however long it is.
    """
    recipients = body.get("recipients")
    if (
        not isinstance(recipients, list)
        or len(recipients) > MAX_RECIPIENTS
        or not _has_lossy_numbers(recipients, source)
    ):
        return body  # too many recipients are refused anyway
    # A body that nests too deeply for this parser is refused anyway, because of what it nests.
    with suppress(RecursionError):
        written = json.loads(source.decode(), parse_int=NumberText, parse_float=NumberText)["recipients"]
        return {**body, "recipients": list(map(_with_number_texts, recipients, written))}
    return body


def _has_lossy_numbers(recipients: list[Any], source: bytes) -> bool:
    """Whether the text of any number is lost: of floats, and of the integer `-0`, which is parsed as 0."""
    objects = [recipient for recipient in recipients if type(recipient) is dict]
    types = {type(value) for recipient in objects for value in recipient.values()}
    if float in types:
        return True
    may_be_zero = int in types and b"-0" in source
    return may_be_zero and any(
        type(value) is int and value == 0 for recipient in objects for value in recipient.values()
    )


def _with_number_texts(recipient: Any, written: Any) -> Any:
    if not isinstance(recipient, dict):
        return recipient
    return {name: _text_of(name, value, written) for name, value in recipient.items()}


def _text_of(name: str, value: Any, written: Mapping[str, Any]) -> Any:
    text = written[name]
    return str(text) if isinstance(text, NumberText) and name not in RESERVED_VALUE_NAMES else value
