"""What a backup says of itself: the last file in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import orjson

from app.clock import timestamp

FORMAT = 1
NAME = "manifest.json"
SERVICE = "transactional-messaging-service"
SECRET_KEY = "secret_key"  # noqa: S105 - the name of a file
FALLBACKS = "secret_key_fallbacks"
JOURNALS = "journals/"
TABLES = "tables/"


class NotABackup(Exception):
    """The file is no backup of this service that this version reads; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in the backup: its size in bytes, its SHA-256 checksum, and of a table its rows."""

    bytes: int
    sha256: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the backup contains. `taken` is the moment at which the tables are shown, `revision` that of the schema,
    `last_ids` the last id that each table had given, and `end_of_ranges` the number behind the ranges of the
    history."""

    taken: datetime
    revision: str
    database: str
    secret_key: str
    """A fingerprint of SECRET_KEY, by which another one is recognised."""
    secret_key_fallbacks: list[str] = field(default_factory=list)
    """The fingerprints of the fallbacks of SECRET_KEY."""
    last_ids: Mapping[str, int] = field(default_factory=dict)
    end_of_ranges: int = 0
    field_indexes: list[str] = field(default_factory=list)
    files: Mapping[str, StoredFile] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, StoredFile]:
        """The files of the tables by the tables' names, in the order in which they were read."""
        return {name.removeprefix(TABLES): file for name, file in self.files.items() if name.startswith(TABLES)}

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(file.rows or 0 for file in self.files.values())

    def document(self) -> bytes:
        """The content of the file."""
        fields = {"service": SERVICE, "format": FORMAT, **asdict(self), "taken": self.taken.isoformat()}
        return orjson.dumps(fields, option=orjson.OPT_INDENT_2)

    def facts(self) -> dict[str, Any]:
        """What commands print of it."""
        return {
            "taken": timestamp(self.taken),
            "revision": self.revision,
            "database": self.database,
            "secret_key": SECRET_KEY in self.files,
            "tables": len(self.tables),
            "rows": self.rows,
        }


def parse_manifest(document: bytes) -> Manifest:
    """Raises `NotABackup`."""
    try:
        fields: dict[str, Any] = orjson.loads(document)
        if fields.pop("service") != SERVICE:
            raise NotABackup("it is a backup of another service")
        if (made := fields.pop("format")) != FORMAT:
            raise NotABackup(f"it has the format {made}, and this version reads {FORMAT}")
        files = {name: StoredFile(**file_fields) for name, file_fields in fields.pop("files").items()}
        return Manifest(**{**fields, "taken": datetime.fromisoformat(fields["taken"])}, files=files)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotABackup(f"its {NAME} cannot be read") from error
