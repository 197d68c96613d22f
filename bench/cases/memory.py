"""Case J: neither an API process nor a sending process grows with the number of messages or with their size."""

from __future__ import annotations

import base64
import contextlib
import itertools
import time
from collections.abc import Iterator

import orjson

from bench.contacts import Shop, open_shop
from bench.load import rate, request
from bench.mail import Sink, accept, send_request, sink
from bench.options import Options
from bench.processes import resident_bytes, wait_for
from bench.stack import api, send_workers, stack
from bench.turns import Goal, Ratio, Row

MAX_RATIO = 1.10
"""Times the memory after the first 1,000 messages."""
MEBIBYTE = 1024 * 1024
SAMPLES = 15


def run(options: Options) -> list[Row]:
    """The rows of J, in MiB: `floor` is the same process after its first messages."""
    first, all_, large = options.amount(1000, 200), options.amount(100_000, 600), options.amount(100, 3)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        shop = open_shop(parts)
        server = kept.enter_context(api(parts))
        (worker,) = kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        watched = {"an API process": server.workers, "a sending process": [worker]}
        numbers = itertools.count(first)
        readings = []
        accept(server, shop, 0, first, 10)
        _wait_for_mails(target, first)
        readings.append(_memory(watched))
        accept(server, shop, next(numbers), all_ - first, 100)
        _wait_for_mails(target, all_)
        readings.append(_memory(watched))
        rate(server.port, _large_requests(shop, large), lambda status, _: status == 202, clients=2)
        _wait_for_mails(target, all_ + large)
        readings.append(_memory(watched))
    steps = [f"{all_:,} messages", f"{large} more of 10 MiB"]
    return [
        _row(f"J. {name}, after {step}", readings[0][name], later[name])
        for step, later in zip(steps, readings[1:], strict=True)
        for name in watched
    ]


def _wait_for_mails(target: Sink, count: int) -> None:
    wait_for(lambda: target.count()["mails"] >= count, f"{count} mails have arrived", 600, pause=0.2)


def _memory(watched: dict[str, list[int]]) -> dict[str, float]:
    """The memory of the largest process of each kind in MiB: the least of several samples, so that it is idle."""
    least = dict.fromkeys(watched, float("inf"))
    for _ in range(SAMPLES):
        time.sleep(0.2)
        for name, pids in watched.items():
            least[name] = min(least[name], max(map(resident_bytes, pids)) / MEBIBYTE)
    return least


def _large_requests(shop: Shop, count: int) -> Iterator[bytes]:
    """Sends with an attachment of nearly 10 MiB, each built only when it is sent."""
    content = base64.b64encode(bytes(10 * MEBIBYTE - 1024)).decode()
    attachment = {"name": "large.bin", "type": "application/octet-stream", "content": content}
    for number in range(900_000, 900_000 + count):
        small = send_request(shop, range(number, number + 1))
        body = orjson.loads(small.partition(b"\r\n\r\n")[2])
        yield request(
            "POST", "/v1/transactional-sends", shop.token, orjson.dumps({**body, "attachments": [attachment]})
        )


def _row(case: str, before: float, after: float) -> Row:
    return Row(
        case, "MiB", after, before, floor_ratio=Ratio.over([after / before]), goal=Goal(max_floor_ratio=MAX_RATIO)
    )
