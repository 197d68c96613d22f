"""The other sides of the service under attack. They record every byte that the service sends them."""

from __future__ import annotations

import re
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field

from bench.sink import Session
from tests.support.smsc import Smsc

REFUSED = re.compile(rb"RCPT TO:<(refused[^>]*)>", re.IGNORECASE)


@dataclass
class Mail:
    """One mail with its envelope, as commands of the session that brought it."""

    sender: bytes
    recipients: list[bytes] = field(default_factory=list)
    content: bytes = b""


class Listener(ABC):
    """A port that takes connections until it is closed."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._listener = socket.create_server((host, 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                self._connected(link)

    @abstractmethod
    def _connected(self, link: socket.socket) -> None: ...


class Relay(Listener):
    """A mail relay on the loopback address. It refuses recipients whose name begins with `refused`, and repeats their
    address in its answer, as relays do."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.mails: list[Mail] = []
        super().__init__()

    def _connected(self, link: socket.socket) -> None:
        threading.Thread(target=RecordedSession(link, self).run, daemon=True).start()


class RecordedSession(Session):
    """One connection to the relay."""

    def __init__(self, link: socket.socket, relay: Relay) -> None:
        super().__init__(link)
        self._relay = relay
        self._mail = Mail(b"")

    def run(self) -> None:
        """Runs until the client closes the connection."""
        with suppress(OSError), self.link:
            self.link.sendall(b"220 relay\r\n")
            while self.receive():
                pass

    def _command(self, line: bytes) -> bytes:
        self._relay.commands.append(line)
        verb = line[:4].upper()
        if verb == b"EHLO":
            return b"250-relay\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-AUTH PLAIN LOGIN\r\n250 SMTPUTF8\r\n"
        if verb == b"AUTH":
            return b"235 2.7.0 welcome\r\n"
        if verb == b"MAIL":
            self._mail = Mail(line)
        if refused := REFUSED.match(line):
            return b"550 5.1.1 nobody is called " + refused[1] + b"\r\n"
        if verb == b"RCPT":
            self._mail.recipients.append(line)
        if verb == b"DATA" and not self._mail.recipients:
            return b"554 5.5.1 no recipients\r\n"
        return super()._command(line)

    def _message(self, content: bytes) -> bytes:
        self._in_data = False
        self._mail.content = content
        self._relay.mails.append(self._mail)
        return b"250 2.0.0 taken\r\n"


@dataclass
class Gateway(Smsc):
    """An SMPP server that also records which commands come."""

    commands: set[int] = field(default_factory=set)

    def _deal(self, connection: socket.socket, command: int, status: int, sequence: int, body: bytes) -> None:
        self.commands.add(command)
        super()._deal(connection, command, status, sequence, body)


class Trap(Listener):
    """A port inside the network that nobody may reach: it counts connections and says nothing."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.connections = 0
        super().__init__(host)

    def _connected(self, link: socket.socket) -> None:
        self.connections += 1
        link.close()
