"""The document of a report: an attachment, mostly compressed. Pure.

Strangers write such mails: what is unpacked is limited, whatever a header of the archive says.
"""

from __future__ import annotations

import binascii
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from email.message import Message
from itertools import islice

from app.inbound.domain_reports.parsed import UnreadableReport

MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
"""Unpacked."""
MAX_PARTS = 10
ZIP, GZIP = b"PK\x03\x04", b"\x1f\x8b"
GZIP_FORMAT = 31
BOM = b"\xef\xbb\xbf"
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ZIP_ERRORS = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, struct.error, zlib.error
)  # fmt: skip


def documents_of(message: Message) -> Iterator[bytes]:
    """The documents of the message that may be reports, unpacked. Raises `UnreadableReport`."""
    parts = (part for part in message.walk() if not part.is_multipart())
    for part in islice(parts, MAX_PARTS):
        try:
            content = part.get_payload(decode=True)
        except (binascii.Error, ValueError, LookupError, TypeError, AttributeError):
            continue
        if isinstance(content, bytes) and (document := _unpacked(content)) is not None:
            yield document


def _unpacked(content: bytes) -> bytes | None:
    """The document; None for a text for people."""
    if content.startswith(GZIP):
        content = _gunzipped(content)
    elif content.startswith(ZIP):
        content = _unzipped(content)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise UnreadableReport("it is too long")
    document = content.removeprefix(BOM).lstrip()
    return document if document[:1] in (b"<", b"{") else None


def _gunzipped(content: bytes) -> bytes:
    try:
        return zlib.decompressobj(GZIP_FORMAT).decompress(content, MAX_DOCUMENT_BYTES + 1)
    except zlib.error as error:
        raise UnreadableReport(f"its archive is damaged: {error}") from None


def _unzipped(content: bytes) -> bytes:
    """The first file of the archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            first = archive.infolist()[0]
            if first.compress_type not in COMPRESSIONS:
                raise UnreadableReport("its archive has an unusual compression")
            with archive.open(first) as file:
                return file.read(MAX_DOCUMENT_BYTES + 1)
    except UnreadableReport:
        raise
    except (*ZIP_ERRORS, IndexError) as error:
        raise UnreadableReport(f"its archive is damaged: {error}") from None
