"""New ids (app/ids.py)."""

from __future__ import annotations

import uuid

from app.ids import new_uuid


def test_new_uuids_are_random_ones_in_their_usual_form() -> None:
    made = [new_uuid() for _ in range(1000)]
    parsed = [uuid.UUID(uuid_text) for uuid_text in made]
    assert [str(parsed_uuid) for parsed_uuid in parsed] == made
    assert {(parsed_uuid.version, parsed_uuid.variant) for parsed_uuid in parsed} == {(4, uuid.RFC_4122)}
    assert len(set(made)) == 1000
    assert {uuid_text[19] for uuid_text in made} == set("89ab")
    assert {digit for uuid_text in made for digit in uuid_text} == set("0123456789abcdef-")
