"""New ids (app/ids.py)."""

from __future__ import annotations

import uuid

from app.ids import new_uuid


def test_new_uuids_are_random_ones_in_their_usual_form() -> None:
    made = [new_uuid() for _ in range(1000)]
    parsed = [uuid.UUID(one) for one in made]
    assert [str(one) for one in parsed] == made
    assert {(one.version, one.variant) for one in parsed} == {(4, uuid.RFC_4122)}
    assert len(set(made)) == 1000
    assert {one[19] for one in made} == set("89ab")
    assert {digit for one in made for digit in one} == set("0123456789abcdef-")
