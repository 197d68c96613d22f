"""Several processes of the tests get the slow ones first, in equal shares (tests/support/handing_out.py)."""

from __future__ import annotations

import pytest

from tests.support import handing_out

PROCESSES = 3


@pytest.fixture
def items(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[pytest.Item]:
    """Thirty tests of this module, the last six of which are slow."""
    monkeypatch.setattr(handing_out, "SLOW", (f"{request.node.parent.nodeid}::slow",))
    names = [*(f"quick{number}" for number in range(24)), *(f"slow{number}" for number in range(6))]
    made = [pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None) for name in names]
    return list(made)


def test_each_piece_begins_with_its_share_of_the_slow_tests(items: list[pytest.Item]) -> None:
    ordered = [item.name for item in handing_out.handed_out(items, PROCESSES)]
    assert sorted(ordered) == sorted(item.name for item in items)
    pieces = [ordered[:10], ordered[10:20], ordered[20:]]
    assert [[name.startswith("slow") for name in piece] for piece in pieces] == [[True] * 2 + [False] * 8] * PROCESSES


def test_tests_with_the_same_service_stay_together(items: list[pytest.Item]) -> None:
    for item in items[-3:]:
        item.fixturenames.append("demo")  # type: ignore[attr-defined]
    ordered = [item.name for item in handing_out.handed_out(items, PROCESSES)]
    assert ordered[:3] == ["slow3", "slow4", "slow5"]
