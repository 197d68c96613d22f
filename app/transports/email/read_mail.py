"""Reads a mail that this service has encoded (app/transports/email/mime.py), to show it to people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message

from app.decoding import decode_words
from app.transports.email.mime import one_line

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that are shown within the HTML."""
_REFERENCE = re.compile(r"cid:(\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """An attachment as the mail has it; `content_id` is that of one that the HTML refers to."""

    name: str
    media_type: str
    content: bytes = field(repr=False)
    content_id: str | None


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail with its parts. The names of headers are as they are written, their values decoded and on one line."""

    source: bytes = field(repr=False)
    headers: Sequence[tuple[str, str]]
    html: str | None
    text: str | None
    files: Sequence[AttachedFile]

    def header(self, name: str) -> str:
        """The value of the first header of that name; empty without one."""
        return next((value for written, value in self.headers if written.lower() == name.lower()), "")

    @property
    def images(self) -> dict[str, int]:
        """The numbers of the attached images that the HTML can show, by their content ids; the first file is 1."""
        return {
            file.content_id: number
            for number, file in enumerate(self.files, 1)
            if file.content_id and file.media_type in IMAGES
        }


def read_mail(source: bytes) -> Mail:
    """The mail with its parts."""
    parts = list(_parts(message_from_bytes(source)))
    return Mail(
        source,
        list(_headers(source)),
        _body(parts, "text/html"),
        _body(parts, "text/plain"),
        [_file(number, part) for number, part in enumerate(parts, 1) if part.get_content_disposition() is not None],
    )


def with_images(html: str, images: Mapping[str, int], address: str) -> str:
    """The HTML in which each reference to one of the images is its address: this one, followed by its number."""

    def replaced(reference: re.Match[str]) -> str:
        number = images.get(reference[1])
        return reference[0] if number is None else f"{address}{number}"

    return _REFERENCE.sub(replaced, html)


def _parts(message: Message) -> Iterator[Message]:
    """The bodies and attachments; an attached mail is one attachment."""
    if message.get_content_maintype() != "multipart" or not message.is_multipart():
        yield message
        return
    for part in message.get_payload():
        if isinstance(part, Message):
            yield from _parts(part)


def _headers(source: bytes) -> Iterator[tuple[str, str]]:
    """Linear in the header, however it is folded."""
    head = source.partition(b"\r\n\r\n")[0].decode("utf-8", "replace")
    for line in head.replace("\r\n ", " ").replace("\r\n\t", " ").split("\r\n"):
        name, _, value = line.partition(":")
        yield name, one_line(decode_words(value))


def _body(parts: Sequence[Message], media_type: str) -> str | None:
    """The first part of the type that is not attached."""
    for part in parts:
        if part.get_content_type() == media_type and part.get_content_disposition() is None:
            return _content(part).decode("utf-8", "replace").replace("\r\n", "\n")
    return None


def _file(number: int, part: Message) -> AttachedFile:
    name, content_id = one_line(part.get_filename() or ""), str(part.get("Content-ID", "")).strip("<> ")
    return AttachedFile(name or f"file-{number}", part.get_content_type(), _content(part), content_id or None)


def _content(part: Message) -> bytes:
    if part.is_multipart():  # an attached mail
        return b"".join(attached.as_bytes() for attached in part.get_payload() if isinstance(attached, Message))
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""
