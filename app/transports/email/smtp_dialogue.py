"""The byte level of an open SMTP session: commands out, replies in.

`smtplib` only opens and quits sessions: its reading line by line through a file object, and setting the timeout before
each reply, cost more than everything else in sending a mail.
"""

from __future__ import annotations

import smtplib

from app.transports.email.replies import Reply, one_line_reply, reply_code

BUFFER_SIZE = 64 * 1024
MAX_LINE_LENGTH, MAX_LINES = 8192, 1000
"""Limits of one reply; longer ones are not SMTP."""


class Unsent(Exception):
    """The connection broke while sending: the first `count` bytes may have arrived, the rest has not."""

    def __init__(self, count: int, error: OSError) -> None:
        super().__init__(str(error))
        self.count = count


class Dialogue:
    """An open session, for one thread at a time."""

    def __init__(self, client: smtplib.SMTP) -> None:
        if client.sock is None:
            raise ValueError("the session is not open")
        self._socket = client.sock
        self._features = client.esmtp_features
        self._received = b""

    def offers(self, extension: str) -> bool:
        """Whether the server announced the extension, given in lower case."""
        return extension in self._features

    def write(self, data: bytes) -> None:
        """Sends all of the data; raises `Unsent`."""
        count = 0
        try:
            count = self._socket.send(data)
            while count < len(data):
                count += self._socket.send(memoryview(data)[count:])
        except OSError as error:
            raise Unsent(count, error) from error

    def read_reply(self, timeouts: int = 1) -> Reply:
        """The next reply; waits for `timeouts` times the socket's timeout. Raises `OSError` if the connection is
        lost and `ValueError` when the reply is not SMTP."""
        line = self._line(timeouts)
        if line[3:4] != b"-":
            return one_line_reply(line)
        lines = [line[4:]]
        while line[3:4] == b"-":
            if len(lines) == MAX_LINES:
                raise ValueError("a reply without an end")
            line = self._line(timeouts)
            lines.append(line[4:])
        return Reply.from_wire(reply_code(line), b"\n".join(lines))

    def _line(self, timeouts: int) -> bytes:
        line, found, rest = self._received.partition(b"\n")
        while not found:
            if len(line) > MAX_LINE_LENGTH:
                raise ValueError("a line without an end")
            self._received += self._receive(timeouts)
            line, found, rest = self._received.partition(b"\n")
        self._received = rest
        return line

    def _receive(self, timeouts: int) -> bytes:
        for left in reversed(range(timeouts)):
            try:
                part = self._socket.recv(BUFFER_SIZE)
            except TimeoutError:
                if not left:
                    raise
            else:
                break
        if not part:
            raise ConnectionResetError("Connection unexpectedly closed")
        return part
