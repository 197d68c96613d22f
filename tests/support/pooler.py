"""A pooler in transaction mode in front of a PostgreSQL that trusts its clients: each transaction of a client gets a
free connection to the server, message by message, as in PgBouncer and similar poolers.
"""

from __future__ import annotations

import queue
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import make_url

ENCRYPTION = (80877103, 80877104)
CANCEL = 80877102
ENDS_OF_REQUEST = (b"Q", b"S")


class Server:
    """A connection from the pooler to the server."""

    def __init__(self, path: str, database: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        named = f"user\0postgres\0database\0{database}\0\0".encode()
        self.socket.sendall(struct.pack("!ii", len(named) + 8, 196608) + named)
        self.greeting = b""
        while (message := read_message(self.socket))[:1] != b"Z":
            if message[:1] in b"SK":
                self.greeting += message
            if message[:1] == b"K":
                (self.process,) = struct.unpack("!i", message[5:9])


class Pooler:
    """`url` leads through it. It sends clients the process ids in `announced`: real poolers invent them, or pass on
    those of some connection."""

    def __init__(self, database_url: str, size: int, announced: str, *, refuses_options: bool = False) -> None:
        url = make_url(database_url)
        database, folder = str(url.database), str(url.query["host"])
        self._refuses_options = refuses_options
        self._announced = announced
        self._servers = [Server(f"{folder}/.s.PGSQL.5432", database) for _ in range(size)]
        self._free: queue.LifoQueue[Server] = queue.LifoQueue()
        for server in reversed(self._servers):
            self._free.put(server)
        self._clients = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql+psycopg://postgres@127.0.0.1:{self._listener.getsockname()[1]}/{database}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Closes the connections to the server, and thereby those of the clients."""
        self._listener.close()
        for server in self._servers:
            server.socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._clients += 1
                threading.Thread(target=self._serve, args=(client, self._clients), daemon=True).start()

    def _serve(self, client: socket.socket, number: int) -> None:
        with client, suppress(OSError, ConnectionError):
            if self._greets(client, number):
                while True:
                    self._run_transaction(client)

    def _greets(self, client: socket.socket, number: int) -> bool:
        while True:
            (length, code) = struct.unpack("!ii", read_exactly(client, 8))
            rest = read_exactly(client, length - 8)
            if code in ENCRYPTION:
                client.sendall(b"N")
                continue
            break
        if code == CANCEL:
            return False
        if self._refuses_options and b"options\0" in rest:
            refusal = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
            client.sendall(b"E" + struct.pack("!i", len(refusal) + 4) + refusal)
            return False
        server = self._servers[0 if self._announced == "first" else number % len(self._servers)]
        process = number + 1_000_000 if self._announced == "made up" else server.process
        key = b"K" + struct.pack("!iii", 12, process, 1)
        statuses = server.greeting[: server.greeting.index(b"K\0\0\0")]
        client.sendall(b"R" + struct.pack("!ii", 8, 0) + statuses + key + b"Z" + struct.pack("!i", 5) + b"I")
        return True

    def _run_transaction(self, client: socket.socket) -> None:
        message = read_message(client)
        server = self._free.get()
        try:
            while True:
                if message[:1] == b"X":
                    raise ConnectionError
                server.socket.sendall(message)
                if message[:1] in ENDS_OF_REQUEST:
                    end = _answer(server, client)
                    if end[-1:] == b"I":
                        break
                    client.sendall(end)
                message = read_message(client)
        except (OSError, ConnectionError):
            server.socket.sendall(b"Q" + struct.pack("!i", 13) + b"ROLLBACK\0")
            _answer(server, None)
            self._free.put(server)
            raise
        self._free.put(server)  # before the client is answered, so that the next client finds the connection free
        client.sendall(end)


def _answer(server: Server, client: socket.socket | None) -> bytes:
    """Forwards the response except for its last message, which it returns: its last byte is the transaction status."""
    while (message := read_message(server.socket))[:1] != b"Z":
        if client is not None:
            client.sendall(message)
    return message


def read_message(source: socket.socket) -> bytes:
    """One message with its type and length."""
    head = read_exactly(source, 5)
    return head + read_exactly(source, struct.unpack("!i", head[1:])[0] - 4)


def read_exactly(source: socket.socket, count: int) -> bytes:
    """Exactly that many bytes. Raises `ConnectionError` at the end of the stream."""
    read = b""
    while len(read) < count:
        some = source.recv(count - len(read))
        if not some:
            raise ConnectionError
        read += some
    return read


@contextmanager
def pooler(database_url: str, size: int, announced: str, *, refuses_options: bool = False) -> Iterator[Pooler]:
    """Runs a pooler inside the block."""
    made = Pooler(database_url, size, announced, refuses_options=refuses_options)
    try:
        yield made
    finally:
        made.close()
