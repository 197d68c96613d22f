"""The receiver of all webhooks, a separate process: `python -m tests.chaos.receiver PORT FOLDER SECRET`.

It behaves as `FOLDER/receiver.mode` says, and records each request in `FOLDER/receiver.log` before it answers. The path
is the name of the account that the webhook belongs to.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import orjson

from app.demo.receiver import AnySecret, verify
from tests.chaos.record import Log, mode_of


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    log: Log
    mode: Path
    clock: Path
    secrets: AnySecret

    def do_POST(self) -> None:
        """Records the request, and answers unless the mode says otherwise."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        header = self.headers.get("Service-Signature", "")
        claims = self._claims(body, header)
        jti = (claims or jwt.decode(header, options={"verify_signature": False}))["jti"]
        mode = mode_of(self.mode)
        status = 204 if mode == "take" else None
        events = orjson.loads(body)["events"]
        self.log.add(account=self.path[1:], jti=jti, signed=claims is not None, events=events, status=status)
        while mode == "hang" == mode_of(self.mode):
            time.sleep(0.05)
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.end_headers()

    def _claims(self, body: bytes, header: str) -> dict[str, Any] | None:
        """Those of a valid signature. Its times say nothing once the clock of the service was stepped."""
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
    Handler.clock = folder / "clock"
    Handler.secrets = AnySecret(secret)
    while True:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
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
