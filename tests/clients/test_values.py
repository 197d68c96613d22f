"""How the library writes values, and what it takes for a file (clients/python/README.md)."""

from __future__ import annotations

import io
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from transactional_messaging import Attachment, Client, WaitedTooLong, any_of, between, is_not
from transactional_messaging.attachments import attachment_json
from transactional_messaging.caller import written
from transactional_messaging.contacts import Contact
from transactional_messaging.filters import Condition, pairs, text_of
from transactional_messaging.testing import FakeService

EAST = timezone(timedelta(hours=10))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (1.5, "1.5"),
        ("a,b", "a,b"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 20, 0, 0, 5, tzinfo=EAST), "2026-01-31T10:00:00Z"),
        (datetime.fromisoformat("2026-01-31T10:00:00"), "2026-01-31T10:00:00"),
    ],
)
def test_values_of_filters(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_commas_and_backslashes_in_a_list_of_values() -> None:
    assert any_of("Smith, Jr", "back\\", "Jones") == Condition("in", "Smith\\, Jr,Jones,back\\")
    assert any_of(between(1, 2), 5).text == "1..2,5"
    with pytest.raises(ValueError, match="ranges"):
        any_of(is_not(1))


def test_parameters_of_a_query() -> None:
    query = {"limit": 5, "fields": ["id", "name"], "time_zone": "UTC", "name": is_not("x")}
    expected = [("limit", "5"), ("fields", "id,name"), ("_tz", "UTC"), ("name:ne", "x"), ("blocked.email", "true")]
    assert pairs(query, {"blocked.email": True}) == expected
    with pytest.raises(TypeError, match="name"):
        pairs({"name": object()})


def test_dates_of_list_fields_are_written_as_the_service_reads_them() -> None:
    moment = datetime.fromisoformat("2026-01-31T10:00:00")
    assert (written(date(2026, 1, 31)), written(moment)) == ("2026-01-31", "2026-01-31T10:00:00")
    with pytest.raises(TypeError, match="object"):
        written(object())


def test_what_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b")
    as_json = {"type": "text/csv", "name": "rows.csv", "content": "YSxi"}
    with path.open("rb") as opened:
        assert [attachment_json(file) for file in (path, opened, as_json, Attachment.from_path(str(path)))] == [
            as_json
        ] * 4
    assert Attachment.from_bytes(b"", "unknown.xyzzy").type == "application/octet-stream"
    assert Attachment.from_path(path, name="b.txt").type == "text/plain"
    with pytest.raises(ValueError, match="name"):
        Attachment.from_file(io.BytesIO(b"x"))
    with path.open() as text, pytest.raises(TypeError, match="binary"):
        attachment_json(text)  # type: ignore[arg-type]
    stranger: Any = "/etc/passwd"
    with pytest.raises(TypeError, match="Path"):
        attachment_json(stranger)


def test_resources_are_read_only_and_keep_personal_data_out_of_logs() -> None:
    contact = Contact({"id": 7, "email": "ann@example.com", "double_opt_in_time": None})
    assert repr(contact) == "<Contact id=7>"
    assert contact.double_opt_in_time is None
    assert contact.link("list") is None
    name = "email"
    with pytest.raises(AttributeError, match="read-only"):
        setattr(contact, name, "other@example.com")


def test_waiting_ends() -> None:
    fake = FakeService()
    client: Client = fake.client()
    send = client.sends.create(type="sms", group_name="g", body_text="STOP", recipients=[{"mobile": "61491570006"}])
    fake.settle(send.uuids[0], "queued")
    with pytest.raises(WaitedTooLong, match="outcome"):
        client.sends.wait(send.uuids[0], timeout=0)
    with pytest.raises(WaitedTooLong, match=r"ann@example\.com"):
        client.inbox.wait("ann@example.com", timeout=0)
