"""A TCP proxy in front of a database or a Redis, a separate process: `python -m tests.chaos.proxy PORT FOLDER NAME
SOCKET`, where SOCKET is the path of the server's socket.

It behaves as `FOLDER/NAME.mode` says:

slow        an answer comes a little later, as over a long way
hang        nothing is passed on in any direction
away        connections are cut, and further ones are closed at once
cut-before  some connections are cut in place of a COMMIT
cut-after   some connections are cut when the server has answered a COMMIT, and the client gets no answer
garbage     the client gets something else in place of each answer
"""

from __future__ import annotations

import random
import select
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.chaos.record import mode_of

SLOWLY = (0.02, 0.15)
"""Seconds."""
SHARE = 0.2
"""Share of the commits at which a connection is cut in those modes."""
POLL = 0.05
CHUNK_BYTES = 1 << 16
COMMIT = b"COMMIT\0"
GARBAGE = (
    *(b"+OK\r\n", b":7\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"$5\r\nwrong\r\n", b"*2\r\n$1\r\na\r\n:1\r\n"),
    *(b"-ERR no\r\n", b"-WRONGTYPE no\r\n", b"-LOADING soon\r\n", b"-READONLY no\r\n", b"-MOVED 1 10.0.0.1:1\r\n"),
    *(
        b"$99999999\r\nshort\r\n",
        b"*1000000\r\n",
        b"$x\r\n",
        b":x\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0" * 40,
    ),
)
"""What a broken Redis answers: replies of other types, errors, and bytes that are no reply."""


class Cut(Exception):
    """The connection is cut."""


class Proxy:
    """What all connections share."""

    def __init__(self, folder: Path, name: str, target: str) -> None:
        self._mode = folder / f"{name}.mode"
        self._target = target
        self._chance = random.Random(name)

    @property
    def mode(self) -> str:
        return mode_of(self._mode)

    def serve(self, client: socket.socket) -> None:
        """Passes on what both sides send, until one of them closes the connection or the mode cuts it."""
        with client, suppress(OSError, Cut), socket.socket(socket.AF_UNIX) as server:
            self._wait()
            server.connect(self._target)
            while True:
                readable = select.select([client, server], [], [], POLL)[0]
                self._wait()
                for readable_socket in readable:
                    data = readable_socket.recv(CHUNK_BYTES)
                    if not data:
                        raise Cut
                    if readable_socket is client:
                        self._ask(server, data)
                    else:
                        client.sendall(self._answer(data))

    def _wait(self) -> None:
        while (mode := self.mode) == "hang":
            time.sleep(POLL)
        if mode == "away":
            raise Cut

    def _ask(self, server: socket.socket, data: bytes) -> None:
        is_cut = COMMIT in data and self.mode in ("cut-before", "cut-after") and self._chance.random() < SHARE
        if is_cut and self.mode == "cut-before":
            raise Cut
        server.sendall(data)
        if is_cut:
            server.recv(CHUNK_BYTES)
            raise Cut

    def _answer(self, data: bytes) -> bytes:
        mode = self.mode
        if mode == "slow":
            time.sleep(self._chance.uniform(*SLOWLY))
        if mode == "garbage":
            return self._chance.choice((*GARBAGE, self._chance.randbytes(30)))
        return data


def serve(port: int, folder: Path, name: str, target: str) -> None:
    """Runs until the process is terminated, with a thread per connection."""
    proxy = Proxy(folder, name, target)
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
