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


class UnreadableFile(ValueError):
    """A file that cannot be read as CSV, whatever its rows say."""


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
