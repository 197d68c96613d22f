"""Kannel's `sendsms` for tests: an HTTP server on the loopback address."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


class Gateway:
    """Keeps the requests, and answers with `status` and `body`; with `loses_answers` it takes a text without a word."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status, self.body = 202, "0: Accepted for delivery"
        self.loses_answers = False
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: text for name, (text,) in parse_qs(parts.query, keep_blank_values=True).items()}
                gateway.asked.append((parts.path, query))
                if gateway.loses_answers:
                    self.close_connection = True
                    return
                answer = gateway.body.encode()
                self.send_response(gateway.status)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Logs nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self) -> Self:
        self._thread = Thread(target=self.server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def url(self, options: str = "") -> str:
        return f"kannel+http://to%40m:p%26w@127.0.0.1:{self.server.server_address[1]}/cgi-bin/sendsms{options}"
