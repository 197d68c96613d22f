"""An sms gateway for tests: an SMPP 3.4 server on the loopback address."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.support.servers import PATIENCE
from tests.support.smpp import (
    ANSWER,
    BIND_TRANSCEIVER,
    BIND_TRANSMITTER,
    DELIVER_SM,
    ENQUIRE_LINK,
    GENERIC_NACK,
    INVALID_PASSWORD,
    OK,
    RECEIPT,
    SUBMIT_SM,
    UNBIND,
    Submission,
    address,
    deliver_sm,
    pdu,
    read_pdu,
    send,
    submission,
)


@dataclass
class Smsc:
    """The server; `with Smsc() as smsc`. It answers the next submissions with `statuses`, and accepts all further
    ones."""

    password: str = "secret"
    submissions: list[Submission] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    binds: list[int] = field(default_factory=list)
    enquiries: int = 0
    silent: bool = False
    """Receives submissions without answering."""
    answered: dict[int, int] = field(default_factory=dict)
    """Sequence of a `deliver_sm` -> status of its answer."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._bound: list[socket.socket] = []
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.drop()

    def url(self, options: str = "", user: str = "tms", password: str | None = None) -> str:
        """The value of SMS_TRANSPORT_URL."""
        return f"smpp://{user}:{password or self.password}@127.0.0.1:{self.port}{options}"

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._listener.getsockname()[1])

    def drop(self) -> None:
        """Closes all connections abruptly."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()
        self._bound.clear()

    def wait(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Waits until the condition holds."""
        with self.changed:
            assert self.changed.wait_for(condition, seconds)

    @property
    def bound(self) -> bool:
        """Whether a client is bound."""
        return bool(self._bound)

    def deliver(
        self,
        source: str,
        destination: str,
        body: bytes,
        *,
        esm_class: int = 0,
        coding: int = 0,
        parameters: bytes = b"",
    ) -> int:
        """Sends a `deliver_sm`, with optional parameters as bytes, and returns the status of its answer."""
        self.wait(lambda: self._bound)
        sequence = next(self._numbers)
        addresses = address(source) + address(destination)
        self._bound[-1].sendall(
            deliver_sm(sequence, addresses, body, esm_class=esm_class, coding=coding, parameters=parameters)
        )
        self.wait(lambda: sequence in self.answered)
        return self.answered[sequence]

    def deliver_raw(self, body: bytes, command: int = DELIVER_SM) -> int:
        """Sends a PDU with any bytes as its body, and returns the status of its answer."""
        self.wait(lambda: self._bound)
        sequence = next(self._numbers)
        self._bound[-1].sendall(pdu(command, OK, sequence, body))
        self.wait(lambda: sequence in self.answered)
        return self.answered[sequence]

    def deliver_together(self, source: str, destination: str, bodies: list[bytes]) -> list[int]:
        """Sends several in one write, and returns their sequence numbers without waiting for an answer."""
        self.wait(lambda: self._bound)
        sequences = [next(self._numbers) for _ in bodies]
        addresses, pairs = address(source) + address(destination), zip(sequences, bodies, strict=True)
        self._bound[-1].sendall(b"".join(deliver_sm(number, addresses, body) for number, body in pairs))
        return sequences

    def receipt(self, message_id: str, state: str = "DELIVRD") -> int:
        """Sends a receipt in the customary format."""
        delivered = int(state == "DELIVRD")
        dates = "submit date:2601310900 done date:2601310901"
        text = f"id:{message_id} sub:001 dlvrd:00{delivered} {dates} stat:{state} err:000"
        return self.deliver("61411111111", "61400000001", text.encode(), esm_class=RECEIPT)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while True:
                command, status, sequence, body = read_pdu(connection)
                with self.changed:
                    self._deal(connection, command, status, sequence, body)
                    self.changed.notify_all()
        with self.changed:
            if connection in self._bound:
                self._bound.remove(connection)
            self.changed.notify_all()

    def _deal(self, connection: socket.socket, command: int, status: int, sequence: int, body: bytes) -> None:
        if command in (BIND_TRANSMITTER, BIND_TRANSCEIVER):
            self._bind(connection, command, sequence, body)
        elif command == SUBMIT_SM:
            self.submissions.append(submission(body))
            if not self.silent:
                answer = self.statuses.pop(0) if self.statuses else OK
                named = f"m{len(self.submissions)}".encode() + b"\0" if answer == OK else b""
                send(connection, command | ANSWER, answer, sequence, named)
        elif command in (DELIVER_SM | ANSWER, GENERIC_NACK | ANSWER):
            self.answered[sequence] = status
        elif command in (ENQUIRE_LINK, UNBIND):
            self.enquiries += command == ENQUIRE_LINK
            send(connection, command | ANSWER, OK, sequence, b"")

    def _bind(self, connection: socket.socket, command: int, sequence: int, body: bytes) -> None:
        _, password, _ = body.split(b"\0", 2)
        if password.decode() != self.password:
            send(connection, command | ANSWER, INVALID_PASSWORD, sequence, b"")
            return
        self.binds.append(command)
        self._bound.append(connection)
        send(connection, command | ANSWER, OK, sequence, b"smsc\0")
