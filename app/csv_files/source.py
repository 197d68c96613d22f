"""Files to read, also from standard input: they are read more than once."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

BLOCK = 1024 * 1024
START = 4096
"""Bytes by which it is told what a file is."""
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
IN_WORKBOOKS = (b"[Content_Types].xml", b"xl/")
IN_OPEN_DOCUMENTS = b"mimetypeapplication/vnd.oasis.opendocument."
OTHERS = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Excel workbook (.xls, or one with a password)",
    b"\x1f\x8b": "packed (.gz)",
}
"""The first bytes of a file that is no text -> what it is."""


class UnreadableFile(ValueError):
    """A file that cannot be read as CSV, whatever its rows say."""


def check_is_text(file: BinaryIO) -> None:
    """Raises `UnreadableFile` for a spreadsheet's own file and for a packed one (docs/cli.md#csv-files)."""
    file.seek(0)
    what = _kind_of(file.read(START))
    if what is not None:
        mended = (
            "unpack it, and import the CSV file" if "packed" in what else "save it as CSV UTF-8, and import that file"
        )
        raise UnreadableFile(f"the file is {what}, not CSV: {mended}")


def _kind_of(start: bytes) -> str | None:
    """What a file is that begins so; None for a text."""
    if not start.startswith(ZIP):
        return next((what for mark, what in OTHERS.items() if start.startswith(mark)), None)
    if IN_OPEN_DOCUMENTS in start:
        return "an OpenDocument spreadsheet (.ods)"
    return "an Excel workbook (.xlsx)" if any(name in start for name in IN_WORKBOOKS) else "packed (.zip)"


@contextmanager
def rereadable(stream: BinaryIO) -> Iterator[BinaryIO]:
    """The stream, or a temporary copy of one that can be read only once, such as a pipe."""
    if _is_file(stream):
        yield stream
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy)
        copy.flush()
        yield copy


def _is_file(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return False


def digest_of(file: BinaryIO) -> str:
    """A text that two files have in common only if their contents are equal."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()


def version_of(file: BinaryIO) -> tuple[int, int]:
    """Size and time of the last change: equal at two moments if nobody has written the file in between."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
