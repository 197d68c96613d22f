"""A request body as it arrives: in memory while it is small, then in an unnamed file."""

from __future__ import annotations

import tempfile
from typing import IO

from app.http.server.chunked import ChunkedDecoder

MAX_IN_MEMORY = 256 * 1024
"""Bytes; a larger body is kept in a file."""


class Body:
    """`length` is None for a chunked body, which may have `max_bytes`."""

    def __init__(self, length: int | None, max_bytes: int) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115 - closed with the body
        self._chunks = ChunkedDecoder(self._file.write) if length is None else None
        self._left = length or 0
        self._max_bytes = max_bytes

    def feed(self, buffer: bytearray) -> bool:
        """Removes the body's bytes from the front of the buffer; True if it is complete or too long.

        Raises `MalformedChunked`, and OSError when the disk is full.
        """
        if self._chunks is not None:
            return self._chunks.feed(buffer) or self.is_too_long
        part = buffer[: self._left]
        del buffer[: len(part)]
        self._file.write(part)
        self._left -= len(part)
        return not self._left

    @property
    def size(self) -> int:
        """Bytes received so far."""
        return self._file.tell()

    @property
    def is_too_long(self) -> bool:
        """Whether a chunked body has exceeded its limit."""
        return self._chunks is not None and self.size > self._max_bytes

    def rewound(self) -> IO[bytes]:
        """The file, at its start."""
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        self._file.close()
