"""The mails of the delivery cases: the sends that are accepted, and the sink that receives them."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from bench.contacts import Shop
from bench.load import rate, request
from bench.processes import CaseFailure, listens, running, wait_for
from bench.stack import Server, Stack, free_port

SUBJECT = "Your order %%order%%"
TEXT = (
    "Hello %%first_name%% %%last_name%%,\n\nyour order %%order%% of %%total%% is on its way:\n%%link%%\n\nThank you\n"
)
HTML = (
    "<html><body><p>Hello %%first_name%% %%last_name%%,</p><p>your order <b>%%order%%</b> of %%total%% is "
    '<a href="https://shop.bench.example/orders">on its way</a>: %%link%%.</p><p>Thank you</p></body></html>'
)


def values(number: int) -> dict[str, str]:
    """The five values of the recipient with this number."""
    return {
        "first_name": f"First{number % 977}",
        "last_name": f"Last{number % 1009}",
        "order": f"A-{number:08d}",
        "total": f"{number % 500}.50",
        "link": f"https://shop.bench.example/orders/{number}",
    }


def send_request(shop: Shop, numbers: range, *, tracked: bool = False, priority: str = "normal") -> bytes:
    """A request that sends to the recipients with these numbers."""
    body = {
        "type": "email",
        "list_id": shop.list_id,
        "group_name": "Orders",
        "subject": SUBJECT,
        "from_name": "Bench",
        "from_address": "hello@bench.example",
        "body_text": TEXT,
        "body_html": HTML,
        "track_opens": tracked,
        "track_clicks": tracked,
        "priority": priority,
        "recipients": [{"email": f"person{number}@customers.example", **values(number)} for number in numbers],
    }
    return request("POST", "/v1/transactional-sends", shop.token, orjson.dumps(body))


def accept(server: Server, shop: Shop, first: int, count: int, per_send: int, *, tracked: bool = False) -> None:
    """Lets the service accept mails to so many recipients."""
    end = first + count
    starts = range(first, end, per_send)
    requests = [send_request(shop, range(start, min(start + per_send, end)), tracked=tracked) for start in starts]
    rate(server.port, requests, lambda status, _: status == 202)


@dataclass(frozen=True, slots=True)
class Sink:
    """The mail server of a case (bench/sink.py), a process of its own."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """For EMAIL_TRANSPORT_URL, with all mails in one session, as floor and peer send theirs."""
        return f"smtp://127.0.0.1:{self.port}?messages=1000000"

    def reset(self) -> None:
        """Forgets what has arrived."""
        self._ask(b"XRESET\r\n")

    def count(self) -> dict[str, Any]:
        """The numbers of what has arrived since."""
        counts: dict[str, Any] = json.loads(self._ask(b"XCOUNT\r\n")[4:])
        return counts

    def time_of(self, number: int) -> float:
        """The time of the DATA to this recipient; 0 before it."""
        return float(self._ask(b"XTIME %d\r\n" % number)[4:])

    def check(self, mails: int) -> None:
        """Raises `CaseFailure` unless exactly so many mails have arrived, each to its recipient, with its content."""
        counts = self.count()
        if (counts["mails"], counts["recipients"], counts["wrong"]) != (mails, mails, 0):
            raise CaseFailure(f"{mails} mails were sent; arrived: {counts}")

    def _ask(self, command: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port)) as link, link.makefile("rwb") as stream:
            stream.readline()
            stream.write(command)
            stream.flush()
            return stream.readline()


@contextlib.contextmanager
def sink(stack: Stack) -> Iterator[Sink]:
    """A sink in a process of its own."""
    port = free_port()
    with running("sink", ["-m", "bench.sink", str(port)], {}, stack.folder) as pid:
        wait_for(lambda: listens(port), "the sink listens")
        yield Sink(port, pid)
