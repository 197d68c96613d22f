"""A request body as it arrives: in memory while it is small, then in an unnamed file."""

from __future__ import annotations

import tempfile
from typing import IO, cast

from app.http.server.chunked import ChunkedDecoder

MAX_IN_MEMORY = 256 * 1024
"""Bytes; a larger body is kept in a file."""
LEAST_IN_FILE = 4 * 1024
"""Bytes from which a body is worth a file when memory is short."""


class Body:
    """`length` is None for a chunked body, which may have `max_bytes`. `size` is what has been received so far."""

    def __init__(self, length: int | None, max_bytes: int) -> None:
        self._file = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115 - closed with the body
        self._chunks = ChunkedDecoder(self._write) if length is None else None
        self.size = 0
        self.is_in_file = False
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
        self._write(part)
        self._left -= len(part)
        return not self._left

    def _write(self, data: bytes | bytearray) -> None:
        self._file.write(data)
        self.size += len(data)
        self.is_in_file = self.is_in_file or self.size > MAX_IN_MEMORY

    def spill(self) -> None:
        """Moves what has been received into the file, unless it is not worth one. Raises OSError."""
        if not self.is_in_file and self.size >= LEAST_IN_FILE:
            self._file.rollover()
            self.is_in_file = True

    @property
    def is_too_long(self) -> bool:
        """Whether a chunked body has exceeded its limit."""
        return self._chunks is not None and self.size > self._max_bytes

    def rewound(self) -> IO[bytes]:
        """The file, at its start."""
        self._file.seek(0)
        return cast("IO[bytes]", self._file)

    def close(self) -> None:
        self._file.close()
