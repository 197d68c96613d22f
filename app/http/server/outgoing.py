"""The part of an answer that the client has not taken: in memory while it is small, then in an unnamed file. A streamed
answer is produced as the client takes it, so that no more than one part of it waits."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
from collections.abc import Iterable
from contextvars import copy_context
from typing import IO

logger = logging.getLogger(__name__)

MAX_JOINED = 64 * 1024
"""Bytes up to which header and body are copied into one piece: that takes less time than sending two."""
MAX_IN_MEMORY = 1024 * 1024
"""Bytes; a larger answer that the system does not take at once is kept in a file."""
FILE_BYTES = 256 * 1024
"""Bytes that are sent at once from a file."""
PART_BYTES = 64 * 1024
"""Bytes from which a streamed answer is sent, and not collected any longer."""


class Outgoing:
    """`shared` says that the bytes are kept in memory anyway, such as those of a static file, and are counted for no
    client."""

    def __init__(self) -> None:
        self.left = 0
        self.shared = False
        self._parts: list[bytes | memoryview] = []
        self._file: IO[bytes] | None = None
        self._position = 0

    def add(self, data: bytes) -> None:
        """Adds bytes at the end; not while earlier ones are in a file."""
        self._parts.append(data)
        self.left += len(data)

    def discard(self) -> None:
        """Drops what has not been sent."""
        self.left = 0
        self._parts.clear()
        self.shared = False
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def in_memory(self) -> int:
        """Bytes of the objects that are kept for this client alone, the sent beginning of each included."""
        if not self.left or self.shared:
            return 0
        return sum(map(_size, self._parts))

    @property
    def in_file(self) -> int:
        """Bytes in the file."""
        return 0 if self._file is None else self._position + self.left

    def send(self, sock: socket.socket) -> int:
        """Sends what the socket takes at once, and returns how much that was. Raises OSError; `BlockingIOError` when
        it takes nothing."""
        if self._file is not None:
            count = os.sendfile(sock.fileno(), self._file.fileno(), self._position, min(self.left, FILE_BYTES))
            self._position += count
        elif len(self._parts) == 1:
            count = sock.send(self._parts[0])
        elif self.left <= MAX_JOINED:
            self._parts = [b"".join(self._parts)]
            count = sock.send(self._parts[0])
        else:
            count = sock.sendmsg(self._parts)
        self._drop(count)
        return count

    def _drop(self, count: int) -> None:
        """Drops sent bytes from the front."""
        self.left -= count
        if not self.left:
            self._parts.clear()
            if self.shared or self._file is not None:
                self.discard()
        elif self._file is None:
            while count >= len(self._parts[0]):
                count -= len(self._parts.pop(0))
            self._parts[0] = memoryview(self._parts[0])[count:]

    def store(self) -> None:
        """Moves what is kept in memory for this client alone into a file. On a full disk it stays where it is."""
        if self._file is not None or self.shared or not self.left:
            return
        with contextlib.suppress(OSError):
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed once it is sent
            try:
                for part in self._parts:
                    view = memoryview(part)
                    while view:
                        view = view[file.write(view) :]
            except OSError:
                file.close()
                raise
            self._file, self._position = file, 0
            self._parts.clear()


def _size(part: bytes | memoryview) -> int:
    return len(part) if isinstance(part, bytes) else memoryview(part.obj).nbytes


class BrokenStream(Exception):
    """A streamed answer has failed after its beginning was sent; the failure has been logged."""


class Stream:
    """The parts of an answer that are still to be produced, with the context of its request. `framed` says whether they
    are sent with the chunked transfer coding."""

    def __init__(self, parts: Iterable[bytes], *, framed: bool) -> None:
        self._iterable = parts
        self._parts = iter(parts)
        self._framed = framed
        self._context = copy_context()
        self.has_ended = False

    def produce(self) -> bytes:
        """The next bytes; not many more than `PART_BYTES`, if the parts are small. Raises what the application does."""
        return self._context.run(self._collect)

    def go_on(self) -> bytes:
        """The next bytes, after the beginning of the answer was sent. Raises `BrokenStream`."""
        return self._context.run(self._collect_or_log)

    def _collect_or_log(self) -> bytes:
        try:
            return self._collect()
        except Exception as error:
            logger.exception("an answer ends before it is complete")
            raise BrokenStream from error

    def _collect(self) -> bytes:
        collected, size = [], 0
        while size < PART_BYTES:
            part = next(self._parts, None)
            if part is None:
                self.has_ended = True
                break
            if part:
                collected.append(part)
                size += len(part)
        if not self._framed:
            return b"".join(collected)
        head = [b"%X\r\n" % size, *collected, b"\r\n"] if size else []
        return b"".join([*head, b"0\r\n\r\n"] if self.has_ended else head)

    def close(self) -> None:
        """Ends what produces the parts."""
        close = getattr(self._iterable, "close", None)
        if close is not None:
            self._context.run(close)
