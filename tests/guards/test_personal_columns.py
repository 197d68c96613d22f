"""Whoever adds a column that may hold something about people says so (docs/privacy.md#what-is-held-about-a-person)."""

from __future__ import annotations

from sqlalchemy import JSON, Column, LargeBinary, String
from sqlalchemy.dialects.postgresql import JSONB

from app.db.models import Base
from app.db.models.base import PLACE
from app.privacy.places import PLACES
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "privacy.md"
COLUMNS = [column for table in Base.metadata.tables.values() for column in table.columns]


def holds_text(column: Column[object]) -> bool:
    return isinstance(column.type, String | LargeBinary | JSON | JSONB)


def test_each_column_of_text_is_personal_or_impersonal() -> None:
    """What to do if this fails: mark the column in the model, as `personal` with its place, or as `Impersonal`."""
    assert [str(column) for column in COLUMNS if holds_text(column) != (PLACE in column.info)] == []


def test_each_personal_column_belongs_to_a_place_and_each_place_has_some() -> None:
    places = {column.info[PLACE] for column in COLUMNS if column.info.get(PLACE)}
    assert places == {place.name for place in PLACES}


def test_the_page_names_every_place() -> None:
    text = PAGE.read_text("utf-8")
    for place in PLACES:
        tables = {column.table.name for column in COLUMNS if column.info.get(PLACE) == place.name}
        rows = [line for line in text.splitlines() if line.startswith(f"| `{place.name}` | {place.holds} |")]
        assert len(rows) == 1, place.name
        assert all(f"`{table}`" in rows[0] for table in tables), place.name
