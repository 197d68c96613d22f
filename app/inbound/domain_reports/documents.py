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

MAX_UNPACKED_BYTES = 8 * 1024 * 1024
"""Of all documents of a mail."""
MAX_MARKS = 200_000
"""Tags and attributes, or members and elements, of all of them: what reading them takes time for. A report of a large
mail server about a thousand sources has forty thousand."""
MAX_PARTS = 10
MAX_FILES = 100
"""Of an archive, all of which are listed in memory; the first is read."""
XML_MARKS, JSON_MARKS = (b"<", b"="), (b",", b"[", b"{")
ZIP, FILE_OF_ZIP, GZIP = b"PK\x03\x04", b"PK\x01\x02", b"\x1f\x8b"
GZIP_FORMAT = 31
BOM = b"\xef\xbb\xbf"
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ZIP_ERRORS = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, struct.error, zlib.error
)  # fmt: skip


def documents_of(message: Message) -> Iterator[bytes]:
    """The documents of the message that may be reports, unpacked. Raises `UnreadableReport`."""
    parts = (part for part in message.walk() if not part.is_multipart())
    room, marks = MAX_UNPACKED_BYTES, MAX_MARKS
    for part in islice(parts, MAX_PARTS):
        try:
            content = part.get_payload(decode=True)
        except (binascii.Error, ValueError, LookupError, TypeError, AttributeError):
            continue
        unpacked = _unpacked(content, room) if isinstance(content, bytes) else b""
        room -= len(unpacked)
        document = unpacked.removeprefix(BOM).lstrip()
        if document[:1] in (b"<", b"{"):  # others are texts for people
            marks -= sum(map(document.count, XML_MARKS if document.startswith(b"<") else JSON_MARKS))
            if room < 0 or marks < 0:
                raise UnreadableReport("it is too long")
            yield document


def _unpacked(content: bytes, room: int) -> bytes:
    """The content of a part, of which at most one byte more is unpacked than there is room for."""
    most = max(0, room) + 1
    if content.startswith(GZIP):
        return _gunzipped(content, most)
    return _unzipped(content, most) if content.startswith(ZIP) else content


def _gunzipped(content: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj(GZIP_FORMAT).decompress(content, most)
    except zlib.error as error:
        raise UnreadableReport(f"its archive is damaged: {error}") from None


def _unzipped(content: bytes, most: int) -> bytes:
    """The first file of the archive."""
    if content.count(FILE_OF_ZIP) > MAX_FILES:
        raise UnreadableReport("its archive has too many files")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            first = archive.infolist()[0]
            if first.compress_type not in COMPRESSIONS:
                raise UnreadableReport("its archive has an unusual compression")
            with archive.open(first) as file:
                return file.read(most)
    except UnreadableReport:
        raise
    except (*ZIP_ERRORS, IndexError) as error:
        raise UnreadableReport(f"its archive is damaged: {error}") from None
