"""The relay of the suite, a separate process: `python -m tests.chaos.relay PORT FOLDER SEED`.

It behaves as `FOLDER/relay.mode` says, and records in `FOLDER/relay.log` what it accepted and refused, before it
answers.
"""

from __future__ import annotations

import email
import random
import re
import socket
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

from bench.sink import SOFT_BREAK, Session
from tests.chaos.record import LISTEN, Log, MailStep, digest, mode_of, words_for

USUAL = (0.005, 0.03)
"""Seconds that it takes for a mail."""
SLOWLY = (0.5, 1.5)
SUBJECT_LINE = re.compile(rb"^Subject: ([^\r\n]*)", re.MULTILINE)
UNSUBSCRIBE_LINK = re.compile(rb"^List-Unsubscribe:\s+<(https?:[^>]*)>", re.MULTILINE)
SHARE = 0.5
"""Share of the mails that it refuses or defers in those modes."""


class Cut(Exception):
    """The relay closes the connection, after this last reply."""

    def __init__(self, words: bytes = b"") -> None:
        super().__init__()
        self.words = words


class Relay:
    """The state that all connections share."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._mode = folder / "relay.mode"
        self.log = Log(folder / "relay.log")
        self.chance = random.Random(seed)

    @property
    def mode(self) -> str:
        return mode_of(self._mode)

    def strikes(self, mode: str) -> bool:
        """Whether the mode affects this mail."""
        return self.mode == mode and self.chance.random() < SHARE

    def hang(self, mode: str = "hang") -> None:
        """Neither reads nor sends anything until the mode changes, and then closes the connection."""
        while self.mode == mode:
            time.sleep(0.05)
        raise Cut


class RecordedSession(Session):
    """One connection."""

    def __init__(self, link: socket.socket, relay: Relay) -> None:
        super().__init__(link)
        self._relay = relay
        self._name = uuid.uuid4().hex[:12]
        self._to = ""
        self._refused = False
        self._began = 0.0

    def run(self) -> None:
        """Runs until the client closes the connection."""
        end: MailStep = "lost"
        try:
            self.link.sendall(b"220 relay\r\n")
            while self.receive():
                if self._in_data and self._relay.strikes("hang-in-data"):
                    self._relay.hang("hang-in-data")
        except Goodbye:
            end = "quit"
        except Cut as cut:
            end = "cut"
            with suppress(OSError):
                self.link.sendall(cut.words)
        except OSError:
            pass
        finally:
            self.link.close()
            self._note(end)

    def _note(self, step: MailStep, **fields: object) -> None:
        to = self._to if step in ("taken", "refused", "deferred") else ""
        self._relay.log.add(connection=self._name, step=step, to=to, **fields)

    def _command(self, line: bytes) -> bytes:
        verb = line[:4].upper()
        if verb == b"QUIT":
            raise Goodbye
        if verb == b"MAIL":
            return self._mail(line)
        if verb == b"RCPT":
            return self._rcpt(line)
        if verb == b"DATA":
            return self._data()
        return super()._command(line)

    def _mail(self, line: bytes) -> bytes:
        self._began = time.time()
        if self._relay.mode == "hang" and self._relay.chance.random() < SHARE:
            self._relay.hang()
        if self._relay.mode == "421":
            raise Cut(b"421 4.3.2 going down\r\n")
        return super()._command(line)

    def _rcpt(self, line: bytes) -> bytes:
        self._to = line.partition(b"<")[2].partition(b">")[0].decode()
        self._refused = self._relay.strikes("550")
        if self._refused:
            self._note("refused")
            return b"550 5.1.1 nobody of that name\r\n"
        return b"250 2.1.5 ok\r\n"

    def _data(self) -> bytes:
        if self._refused:
            return b"554 5.5.1 no recipients\r\n"
        if self._relay.strikes("cut-before"):
            raise Cut(b"354 go on\r\n")
        self._in_data = True
        return b"354 go on\r\n"

    def _message(self, content: bytes) -> bytes:
        self._in_data = False
        if self._relay.mode == "hang":
            self._relay.hang()
        if self._relay.strikes("451"):
            self._note("deferred")
            return b"451 4.3.0 try again later\r\n"
        time.sleep(self._relay.chance.uniform(*(SLOWLY if self._relay.mode == "slow" else USUAL)))
        subject, link = SUBJECT_LINE.search(content), UNSUBSCRIBE_LINK.search(content)
        is_forgotten, is_cut = self._relay.strikes("forget"), self._relay.strikes("cut-after")
        is_whole = words_for(self._to).encode() in content.replace(SOFT_BREAK, b"")
        self._note(
            "taken",
            whole=is_whole,
            subject=subject[1].decode() if subject else "",
            attached=_attached(content),
            link=link[1].decode() if link else "",
            began=self._began,
            answered=not (is_forgotten or is_cut),
        )
        if is_forgotten:
            self._relay.hang("forget")
        if is_cut:
            raise Cut
        return b"250 2.0.0 taken\r\n"


def _attached(content: bytes) -> str:
    """The digest of the attachments."""
    if b"Content-Disposition: attachment" not in content:
        return ""
    parts = email.message_from_bytes(content).walk()
    files = (part.get_payload(decode=True) for part in parts if part.get_content_disposition() == "attachment")
    return digest(content for content in files if isinstance(content, bytes))


class Goodbye(Exception):
    """The sender has sent QUIT."""


def serve(port: int, folder: Path, seed: str) -> None:
    """Runs until the process is terminated, with a thread per connection."""
    relay = Relay(folder, seed)
    listener = socket.create_server((LISTEN, port), backlog=64)
    while True:
        link, _ = listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=RecordedSession(link, relay).run, daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
