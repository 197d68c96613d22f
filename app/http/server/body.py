"""A request body as it arrives: in memory while it is small, then in an unnamed file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from typing import IO, cast

# Incremental decoder of the chunked transfer coding (RFC 9112: 7.1).

MAX_LINE_BYTES = 1024
"""Bytes of the line before a chunk, and of each line after the last one."""
MOST_TRAILERS = 100

SIZE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(;[\t\x20-\x7e\x80-\xff]*)?")
TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class MalformedChunked(Exception):
    """Invalid chunked transfer coding."""


class ChunkedDecoder:
    """Passes the content of the chunks to `write`; framing and trailers are dropped."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._left = 0
        self._step: Callable[[bytes], bool] = self._size
        self._trailers = 0

    def feed(self, buffer: bytearray) -> bool:
        """Removes the body's bytes from the front of the buffer; True at the end of the body.

        Raises `MalformedChunked`.
        """
        while True:
            if self._left:
                part = bytes(buffer[: self._left])
                del buffer[: len(part)]
                self._write(part)
                self._left -= len(part)
                if self._left:
                    return False
            end = buffer.find(b"\r\n", 0, MAX_LINE_BYTES + 2)
            if end < 0:
                if len(buffer) > MAX_LINE_BYTES:
                    raise MalformedChunked
                return False
            line = bytes(buffer[:end])
            del buffer[: end + 2]
            if self._step(line):
                return True

    def _size(self, line: bytes) -> bool:
        size_line = SIZE.fullmatch(line)
        if size_line is None:
            raise MalformedChunked
        self._left = int(size_line[1], 16)
        self._step = self._end_of_chunk if self._left else self._trailer
        return False

    def _end_of_chunk(self, line: bytes) -> bool:
        if line:
            raise MalformedChunked
        self._step = self._size
        return False

    def _trailer(self, line: bytes) -> bool:
        """An empty line is the end of the body."""
        if not line:
            return True
        self._trailers += 1
        if self._trailers > MOST_TRAILERS or not TRAILER.fullmatch(line):
            raise MalformedChunked
        return False


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
