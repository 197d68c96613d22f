"""By which visits a machine shows itself (docs/tracking.md#machines)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.tracking.devices import is_suspect
from tests.support.cases import each

MOMENT = datetime(2026, 1, 31, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("after", "suspect"), [(-SECOND, True), (0 * SECOND, True), (1.9 * SECOND, True), (2 * SECOND, False)]
)
def test_a_visit_right_behind_the_sending_is_suspect(after: timedelta, suspect: bool) -> None:
    assert is_suspect(MOMENT, MOMENT - after, "", []) is suspect


def test_a_visit_of_a_mail_whose_outcome_is_not_known_is_not_suspect() -> None:
    assert not is_suspect(MOMENT, None, "https://a.example", [])


@each(
    ("link", "clicks", "suspect"),
    [
        ("c", [("a", 1), ("b", 4)], True),
        ("c", [("a", 1), ("b", 5)], False),
        ("b", [("a", 1), ("b", 1)], False),
        ("c", [("a", 1), ("a", 2)], False),
        ("", [("a", 1), ("b", 1), ("c", 1)], False),
        ("d", [("a", 1), ("b", 1), ("c", 9)], True),
    ],
)
def test_different_links_in_one_moment_are_suspect(link: str, clicks: list[tuple[str, int]], suspect: bool) -> None:
    earlier = [(other, MOMENT - seconds * SECOND) for other, seconds in clicks]
    assert is_suspect(MOMENT, MOMENT - timedelta(hours=1), link, earlier) is suspect
