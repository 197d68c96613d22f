"""Clients that never finish a request: idle connections, and ones that trickle a header or a body."""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
import threading
from collections.abc import Iterator

BEGINNINGS = (
    b"",
    b"GET /v1/lists HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    b"POST /v1/transactional-sends HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
    b"POST /v1/transactional-sends HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n",
)
TRICKLE_INTERVAL = 0.5
"""Seconds between two bytes of a connection."""


class Crowd:
    """So many connections; each one that the server closes is replaced."""

    def __init__(self, port: int, size: int) -> None:
        self.renewed = 0
        self._port = port
        self._kinds = itertools.cycle(BEGINNINGS)
        self._selector = selectors.DefaultSelector()
        self._ended = threading.Event()
        for _ in range(size):
            self._open(next(self._kinds))

    @property
    def size(self) -> int:
        """Connections that are open now."""
        return len(self._selector.get_map())

    def run(self) -> None:
        """Trickles until `close`."""
        while not self._ended.wait(TRICKLE_INTERVAL):
            for key, _ in self._selector.select(0):
                self._renew(key)
            for key in list(self._selector.get_map().values()):
                with contextlib.suppress(OSError):
                    if key.data:
                        key.fileobj.send(b"x")  # type: ignore[union-attr]

    def close(self) -> None:
        """Stops the trickling."""
        self._ended.set()

    def _renew(self, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        with contextlib.suppress(OSError):
            if key.fileobj.recv(65536):
                return
        self._selector.unregister(key.fileobj)
        key.fileobj.close()
        self.renewed += 1
        self._open(key.data)

    def _open(self, beginning: bytes) -> None:
        link = socket.create_connection(("127.0.0.1", self._port))
        link.sendall(beginning)
        link.setblocking(False)
        self._selector.register(link, selectors.EVENT_READ, beginning)

    def leave(self) -> None:
        """Closes every connection."""
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()


@contextlib.contextmanager
def crowd(port: int, size: int) -> Iterator[Crowd]:
    """Keeps a crowd connected to the server in the block."""
    made = Crowd(port, size)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()
        made.leave()
