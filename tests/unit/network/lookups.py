"""Every function of the service that looks up a name, each called with a name that no server answers for.

As a program it prints the error of each as JSON; its name server is a socket that never answers.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import closing

import psycopg
from redis.exceptions import RedisError

from app.db.bounded_connection import BoundedConnection, DatabaseCircuitBreaker, Servers
from app.events.dispatch import WebhookClient
from app.infrastructure.redis_client import connect_redis
from app.network.lookup import look_up
from app.transports.base import OutboundSms
from app.transports.email.smtp_session import SessionClosed, open_session, tls_context
from app.transports.email.smtp_url import parse_smtp_url
from app.transports.sms.kannel import kannel_transport
from app.transports.sms.smpp_client import SmppClient
from app.transports.sms.smpp_url import parse_smpp_url

SECONDS = 0.1
HOST = "host.hanging.example"
SIOCSIFFLAGS, IFF_UP_AND_RUNNING = 0x8914, 0x41


def _error_of(call: Callable[[], object], *kinds: type[Exception]) -> str:
    try:
        return f"no error: {call()}"
    except kinds as error:
        return str(error)


def _smtp(scheme: str) -> str:
    settings = parse_smtp_url(f"{scheme}://{HOST}?timeout={SECONDS}")
    try:
        open_session(settings, tls_context(settings))
    except SessionClosed as error:
        return error.result.note or ""
    return "no error"


def _smpp() -> str:
    client = SmppClient(parse_smpp_url(f"smpp://user:password@{HOST}?timeout={SECONDS}"), None, None)
    return _error_of(client.connect, OSError)


def _kannel(scheme: str) -> str:
    transport = kannel_transport(f"kannel+{scheme}://user:password@{HOST}?timeout={SECONDS}")
    return transport.send(OutboundSms("uuid", sender="1", to="2", text="x")).note or ""


def _webhook() -> str:
    with closing(WebhookClient(connect_timeout=SECONDS)) as client:
        return client.post(1, f"https://{HOST}/in", b"{}", {}, allow_private=False).detail


def _redis(scheme: str) -> str:
    return _error_of(connect_redis(f"{scheme}://{HOST}/0?socket_connect_timeout={SECONDS}").ping, RedisError)


def _postgresql() -> str:
    options = {"host": HOST, "dbname": "x", "user": "x"}
    return _error_of(
        lambda: BoundedConnection.open(DatabaseCircuitBreaker(), (), options, Servers()), psycopg.OperationalError
    )


NO_ANSWER = f"no answer about {HOST} from the name server in"
ERRORS = {
    **dict.fromkeys(("look_up", "smtp", "smtps", "smpp", "webhook", "postgresql"), NO_ANSWER),
    **dict.fromkeys(("kannel", "kannel over TLS"), "ConnectTimeoutError"),
    **dict.fromkeys(("redis", "redis over TLS"), "Timeout connecting to server"),
}
"""A part of the error of each: two libraries have texts of their own."""
LOOKUPS: dict[str, Callable[[], str]] = {
    "look_up": lambda: _error_of(lambda: look_up(HOST, SECONDS), OSError),
    "smtp": lambda: _smtp("smtp"),
    "smtps": lambda: _smtp("smtps"),
    "smpp": _smpp,
    "kannel": lambda: _kannel("http"),
    "kannel over TLS": lambda: _kannel("https"),
    "webhook": _webhook,
    "redis": lambda: _redis("redis"),
    "redis over TLS": lambda: _redis("rediss"),
    "postgresql": _postgresql,
}


def errors() -> dict[str, str]:
    """The error of each lookup; returns only if every one ends."""
    return {name: call() for name, call in LOOKUPS.items()}


def _raise_loopback() -> None:
    """The loopback interface of a new network namespace is down."""
    with socket.socket() as anything:
        fcntl.ioctl(anything, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP_AND_RUNNING))


def main() -> None:
    _raise_loopback()
    queries: list[bytes] = []
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 53))

    def receive() -> None:
        while True:
            queries.append(silent.recv(4096))

    threading.Thread(target=receive, daemon=True).start()
    json.dump({"errors": errors(), "queries": len(queries)}, sys.stdout)


if __name__ == "__main__":
    main()
