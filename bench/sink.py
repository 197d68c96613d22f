"""A mail server that accepts everything, several times as fast as any sender here: `python -m bench.sink PORT`.

The text of each mail must contain the order of its recipient. `XCOUNT` returns the number of mails, of different
recipients and of wrong mails, and the time of the first DATA (in seconds of the monotonic clock, which all processes of
the machine share); `XTIME NUMBER` returns the time of the DATA to that recipient, for numbers from WATCHED on; `XRESET`
forgets everything.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

RCPT_COMMAND = re.compile(rb"RCPT TO:<person(\d+)@", re.IGNORECASE)
WATCHED = 10_000_000
NOBODY = b"0"
"""Stands for recipients without a number, whose mails are not checked."""
SOFT_BREAK = b"=\r\n"
END = b"\r\n.\r\n"


@dataclass(slots=True)
class Tally:
    """What has arrived since the last `XRESET`."""

    mails: int = 0
    wrong: int = 0
    recipients: set[bytes] = field(default_factory=set)
    first_data: float = 0.0
    times: dict[bytes, float] = field(default_factory=dict)
    """Recipient -> the time of its DATA."""

    def report(self) -> bytes:
        """The answer to `XCOUNT`."""
        facts = {
            "mails": self.mails,
            "recipients": len(self.recipients),
            "wrong": self.wrong,
            "first_data": self.first_data,
        }
        return b"250 " + json.dumps(facts).encode() + b"\r\n"


tally = Tally()


class Session:
    """One connection; commands may come in groups (PIPELINING)."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self._received = bytearray()
        self._recipient = NOBODY
        self._is_named = False
        """Whether the recipient has a number."""
        self._in_data = False
        self._searched = 0
        """Bytes received that do not contain the end of the command or message."""

    def receive(self) -> bool:
        """Receives and answers; False if the client has disconnected."""
        try:
            part = self.link.recv(1 << 20)
        except ConnectionError:
            return False
        if not part:
            return False
        self._received += part
        answers = bytearray()
        try:
            while self._step(answers):
                pass
        finally:
            if answers:
                self.link.sendall(answers)
        return True

    def _step(self, answers: bytearray) -> bool:
        """Answers one complete command or message; False if there is none."""
        end = self._received.find(END if self._in_data else b"\r\n", max(self._searched - len(END), 0))
        self._searched = len(self._received) if end < 0 else 0
        if end < 0:
            return False
        taken = bytes(self._received[:end])
        del self._received[: end + (len(END) if self._in_data else 2)]
        answers += self._message(taken) if self._in_data else self._command(taken)
        return True

    def _message(self, content: bytes) -> bytes:
        self._in_data = False
        tally.mails += 1
        tally.recipients.add(self._recipient)
        if self._is_named and b"A-%08d" % int(self._recipient) not in content.replace(SOFT_BREAK, b""):
            tally.wrong += 1
        return b"250 2.0.0 taken\r\n"

    def _command(self, line: bytes) -> bytes:
        global tally  # noqa: PLW0603 - one process, one tally
        verb = line[:4].upper()
        if verb == b"EHLO":
            return b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SIZE 100000000\r\n250 SMTPUTF8\r\n"
        if verb == b"RCPT":
            match = RCPT_COMMAND.match(line)
            self._is_named = match is not None
            self._recipient = match[1] if match else NOBODY
        elif verb == b"DATA":
            self._in_data = True
            tally.first_data = tally.first_data or time.monotonic()
            if int(self._recipient) >= WATCHED:
                tally.times[self._recipient] = time.monotonic()
            return b"354 go on\r\n"
        elif line == b"XCOUNT":
            return tally.report()
        elif verb == b"XTIM":
            return b"250 %f\r\n" % tally.times.get(line.split()[1], 0.0)
        elif line == b"XRESET":
            tally = Tally()
        return b"221 bye\r\n" if verb == b"QUIT" else b"250 2.0.0 ok\r\n"


def serve(port: int) -> None:
    """Runs until the process is terminated."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                link, _ = listener.accept()
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link.sendall(b"220 sink\r\n")
                selector.register(link, selectors.EVENT_READ, Session(link))
            elif not key.data.receive():
                selector.unregister(key.data.link)
                key.data.link.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
