"""A Redis in Python, for machines without another one: `python -m app.launcher.python_redis SOCKET`.

fakeredis stores the data and implements the commands; this module serves it on a Unix socket, which needs no port and
which other machines cannot reach. (Over TCP it would also have to disable Nagle's algorithm, or each command of a
pipeline would wait 40 ms.) Nothing is stored on disk, because the service can lose its Redis data at any moment. It is
enough for development and a small installation; a real Redis handles ten times the load.
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
"""The command by which a client ends a server; fakeredis does not implement it."""
BACKLOG = 128


class Connection(TCPFakeRequestHandler):
    """One client. The loop of fakeredis checks a hundred times a second whether there is something to push, and closes
    the connection after an error reply. Nothing is pushed to our clients, so this loop just waits for commands."""

    def handle(self) -> None:
        """Executes commands until the client disconnects."""
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
        """Gives each client a number as its address: a Unix socket has none, and fakeredis identifies clients by it."""
        connection, _ = super().get_request()
        return connection, ("unix", next(self._numbers))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect in the middle of a reply."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def end() -> None:
    """Ends the process at once; nothing needs to be saved."""
    os._exit(0)


def main(path: Path) -> None:
    """Serves until SIGTERM or SIGINT, or until the launcher ends."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    Server(path).serve_forever()


def _end(_number: int, _frame: FrameType | None) -> None:
    end()


def _follow(parent: int) -> None:
    """Ends with the parent process. It polls, because only Linux signals a process when its parent dies."""
    while os.getppid() == parent:
        threading.Event().wait(1)
    end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
