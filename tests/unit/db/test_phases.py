"""Which migrations run while processes of the release before do (docs/operations.md#migrations)."""

from __future__ import annotations

import pytest

from app.db.phases import Migration, Part, Plan, oldest_code, oldest_of, plan

BEFORE = Migration("0034", "contract", "0034")
EXPANDING = Migration("0035", "expand", "")
CONTRACTING = Migration("0036", "contract", "0035")
NEXT_EXPANDING = Migration("0037", "expand", "")
NEXT_CONTRACTING = Migration("0038", "contract", "0037")
KNOWN = (BEFORE, EXPANDING, CONTRACTING, NEXT_EXPANDING, NEXT_CONTRACTING)


@pytest.mark.parametrize(
    ("part", "at", "in_use", "run"),
    [
        pytest.param("expand", "0034", "0034", ["0035"], id="the first release with phases"),
        pytest.param("expand", "0035", "0034", [], id="a second time"),
        pytest.param("contract", "0035", "0034", ["0036", "0037"], id="once its processes run"),
        pytest.param("expand", "0036", "0035", ["0037"], id="the next release"),
        pytest.param("expand", "0035", "0035", ["0036", "0037"], id="what no process needs any more"),
        pytest.param("all", "0034", "0034", ["0035", "0036", "0037", "0038"], id="everything stands still"),
        pytest.param("expand", None, "0038", ["0034", "0035", "0036", "0037", "0038"], id="a new database"),
        pytest.param("expand", "0033", "0033", [], id="from before there were phases"),
    ],
)
def test_what_each_part_runs(part: Part, at: str | None, in_use: str, run: list[str]) -> None:
    pending = tuple(one for one in KNOWN if one.revision > (at or ""))
    left = [one.revision for one in pending if one.revision not in run]
    assert plan(pending, part, at, in_use) == Plan(tuple(run), tuple(left))


def test_a_release_works_with_its_schema_before_it_is_contracted() -> None:
    assert [oldest_of(KNOWN[:count]) for count in range(1, 6)] == ["0034", "0035", "0035", "0037", "0037"]


def test_a_schema_says_which_code_it_fits() -> None:
    assert [oldest_code(one.revision, KNOWN) for one in KNOWN] == ["0034", "0034", "0035", "0035", "0037"]
