"""Whoever adds a column that may hold something about people says so (docs/privacy.md#what-is-held-about-a-person)."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import JSON, Column, LargeBinary, String
from sqlalchemy.dialects.postgresql import JSONB

from app.db.models import Base
from app.privacy.impersonal import IMPERSONAL
from app.privacy.places import PLACES
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "privacy.md"


def holds_text(column: Column[object]) -> bool:
    return isinstance(column.type, String | LargeBinary | JSON | JSONB)


def test_each_column_of_text_is_personal_or_impersonal() -> None:
    named = Counter((table, name) for place in PLACES for table, names in place.columns.items() for name in names)
    named += Counter((table, name) for table, names in IMPERSONAL.items() for name in names.split())
    tables = Base.metadata.tables.values()
    columns = {(table.name, column.name) for table in tables for column in table.columns if holds_text(column)}
    assert {*named} - columns == set(), "these columns do not exist, or hold no text"
    assert columns - {*named} == set(), "say in app/privacy whether these columns hold something about people"
    assert [one for one, count in named.items() if count > 1] == [], "these are named twice"


def test_the_page_names_every_place() -> None:
    text = PAGE.read_text("utf-8")
    for place in PLACES:
        assert f"| `{place.name}` | {place.holds} |" in text
        assert all(f"`{table}`" in text for table in place.columns)
