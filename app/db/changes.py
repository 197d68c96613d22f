"""Writing attributes to a row only where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.clock import this_second
from app.db.models.base import Base, Timestamps


def apply_changes(row: Base, attributes: Mapping[str, Any]) -> bool:
    """Sets the attributes that differ, and `last_modified_time` if there are any; returns whether there were."""
    different = {name: value for name, value in attributes.items() if getattr(row, name) != value}
    for name, value in different.items():
        setattr(row, name, value)
    if different and isinstance(row, Timestamps):
        row.last_modified_time = this_second()
    return bool(different)
