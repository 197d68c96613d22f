"""A real HTTP server on the loopback address that records the requests to it and answers according to its script."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from app.clock import now
from tests.support.servers import PATIENCE


@dataclass(frozen=True)
class Hit:
    """One request."""

    time: datetime
    path: str
    headers: Message
    body: bytes
    client_port: int

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of the body."""
        events: list[dict[str, Any]] = orjson.loads(self.body)["events"]
        return events


@dataclass
class Reply:
    """A response; with a gate it is delayed until the gate is set. With status 0 there is none: the connection ends."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    gate: threading.Event | None = None


class Receiver:
    """The server; `with Receiver() as receiver`. The last reply of the script is repeated."""

    def __init__(self, *replies: Reply | int, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.hits: list[Hit] = []
        self._replies = _written(replies)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((host, 0), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}/in"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, *replies: Reply | int) -> None:
        """Answers so from now on."""
        with self._lock:
            self._replies = _written(replies)

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events received, in order."""
        return [event for hit in self.hits for event in hit.events]

    def _take(self, hit: Hit) -> Reply:
        with self._lock:
            self.hits.append(hit)
            return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                with suppress(OSError):  # a client may have given up
                    self._serve()

            do_GET = do_PATCH = do_DELETE = do_POST

            def _serve(self) -> None:
                moment = now()
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                reply = receiver._take(Hit(moment, self.path, self.headers, body, self.client_address[1]))
                if reply.gate:
                    reply.gate.wait(PATIENCE)
                if not reply.status:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if "Connection" in reply.headers:
                    self.close_connection = True
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def _written(replies: Sequence[Reply | int]) -> list[Reply]:
    return [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies] or [Reply()]
