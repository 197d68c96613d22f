"""The order in which the processes of the tests get them.

`worksteal` of pytest-xdist cuts the list of tests into one piece for each process. A process works through its piece
from the front, and gets the second half of the longest piece when it has finished: half of the tests, whatever they
take. In the order of the files one process would get all the services of tests/e2e, which take seconds each, and would
still be at work on them when nothing else is left. So each piece begins with its share of the slow tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import pytest

SLOW = (
    "tests/e2e/",
    "tests/server/",
    "tests/api/test_openapi.py",
    "tests/jobs/delivery/test_crash.py",
    "tests/jobs/delivery/test_day.py",
    "tests/jobs/delivery/test_fairness.py",
    "tests/jobs/test_inbound.py",
    "tests/jobs/test_schedule.py",
    "tests/jobs/test_sms_worker.py",
    "tests/jobs/test_worker.py",
)
"""Where single tests take a second or more (`make test ARGS=--durations=60`)."""


def handed_out(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in the order that suits so many processes."""
    hands = _dealt([item for item in items if _is_slow(item) and not _backend(item)], processes)
    others = [item for item in items if not _is_slow(item) or _backend(item)]
    ordered: list[pytest.Item] = []
    for number, hand in enumerate(hands):
        size = (len(items) - len(ordered)) // (processes - number)  # as `worksteal` cuts them
        count = max(size - len(hand), 0)
        ordered += [*hand, *_slow_first(others[:count])]
        others = others[count:]
    return ordered


def _dealt(items: Iterable[pytest.Item], processes: int) -> list[list[pytest.Item]]:
    """One after the other to each process in turn; those that share a service of their module stay together."""
    hands: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for number, (_, together) in enumerate(groupby(items, _shared)):
        hands[number % processes] += together
    return hands


def _slow_first(piece: Iterable[pytest.Item]) -> list[pytest.Item]:
    """With those of one database still together: a change of it costs a migration."""
    backends: dict[object, int] = {}
    return sorted(piece, key=lambda item: (backends.setdefault(_backend(item), len(backends)), not _is_slow(item)))


def _is_slow(item: pytest.Item) -> bool:
    return item.nodeid.startswith(SLOW)


def _backend(item: pytest.Item) -> object:
    """Which of the two databases of the process it needs, if any."""
    return item.callspec.params.get("settings") if hasattr(item, "callspec") else None


def _shared(item: pytest.Item) -> object:
    """The module and its services that the test uses, or the test alone."""
