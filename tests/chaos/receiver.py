"""The receiver of all webhooks, a separate process: `python -m tests.chaos.receiver PORT FOLDER SECRET`.

It behaves as `FOLDER/receiver.mode` says, and records each request in `FOLDER/receiver.log` before it answers. The path
is the name of the account that the webhook belongs to.
"""

from __future__ import annotations

import hashlib
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import orjson

from app.demo.receiver import AnySecret, verify
from tests.chaos.record import LISTEN, Log, mode_of


class Progress:
    """The connections whose requests are in progress, by account."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, set[socket.socket]] = defaultdict(set)

    @contextmanager
    def of(self, account: str, connection: socket.socket) -> Iterator[bool]:
        """Whether another request is in progress of which the client still awaits the answer."""
        with self._lock:
            others = any(map(_is_open, self._of[account]))
            self._of[account].add(connection)
        try:
            yield others
        finally:
            with self._lock:
                self._of[account].discard(connection)


def _is_open(connection: socket.socket) -> bool:
    """Whether the client has not closed it."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    log: Log
    mode: Path
    clock: Path
    secrets: AnySecret
    progress: Progress

    def do_POST(self) -> None:
        """Records the request, and answers unless the mode says otherwise."""
        began = time.time()
        with self.progress.of(self.path, self.connection) as overlaps:
            status = self._take(began, overlaps=overlaps)
        # What follows ends the request for its client, which may begin the next one before this thread goes on.
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.end_headers()

    def _take(self, began: float, *, overlaps: bool) -> int | None:
        """The status of the answer, None for none."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        header = self.headers.get("Service-Signature", "")
        claims = self._claims(body, header)
        jti = (claims or jwt.decode(header, options={"verify_signature": False}))["jti"]
        mode = mode_of(self.mode)
        status = 204 if mode in ("take", "wait") else None
        events = orjson.loads(body)["events"]
        times = {"began": began, "overlaps": overlaps}
        self.log.add(account=self.path[1:], jti=jti, signed=claims is not None, events=events, status=status, **times)
        while mode in ("hang", "wait") and mode == mode_of(self.mode):
            time.sleep(0.05)
        return status

    def _claims(self, body: bytes, header: str) -> dict[str, Any] | None:
        """The claims of a signature, or None unless it is valid. Once the clock of the service was stepped, the times
        in the claims are ignored."""
        if not self.clock.exists():
            return verify(body, header, self.secrets)
        token = header.split(",", maxsplit=1)[0]
        claims: dict[str, Any] = jwt.decode(
            token, self.secrets[""], algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False}
        )
        return claims if claims["body_sha256"] == hashlib.sha256(body).hexdigest() else None

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing: the request is in the log."""


def serve(port: int, folder: Path, secret: str) -> None:
    """Runs until the process is terminated; it does not listen while the mode is `down`."""
    Handler.log = Log(folder / "receiver.log")
    Handler.mode = folder / "receiver.mode"
    Handler.progress = Progress()
    Handler.clock = folder / "clock"
    Handler.secrets = AnySecret(secret)
    while True:
        server = ThreadingHTTPServer((LISTEN, port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        _wait_while(lambda: mode_of(Handler.mode) != "down")
        server.shutdown()
        server.server_close()
        _wait_while(lambda: mode_of(Handler.mode) == "down")


def _wait_while(condition: Callable[[], bool]) -> None:
    while condition():
        time.sleep(0.05)


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
