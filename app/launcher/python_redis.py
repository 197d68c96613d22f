"""A Redis in Python, for machines that have no other: `python -m app.launcher.python_redis SOCKET`.

fakeredis holds the data and knows the commands; this serves it on a Unix socket, which takes no port and which others
cannot reach. (Over TCP it would also have to switch Nagle's algorithm off, or each command of a pipeline would wait 40
ms.) It keeps nothing on disk: what Redis holds here may be lost at any moment. It suits development and a small
installation; a real Redis carries ten times as much.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from fakeredis import TcpFakeServer
from fakeredis._clients._tcp_server import TCPFakeRequestHandler
from redis.exceptions import RedisError

CHUNK = 65536
SHUTDOWN = b"*1\r\n$8\r\nSHUTDOWN\r\n"
"""How a client asks a server to end; fakeredis does not know it."""
BACKLOG = 128


class Connection(TCPFakeRequestHandler):
    """One client. fakeredis' own loop looks a hundred times a second whether there is something to push, and closes the
    connection after an error reply; nothing is ever pushed to our clients, so this one waits for them."""

    def handle(self) -> None:
        """Until the client is gone."""
        self.connection.setblocking(True)
        with contextlib.suppress(ConnectionError):
            while data := self.connection.recv(CHUNK):
                if data == SHUTDOWN:
                    end()
                self.current_client.get_socket().sendall(data)
                self._answer()

    def _answer(self) -> None:
        while self.current_client.can_read():
            try:
                reply = self.current_client.read_response()
            except RedisError as error:
                reply = error
            self.writer.dump(reply)


class Server(TcpFakeServer):
    """The server, on a Unix socket."""

    address_family = socket.AF_UNIX
    request_queue_size = BACKLOG

    def __init__(self, path: Path) -> None:
        self._numbers = itertools.count(1)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        super().__init__(str(path))  # type: ignore[arg-type]  # typed for TCP
        self.RequestHandlerClass = Connection
        self.daemon_threads = True

    def get_request(self) -> tuple[socket.socket, Any]:
        """Clients of a Unix socket have no address; fakeredis tells them apart by it."""
        connection, _ = super().get_request()
        return connection, ("unix", next(self._numbers))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects in the middle of an answer is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def end() -> None:
    """At once: nothing has to be kept."""
    os._exit(0)


def main(path: Path) -> None:
    """Serves until SIGTERM or SIGINT, and no longer than the launcher lives."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    Server(path).serve_forever()


def _end(_number: int, _frame: FrameType | None) -> None:
    end()


def _follow(parent: int) -> None:
    """Ends with the parent process; only Linux can signal a process at its parent's death."""
    while os.getppid() == parent:
        threading.Event().wait(1)
    end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
