"""A body as it comes: in memory while it is small, then in a file that has no name."""

from __future__ import annotations

import tempfile
from typing import IO

from app.http.server.chunked import Chunks

IN_MEMORY = 256 * 1024
"""Bytes from which a body is kept in a file."""


class Body:
    """`length` is None for one in chunks, of which `most` bytes are taken."""

    def __init__(self, length: int | None, most: int) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed with the body
        self._chunks = Chunks(self._file.write) if length is None else None
        self._left = length or 0
        self._most = most

    def take(self, buffer: bytearray) -> bool:
        """Takes from the front of the buffer what is of the body; True when it is whole, or too long.

        Raises `MalformedChunks`, and OSError when the disk is full.
        """
        if self._chunks is not None:
            return self._chunks.take(buffer) or self.is_too_long
        part = buffer[: self._left]
        del buffer[: len(part)]
        self._file.write(part)
        self._left -= len(part)
        return not self._left

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self._file.tell()

    @property
    def is_too_long(self) -> bool:
        """Whether more has come than a body may have."""
        return self._chunks is not None and self.size > self._most

    def from_start(self) -> IO[bytes]:
        """What has come, to be read."""
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Lets go of it."""
        self._file.close()
