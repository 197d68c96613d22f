"""Which migrations run while processes of the release before do (docs/upgrade.md#migrations)."""

from __future__ import annotations

import pytest

from app.db.phases import Migration, Part, Plan, oldest_code, oldest_of, plan

FIRST = Migration("0100", "expand", "0074")
EXPANDING = Migration("0101", "expand", "")
CONTRACTING = Migration("0102", "contract", "0101")
NEXT_EXPANDING = Migration("0103", "expand", "")
NEXT_CONTRACTING = Migration("0104", "contract", "0103")
KNOWN = (FIRST, EXPANDING, CONTRACTING, NEXT_EXPANDING, NEXT_CONTRACTING)


@pytest.mark.parametrize(
    ("part", "at", "in_use", "run"),
    [
        pytest.param("expand", "0100", "0100", ["0101"], id="the next release"),
        pytest.param("expand", "0101", "0100", [], id="a second time"),
        pytest.param("contract", "0101", "0100", ["0102", "0103"], id="once its processes run"),
        pytest.param("expand", "0102", "0101", ["0103"], id="the release after that"),
        pytest.param("expand", "0101", "0101", ["0102", "0103"], id="what no process needs any more"),
        pytest.param("all", "0100", "0100", ["0101", "0102", "0103", "0104"], id="everything stands still"),
        pytest.param("expand", None, "0104", ["0100", "0101", "0102", "0103", "0104"], id="a new database"),
        pytest.param("expand", "0074", "0074", ["0100", "0101"], id="from before the first release"),
        pytest.param("expand", "0074", "0072", [], id="beside code that is older than that"),
    ],
)
def test_what_each_part_runs(part: Part, at: str | None, in_use: str, run: list[str]) -> None:
    pending = tuple(migration for migration in KNOWN if migration.revision > (at or ""))
    left = [migration.revision for migration in pending if migration.revision not in run]
    assert plan(pending, part, at, in_use) == Plan(tuple(run), tuple(left))


def test_a_release_works_with_its_schema_before_it_is_contracted() -> None:
    assert [oldest_of(KNOWN[:count]) for count in range(1, 6)] == ["0100", "0101", "0101", "0103", "0103"]


def test_a_schema_says_which_code_it_fits() -> None:
    assert [oldest_code(migration.revision, KNOWN) for migration in KNOWN] == ["0074", "0074", "0101", "0101", "0103"]
