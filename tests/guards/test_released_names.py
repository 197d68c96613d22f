"""What was written for the last release goes on working: scripts, seed files, environments, dashboards
(docs/stability.md)."""

from __future__ import annotations

from tests.support.cases import each
from tests.support.names import RELEASED, lost, names

OLD = RELEASED.read_text("utf-8").splitlines()
DECIDED: dict[str, str] = {}
"""What is lost all the same, with the reason."""
SEND = "command sends retry"


def test_no_name_of_the_last_release_is_gone() -> None:
    assert [line for line in lost(OLD, names()) if line not in DECIDED] == []


@each(
    "line",
    [
        f"{SEND} --dry-run",
        "command worker",
        "metric tms_http_requests_total counter of method, route, status",
        "seed key access_level",
        "setting DATABASE_URL",
        "setting RETENTION_DAYS",
        "setting SECRET_KEY_FILE",
    ],
)
def test_a_name_that_is_gone_is_found(line: str) -> None:
    assert line in OLD
    assert lost(OLD, {*OLD} - {line}) == [line]


@each("line", [f"{SEND} needs --colour", "seed key needs colour"])
def test_a_new_need_of_what_there_was_is_found(line: str) -> None:
    assert lost(OLD, [*OLD, line]) == [line]


def test_additions_are_not() -> None:
    more = ["command paint", "command paint --colour", "command paint needs --colour", f"{SEND} --colour"]
    fewer = {*OLD} - {"seed account needs name"}
    assert lost(OLD, [*fewer, *more, "metric tms_colours gauge of nothing", "setting COLOUR"]) == []
