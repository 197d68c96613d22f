"""The order in which tests are handed out to the test processes.

`worksteal` of pytest-xdist cuts the list of tests into one piece for each process. A process works through its piece
from the front, and gets the second half of the longest piece when it has finished: half of the tests, however long they
take. In the order of the files one process would get all the services of tests/e2e, which take seconds each, and would
still be busy with them when nothing else is left. So each piece begins with its share of the slow tests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

from tests.support.databases import backend

SLOW = (
    "tests/e2e/",
    "tests/processes/",
    "tests/server/",
    "tests/api/test_openapi.py",
    "tests/jobs/delivery/test_crash.py",
    "tests/jobs/delivery/test_day.py",
    "tests/jobs/delivery/test_fairness.py",
    "tests/databases/test_schedule.py",
    "tests/jobs/test_worker.py",
    "tests/migrations/",
    "tests/restore/test_killed.py",
    "tests/scaling/test_plans.py",
    "tests/unit/network/test_lookup.py",
    "tests/unit/running/test_private_folder.py",
)
"""Files in which single tests take a second or more (`make test ARGS=--durations=60`)."""
SERVICES = {"demo", "running", "service", "web", "strict", "narrow", "hasty", "replaced", "full"}
"""Fixtures with a service or a filled database that several of these tests use: each process that runs one of them
makes its own."""


def handed_out(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in the best order for that number of processes."""
    hands = _dealt([item for item in items if _is_slow(item) and not backend(item)], processes)
    others = [item for item in items if not _is_slow(item) or backend(item)]
    ordered: list[pytest.Item] = []
    for number, hand in enumerate(hands):
        size = (len(items) - len(ordered)) // (processes - number)  # as `worksteal` cuts them
        count = max(size - len(hand), 0)
        ordered += [*hand, *_slow_first(others[:count])]
        others = others[count:]
    return ordered


def _dealt(items: Iterable[pytest.Item], processes: int) -> list[list[pytest.Item]]:
    """Deals the tests to the processes in turn; those with the same service stay together and in order."""
    together: dict[object, list[pytest.Item]] = defaultdict(list)
    for item in items:
        together[_service(item) or item.nodeid].append(item)
    hands: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for number, group in enumerate(sorted(together.values(), key=len, reverse=True)):
        hands[number % processes] += group
    return hands


def _slow_first(piece: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Slow tests first, those of one database still together: switching it costs a migration."""
    backends: dict[object, int] = {}
    return sorted(piece, key=lambda item: (backends.setdefault(backend(item), len(backends)), not _is_slow(item)))


def _is_slow(item: pytest.Item) -> bool:
    return item.nodeid.startswith(SLOW)


def _service(item: pytest.Item) -> tuple[str, object] | None:
    """The service that the test shares with others, with its parameter; empty for none."""
    used = SERVICES.intersection(getattr(item, "fixturenames", ()))
    if not used:
        return None
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return min(used), params.get(min(used))
