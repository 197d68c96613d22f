"""The wire of an open SMTP session: bytes out, replies in.

`smtplib` opens a session and says goodbye; what lies between is spoken here. Its reading of a line at a time through a
file object, and its setting of the time-out before each reply, cost more than all the rest of handing over a mail.
"""

from __future__ import annotations

import smtplib

from app.transports.email.replies import Reply

RECEIVED_AT_ONCE = 64 * 1024
LONGEST_LINE, MOST_LINES = 8192, 1000
"""Of one reply; whoever says more speaks no SMTP."""


class Unsent(Exception):
    """The connection broke while bytes went out: the first `count` may have arrived, the rest has not."""

    def __init__(self, count: int, error: OSError) -> None:
        super().__init__(str(error))
        self.count = count


class Dialogue:
    """One side of an open session, for one thread at a time."""

    def __init__(self, client: smtplib.SMTP) -> None:
        if client.sock is None:
            raise ValueError("the session is not open")
        self._socket = client.sock
        self._features = client.esmtp_features
        self._received = b""

    def offers(self, extension: str) -> bool:
        """Whether the server named the extension, given in lower case."""
        return extension in self._features

    def say(self, data: bytes) -> None:
        """All of it; raises `Unsent`."""
        count = 0
        try:
            count = self._socket.send(data)
            while count < len(data):
                count += self._socket.send(memoryview(data)[count:])
        except OSError as error:
            raise Unsent(count, error) from error

    def hear(self, patience: int = 1) -> Reply:
        """The next reply, for which so many time-outs are waited. Raises `OSError` when the connection is lost and
        `ValueError` when this is no SMTP."""
        lines: list[bytes] = []
        while True:
            line = self._line(patience)
            lines.append(line[4:])
            if line[3:4] != b"-":
                break
            if len(lines) == MOST_LINES:
                raise ValueError("a reply without an end")
        code = int(line[:3])
        if not 200 <= code <= 599:
            raise ValueError(f"unintelligible reply: {line[:100]!r}")
        return Reply.from_wire(code, b"\n".join(lines))

    def _line(self, patience: int) -> bytes:
        line, found, rest = self._received.partition(b"\n")
        while not found:
            if len(line) > LONGEST_LINE:
                raise ValueError("a line without an end")
            self._received += self._receive(patience)
            line, found, rest = self._received.partition(b"\n")
        self._received = rest
        return line

    def _receive(self, patience: int) -> bytes:
        for left in reversed(range(patience)):
            try:
                part = self._socket.recv(RECEIVED_AT_ONCE)
            except TimeoutError:
                if not left:
                    raise
            else:
                break
        if not part:
            raise ConnectionResetError("Connection unexpectedly closed")
        return part
