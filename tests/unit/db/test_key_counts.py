"""Counts of keys."""

from __future__ import annotations

from app.db.json_fields import KeyCounts


def test_a_key_is_counted_with_the_place_of_its_first_time() -> None:
    with KeyCounts() as counts:
        assert [counts.add(key, place) for place, key in enumerate(("a", "b", "a", "c", "a", "b"))] == [
            *((0, 0), (0, 1), (1, 0), (0, 3), (2, 0), (1, 1)),
        ]
    with KeyCounts() as others:
        assert others.add("a", 7) == (0, 7)
