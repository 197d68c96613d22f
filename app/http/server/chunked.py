"""Incremental decoder of the chunked transfer coding (RFC 9112: 7.1)."""

from __future__ import annotations

import re
from collections.abc import Callable

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
