"""What is left of forgotten people in the files of the database (docs/privacy.md#remains-in-files)."""

from __future__ import annotations

from app.db.database import Database
from app.db.remains import compact, file_size, renew_statistics
from app.privacy.places import tables_of_places

SMALL = 256 * 1024 * 1024
"""Bytes up to which a SQLite file is compacted unasked: that takes a moment."""


def remove_remains(database: Database, wanted: bool | None) -> bool | None:
    """Takes statistics anew, and writes SQLite's file anew if that is wanted, or for None if it is small. Returns
    whether it was; None where there is no file."""
    size = file_size(database)
    renew_statistics(database, tables_of_places())
    if size is None:
        return None
    return (wanted or (wanted is None and size <= SMALL)) and compact(database)
