"""A claimed recipient is one object, which the stations of delivery complete (docs/architecture.md#a-send)."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from app.db.queue import ENTRY_COLUMNS, RECIPIENT_COLUMNS
from app.sends.delivery.recipient import ClaimedRecipient

COLUMNS: dict[str, Any] = {
    **{"id": 1, "account_id": 2, "uuid": "u", "send_id": 3, "type": "email", "email": "a@a.example"},
    **{"values": {"name": "Ann", "code": None}, "attempts": 1, "creation_time": datetime(2026, 5, 1, tzinfo=UTC)},
}


def test_a_claim_fills_its_first_attributes_in_the_order_of_the_columns() -> None:
    claimed = [*RECIPIENT_COLUMNS, *ENTRY_COLUMNS]
    assert [field.name for field in fields(ClaimedRecipient)][: len(claimed)] == claimed


def test_what_a_station_has_yet_to_add_cannot_be_read() -> None:
    claimed = ClaimedRecipient.from_columns(COLUMNS, {})
    to_come = [field.name for field in fields(ClaimedRecipient) if not field.init]
    assert "compiled" in to_come
    assert "message" in to_come
    for name in to_come:
        with pytest.raises(AttributeError):
            getattr(claimed, name)


def test_made_from_columns_it_is_as_a_claim_makes_it() -> None:
    """No worker claims a recipient that is made for a dry run, or to compose a message once more."""
    row = [*(COLUMNS.get(name) for name in RECIPIENT_COLUMNS), 1, COLUMNS["creation_time"], "normal"]
    claimed, made = ClaimedRecipient(*row), ClaimedRecipient.from_columns(COLUMNS, {})
    names = [field.name for field in fields(ClaimedRecipient) if field.init]
    assert [getattr(made, name) for name in names] == [getattr(claimed, name) for name in names]


def test_a_masked_one_differs_in_the_secret_values_only() -> None:
    claimed = ClaimedRecipient.from_columns(COLUMNS, {"code": "1234"})
    masked = claimed.masked()
    assert claimed.values == {"name": "Ann", "code": "1234"}
    assert masked.values == {"name": "Ann", "code": "••••"}
    assert masked.secrets is claimed.secrets
    assert ClaimedRecipient.from_columns(COLUMNS | {"values": {}}, {}).masked().secrets is None


def test_no_representation_of_it_shows_an_address_or_a_value() -> None:
    text = repr(ClaimedRecipient.from_columns(COLUMNS, {"code": "1234"}))
    assert "a@a.example" not in text
    assert "Ann" not in text
