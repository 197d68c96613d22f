"""An example of a webhook receiver: `python -m app.demo.receiver` prints a line for each event with a valid signature.

It listens on the loopback address, at RECEIVER_PORT, and knows one secret, RECEIVER_SECRET. It shows everything that a
receiver must do: `verify` is the snippet of docs/webhooks.md.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import orjson

MAX_BYTES = 32 * 1024 * 1024


def verify(body: bytes, header: str, secrets: Mapping[str, str]) -> dict[str, Any] | None:
    """The claims of the first signature that proves this body, or None. `secrets` maps key ids to secrets."""
    for token in header.split(","):
        try:
            secret = secrets[jwt.get_unverified_header(token)["kid"]]
            claims = jwt.decode(token, secret, algorithms=["HS256"], leeway=30, options={"require": ["exp"]})
        except (KeyError, jwt.InvalidTokenError):
            continue  # signed with a secret that is not known here, or not valid
        digest = hashlib.sha256(body).hexdigest()
        if hmac.compare_digest(str(claims.get("body_sha256")), digest):
            return claims
    return None


class AnySecret(dict[str, str]):
    """One secret under every key id."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def __missing__(self, _key_id: str) -> str:
        return self._secret


class Handler(BaseHTTPRequestHandler):
    """Answers 204 to valid signatures and 401 to others."""

    protocol_version = "HTTP/1.1"
    secrets: Mapping[str, str]

    def do_POST(self) -> None:
        """Verifies before it parses: unsigned bodies are not parsed."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BYTES:
            self._answer(400, "refused   a request without a usable Content-Length")
            return
        body = self.rfile.read(int(length))
        if verify(body, self.headers.get("Service-Signature", ""), self.secrets) is None:
            self._answer(401, "refused   a request without a valid signature")
            return
        self._answer(204, *(describe(event) for event in orjson.loads(body)["events"]))

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing: only events are printed."""

    def _answer(self, status: int, *lines: str) -> None:
        for line in lines:
            # Text that somebody wrote in a name or a reply must not reach the terminal as a command.
            print(
                "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line),
                flush=True,
            )
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if status == 400:
            self.send_header("Connection", "close")
        self.end_headers()


def describe(event: Mapping[str, Any]) -> str:
    """One line about an event: its kind, contact or recipient, and time."""
    whom = event.get("email") or event.get("mobile") or f"{event['object']} {event['id']}"
    why = event.get("fail_reason") or event.get("bounce_reason") or event.get("group_name") or ""
    what = f"{event['object']} {event['event']}"
    return f"verified  {what:<22}{whom:<32}{event['timestamp']}  {why}".rstrip()


def make_server(port: int, secret: str) -> ThreadingHTTPServer:
    """A receiver on the loopback address; port 0 takes a free one."""
    handler = type("SecretHandler", (Handler,), {"secrets": AnySecret(secret)})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    return server


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Serves until it is terminated; returns the exit status."""
    port, secret = environ.get("RECEIVER_PORT", ""), environ.get("RECEIVER_SECRET", "")
    if not port.isdecimal() or not secret:
        print("RECEIVER_PORT and RECEIVER_SECRET must be set: a port and the webhook's secret", file=sys.stderr)
        return 2
    try:
        server = make_server(int(port), secret)
    except (OSError, OverflowError) as error:
        print(f"RECEIVER_PORT={port}: cannot listen: {error}", file=sys.stderr)
        return 1
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
