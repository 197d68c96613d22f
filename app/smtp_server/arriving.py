"""The content of a mail while it arrives behind DATA, of which no more is kept than is read."""

from __future__ import annotations

import logging
import tempfile
from typing import IO

logger = logging.getLogger(__name__)

END_OF_MAIL = b"\r\n.\r\n"
MAX_BYTES_IN_MEMORY = 64 * 1024
"""Bytes of one mail that are kept in memory; more of them are in a file."""
MAX_STORED_BYTES = 256 * 1024 * 1024
"""Bytes that all mails together may keep while they arrive."""
MAX_LINE_BYTES = 64 * 1024
"""A malformed report is no reason to cause a bounce, but this is no mail."""
TOO_LARGE = "552 5.3.4 too much mail data"
LONG_LINE = "500 5.6.0 line too long"
NO_ROOM = "452 4.3.1 no room for the mail now, try again later"


class Store:
    """How much the mails that arrive keep together."""

    def __init__(self, most: int = MAX_STORED_BYTES) -> None:
        self.free = most


class IncomingMail:
    """A mail up to the line with a single dot. It may have `most` bytes, of which the first `kept` are stored; a mail
    that is refused is read to its end all the same, because only then is there an answer."""

    def __init__(self, store: Store, *, most: int, kept: int) -> None:
        self.fault: str | None = None
        """The answer to a mail that is refused."""
        self.size = self.stored = 0
        self._store, self._most, self._kept = store, most, kept
        self._line = 0
        # The line end of the command, so that a mail without a line ends, too; it is kept, to be found by `raw`.
        self._rest = b"\r\n"
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(MAX_BYTES_IN_MEMORY)  # noqa: SIM115 - closed by `close`

    def feed(self, arrived: bytes) -> bytes | None:
        """Takes what has arrived. Returns what follows the end of the mail, and None before its end."""
        arrived = self._rest + arrived
        end = arrived.find(END_OF_MAIL)
        if end < 0:
            self._take(arrived[: -len(END_OF_MAIL) + 1])
            self._rest = arrived[-len(END_OF_MAIL) + 1 :]
            return None
        self._take(arrived[: end + 2])
        return arrived[end + len(END_OF_MAIL) :]

    @property
    def is_endless(self) -> bool:
        """Whether so much has come that the client will not read the answer to it either."""
        return self.size > 2 * self._most

    def raw(self) -> bytes:
        """What is kept, without the dots that the protocol adds to lines that begin with one."""
        self._file.seek(0)
        return self._file.read().replace(b"\r\n.", b"\r\n")[2:]

    def refuse(self, fault: str) -> None:
        """Keeps nothing of it any more; the first fault is the answer."""
        self.fault = self.fault or fault
        self.close()

    def close(self) -> None:
        """Gives back what it keeps."""
        self._file.close()
        self._store.free += self.stored
        self.stored = 0

    def _take(self, data: bytes) -> None:
        self.size += len(data)
        lines = list(map(len, data.split(b"\n")))
        lines[0] += self._line
        self._line = lines[-1]
        if self.size - 2 > self._most:
            self.refuse(TOO_LARGE)
        elif max(lines) > MAX_LINE_BYTES:
            self.refuse(LONG_LINE)
        elif self.fault is None:
            self._keep(data[: self._kept - self.stored])

    def _keep(self, data: bytes) -> None:
        if len(data) > self._store.free:
            self.refuse(NO_ROOM)
            return
        self._store.free -= len(data)
        self.stored += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            logger.error("an arriving mail cannot be stored: %s", error)
            self.refuse(NO_ROOM)
