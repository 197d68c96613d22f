"""Reads a submitted mail: its header, its bodies, and its attachments with the images that the HTML shows. Nothing that
a send can have is lost, and what a send cannot have is refused by its name (docs/smtp-submission.md#the-mail). Pure.
"""

from __future__ import annotations

import hashlib
import html as html_text
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.errors import InvalidBase64LengthDefect, MessageError
from email.generator import BytesGenerator
from email.message import Message
from email.policy import Policy
from io import BytesIO
from itertools import count
from urllib.parse import unquote

from app.content.attachments import (
    common_extension,
    extension_fits,
    is_valid_name,
    media_type,
    plain_type,
)
from app.content.limits import MAX_BODY_BYTES
from app.decoding import decode
from app.errors import CATALOGUE, FieldError, ServiceError
from app.sends.accept.draft import AttachmentDraft, Limits, attachment_errors
from app.submission.fields import Header, decoded, one_line, read_header, refusal

MAX_LINES = 1_000_000
MAX_PARTS = 500
MAX_CONTAINERS = 30
"""Parts that contain others: if nested, each makes parsing the next one more expensive."""
MAX_FIELD_LENGTH = 64 * 1024
MAX_CONTENT_FIELD_LENGTH = 4000
"""Characters of a field such as Content-Type: the library is slow at parsing its parameters."""
CONTAINERS = ("multipart/mixed", "multipart/alternative", "multipart/related")
ENCODINGS = ("", "7bit", "8bit", "binary", "base64", "quoted-printable")
NAME_RULE = CATALOGUE["invalid_attachment_name"].developer_message
BODY_TYPES = ("text/html", "text/plain")
_CONTAINER = re.compile(rb"^content-type:\s*(?:multipart|message)/", re.IGNORECASE | re.MULTILINE)
_REFERENCE = re.compile(r"\bcid:([^\s\"'<>()\\]{1,1000})", re.IGNORECASE)
PARSER_ERRORS = (MessageError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions that the library raises for malformed messages."""


class _LongField(MessageError):
    """A field of the header that is too long."""


class _FieldPolicy(policy.Compat32):
    """The parser's older policy, which returns malformed fields as they are, where the newer ones may fail. The bytes
    of fields are UTF-8 (RFC 6532)."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        most = MAX_CONTENT_FIELD_LENGTH if name.lower().startswith("content-") else MAX_FIELD_LENGTH
        if len(value) > most:
            raise _LongField(f"The field {name[:100]} has more than {most} characters.")
        return name, value

    def header_fetch_parse(self, _name: str, value: str) -> str:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_POLICY = _FieldPolicy()


@dataclass(frozen=True, slots=True)
class SubmittedMail:
    """A mail as its application has written it, and what a send has of it."""

    header: Header
    html: str | None
    text: str | None
    attachments: tuple[AttachmentDraft, ...]


def read_submission(raw: bytes, limits: Limits) -> SubmittedMail:
    """The parts of a mail. Raises `ServiceError` with what it must not contain."""
    message = _parsed(raw)
    try:
        header = read_header(message)
        content = _Content()
        content.add(message, is_alternative=False)
    except PARSER_ERRORS as error:
        raise refusal(f"The mail cannot be read: {type(error).__name__}.") from None
    return SubmittedMail(header, *content.finished(limits))


def _parsed(raw: bytes) -> Message:
    containers = sum(1 for _ in _CONTAINER.finditer(raw))
    if raw.count(b"\n") > MAX_LINES or containers > MAX_CONTAINERS:
        raise refusal(f"The mail has more than {MAX_LINES} lines, or more than {MAX_CONTAINERS} parts that have parts.")
    try:
        return message_from_bytes(raw, policy=_counting_policy())
    except _LongField as error:
        raise refusal(str(error), "too_long") from None
    except PARSER_ERRORS:
        raise refusal("The mail cannot be read: it is no MIME message.") from None


def _counting_policy() -> policy.Compat32:
    """The policy for one mail, which counts its parts, and those of mails attached to it, while they are parsed."""
    numbers = count(1)

    def new_part(policy: Policy[Message]) -> Message:
        if next(numbers) > MAX_PARTS:
            raise refusal(f"The mail has more than {MAX_PARTS} parts.")
        return Message(policy)

    return _POLICY.clone(message_factory=new_part)


@dataclass(slots=True)
class _Content:
    """The bodies and attachments of a mail, while its parts are read."""

    html: str | None = None
    text: str | None = None
    attachments: list[AttachmentDraft] = field(default_factory=list)
    content_ids: dict[str, str] = field(default_factory=dict)
    """Content-ID of the mail -> that of the attachment."""

    def add(self, part: Message, *, is_alternative: bool) -> None:
        """Adds a part with all that it contains."""
        part_type = part.get_content_type()
        if part.get_content_maintype() == "multipart":
            self._add_container(part, part_type)
        elif self._is_body(part, part_type):
            self._add_body(part, part_type)
        elif is_alternative and part.get_content_disposition() is None and not part.get_filename():
            alternatives = "text/plain and text/html are the only alternatives"
            raise refusal(f"The part {part_type} cannot be a body: {alternatives}. Attach it as a file.")
        else:
            self._add_attachment(part, part_type)

    def _add_container(self, part: Message, part_type: str) -> None:
        if part_type not in CONTAINERS:
            raise refusal(f"The part {part_type} cannot be sent; {', '.join(CONTAINERS)} can.")
        # Of a part without others it would be decoded, by whatever charset it names, however long that takes.
        payload = part.get_payload() if part.is_multipart() else None
        if not isinstance(payload, list):
            raise refusal(f"The part {part_type} has no boundary, so its parts cannot be told apart.")
        for each in payload:
            if isinstance(each, Message):
                self.add(each, is_alternative=part_type == "multipart/alternative")

    def _is_body(self, part: Message, part_type: str) -> bool:
        """The first text of each type that is no file."""
        if part_type not in BODY_TYPES or part.get_content_disposition() == "attachment" or part.get_filename():
            return False
        return self.html is None if part_type == "text/html" else self.text is None

    def _add_body(self, part: Message, part_type: str) -> None:
        text = _text(part, part_type)
        if len(text.encode()) > MAX_BODY_BYTES:
            raise refusal(f"The part {part_type} has more than {MAX_BODY_BYTES} bytes in UTF-8.", "too_long")
        if part_type == "text/html":
            self.html = text
        else:
            self.text = text

    def _add_attachment(self, part: Message, part_type: str) -> None:
        number = len(self.attachments) + 1
        charset = one_line(str(part.get_param("charset", "") or ""))
        mime_type = plain_type(f'{part_type}; charset="{charset}"' if charset.isalnum() else part_type) or part_type
        extension = ".eml" if part_type == "message/rfc822" else common_extension(part_type)
        name = decoded(part.get_filename() or "") or f"{part.get_content_maintype()}-{number}{extension}"
        content_id = one_line(str(part.get("Content-ID", ""))).strip("<> ")
        stored_id = _content_id(content_id) if content_id and content_id not in self.content_ids else None
        if content_id and stored_id:
            self.content_ids[content_id] = stored_id
        self.attachments.append(AttachmentDraft(name, mime_type, _bytes(part, part_type), stored_id))

    def finished(self, limits: Limits) -> tuple[str | None, str | None, tuple[AttachmentDraft, ...]]:
        """HTML, text and attachments. Raises `ServiceError` with the faults of the attachments."""
        errors = list(_attachment_faults(self.attachments))
        errors += [
            FieldError(code, collection="attachments", detail=detail)
            for _, code, detail, _ in attachment_errors(self.attachments, (), limits)
        ]
        if errors:
            raise ServiceError.of(errors)
        html = self.html and _REFERENCE.sub(self._reference, self.html)
        return html, self.text, tuple(self.attachments)

    def _reference(self, reference: re.Match[str]) -> str:
        """A reference to an image by its new id; one to nothing stays."""
        written = html_text.unescape(reference[1])
        stored_id = self.content_ids.get(written) or self.content_ids.get(unquote(written))
        return f"cid:{stored_id}" if stored_id else reference[0]


def _content_id(written: str) -> str:
    """The id of an attachment by that of the mail, the same whenever the mail is read."""
    return f"content_{hashlib.sha256(written.encode('utf-8', 'replace')).hexdigest()[:32]}"


def _attachment_faults(attachments: Sequence[AttachmentDraft]) -> list[FieldError]:
    faults = []
    for index, each in enumerate(attachments):
        if not is_valid_name(each.name):
            detail = f"The attachment {each.name[:300]} cannot have this name. {NAME_RULE}"
            faults.append(FieldError("invalid_attachment_name", None, "attachments", index, detail))
        elif not extension_fits(each.mime_type, each.name):
            attribute = "extension" if media_type(each.mime_type) else "type"
            detail = f"The {attribute} of the attachment {each.name} does not fit the MIME type {each.mime_type[:200]}."
            faults.append(FieldError("invalid_attachment_extension", None, "attachments", index, detail))
    return faults


def _bytes(part: Message, part_type: str) -> bytes:
    """The decoded content of a part; that of an attached mail as it is written."""
    if part.is_multipart():
        output = BytesIO()
        BytesGenerator(output, mangle_from_=False, maxheaderlen=0).flatten(part, linesep="\r\n")
        return output.getvalue().partition(b"\r\n\r\n")[2]
    encoding = one_line(str(part.get("Content-Transfer-Encoding", ""))).lower()
    if encoding not in ENCODINGS:
        raise refusal(f"The part {part_type} has the unknown encoding {encoding[:100]}.")
    content = part.get_payload(decode=True)
    if any(isinstance(defect, InvalidBase64LengthDefect) for defect in part.defects):
        raise refusal(f"The part {part_type} is not valid base64.", "invalid_attachment_content")
    return content if isinstance(content, bytes) else b""


def _text(part: Message, part_type: str) -> str:
    """The text of a body; its line ends become those of a text. One without a charset may be UTF-8."""
    content = _bytes(part, part_type)
    charset = one_line(str(part.get_param("charset", "") or "")).strip("\"' ").lower() or "us-ascii"
    try:
        text = decode(content, "utf-8" if charset in ("us-ascii", "ascii") else charset)
    except (LookupError, ValueError):
        raise refusal(f"The part {part_type} is not text in the charset {charset[:100]}.", "invalid_string") from None
    if "\x00" in text:
        raise refusal(f"The part {part_type} must not contain the character U+0000.", "invalid_string")
    return text.replace("\r\n", "\n")
