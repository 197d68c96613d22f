"""A lean webhook receiver in a process of its own: `python -m bench.receiver PORT`.

It answers every POST over persistent connections, and only keeps the bodies. `GET /bodies` returns how many have
arrived. `GET /report` returns the ids of all events in the order of arrival and the signatures of a sample of requests,
and forgets them.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jwt
import orjson

from bench.load import END_OF_HEAD, fetch, request
from bench.processes import CaseFailure

ACCEPTED = b"HTTP/1.1 204 No Content\r\n\r\n"
BUFFER = 1 << 20
SAMPLES = 10
"""The requests of a round whose signatures are verified."""


@dataclass(slots=True)
class Arrivals:
    """What has arrived since the last report."""

    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


def main(port: int) -> None:
    """Serves until the process is terminated, with a thread for each of its few connections."""
    kept = Arrivals()
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            link, _ = server.accept()
            threading.Thread(target=_serve, args=(link, kept), daemon=True).start()


def _serve(link: socket.socket, kept: Arrivals) -> None:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    received = bytearray()
    with link:
        while part := link.recv(BUFFER):
            received += part
            while (whole := _request(received)) is not None:
                head, body = whole
                link.sendall(_answer(head, body, kept))
                del received[: len(head) + len(END_OF_HEAD) + len(body)]


def _request(received: bytearray) -> tuple[bytes, bytes] | None:
    """The head and the body of the first request, once it is complete."""
    end = received.find(END_OF_HEAD)
    if end < 0:
        return None
    head = bytes(received[:end])
    length = int(headers_of(head).get("content-length", "0"))
    start = end + len(END_OF_HEAD)
    return (head, bytes(received[start : start + length])) if len(received) >= start + length else None


def _answer(head: bytes, body: bytes, kept: Arrivals) -> bytes:
    if head.startswith(b"POST "):
        kept.heads.append(head)
        kept.bodies.append(body)
        return ACCEPTED
    content = orjson.dumps(_report(kept) if head.startswith(b"GET /report") else len(kept.bodies))
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)


def _report(kept: Arrivals) -> dict[str, Any]:
    heads, bodies = kept.heads, kept.bodies
    kept.heads, kept.bodies = [], []
    step = max(len(bodies) // SAMPLES, 1)
    samples = [
        {
            "signature": headers_of(heads[place])["service-signature"],
            "sha256": hashlib.sha256(bodies[place]).hexdigest(),
        }
        for place in range(0, len(bodies), step)
    ]
    return {"ids": [event["id"] for body in bodies for event in orjson.loads(body)["events"]], "samples": samples}


def headers_of(head: bytes) -> dict[str, str]:
    """The headers by name, in lower case."""
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.lower(): value.strip() for name, _, value in pairs}


def bodies_at(port: int) -> int:
    """The number of requests that the receiver at this port has accepted since the last report."""
    number: int = orjson.loads(fetch(port, request("GET", "/bodies", ""))[1])
    return number


def answers(port: int) -> bool:
    """Whether the receiver at this port answers, and nothing has arrived yet."""
    with contextlib.suppress(OSError):
        return bodies_at(port) == 0
    return False


def check_all_arrived(port: int, ids: Sequence[int], secrets: Mapping[str, str]) -> None:
    """Raises `CaseFailure` unless exactly these events arrived once each, in this order, signed with all secrets."""
    report = orjson.loads(fetch(port, request("GET", "/report", ""))[1])
    if report["ids"] != list(ids):
        seen = report["ids"]
        raise CaseFailure(
            f"{len(seen)} events arrived, {len(set(seen))} different ones, instead of {len(ids)} in order"
        )
    for sample in report["samples"]:
        _verify(sample["signature"], sample["sha256"], secrets)


def _verify(signature: str, sha256: str, secrets: Mapping[str, str]) -> None:
    signers = []
    for token in signature.split(","):
        key_id = jwt.get_unverified_header(token)["kid"]
        signers.append(key_id)
        claims = jwt.decode(token, secrets[key_id], algorithms=["HS256"])
        if claims["body_sha256"] != sha256:
            raise CaseFailure("a signature does not match its body")
    if signers != list(secrets):
        raise CaseFailure(f"signed by {signers} instead of {list(secrets)}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
