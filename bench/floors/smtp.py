"""The SMTP connection of the floors of delivery."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def greeted(port: int) -> Iterator[tuple[socket.socket, Any]]:
    """A connection to the sink after EHLO, and the stream of its replies."""
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = link.makefile("rb")
        stream.readline()
        link.sendall(b"EHLO floor\r\n")
        while stream.readline()[3:4] == b"-":
            pass
        yield link, stream
