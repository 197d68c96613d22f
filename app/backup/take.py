"""Making a backup, while the service runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from app.audit.record import Act, record_at_once
from app.backup.archive import UNFINISHED_SUFFIX, ArchiveWriter, is_abandoned, new_archive
from app.backup.manifest import FALLBACKS, JOURNALS, SECRET_KEY, TABLES, Manifest
from app.clock import now
from app.db.copies.snapshot import Snapshot, snapshot
from app.db.copies.tables import StoredTable
from app.db.database import Database
from app.db.schema import fits
from app.secret_keys import SecretKeys, fingerprint
from app.sends.outcomes.attempt_result import read_journals
from app.settings import Settings

BACKUP_NAME = re.compile(r"tms-\d{8}T\d{6}Z\.zip")
"""Names of backups that are written into a folder."""
UNFINISHED_BACKUP_NAME = re.compile(rf"\.{BACKUP_NAME.pattern}\.\d+{re.escape(UNFINISHED_SUFFIX)}")

Advance = Callable[[int], None]


class NothingToBackUp(Exception):
    """The database is none of this service; the text is one line for the operator."""


def name_of(moment: datetime) -> str:
    """The name of a backup in a folder."""
    return f"tms-{moment:%Y%m%dT%H%M%SZ}.zip"


def record_backup(database: Database, path: Path) -> None:
    """Records a backup before it is made, so that the backup has the entry, too. A database whose schema does not fit
    has another log. Raises `SQLAlchemyError`."""
    if fits(database):
        record_at_once(database, Act("backup.taken", name=path.name))


def take_backup(settings: Settings, path: Path, *, with_secret_key: bool, begin: Callable[[int], Advance]) -> Manifest:
    """Writes a backup of the installation to a new file. `begin` is called with about how many rows there are.

    Raises `NothingToBackUp`, `Exists`, `CopyError`, `OSError`, `SQLAlchemyError`.
    """
    journals, keys = _journals(settings), settings.secret_keys
    with snapshot(settings.database_url) as snapshot_:
        if snapshot_.revision is None or snapshot_.state == "foreign":
            has = (
                "was never migrated"
                if snapshot_.revision is None
                else f"is at the unknown revision {snapshot_.revision}"
            )
            raise NothingToBackUp(f"the database {has}: there is nothing of this service in it")
        taken, last_ids, end_of_ranges = now(), snapshot_.last_ids, snapshot_.end_of_ranges
        # What was journalled before is read before and after the snapshot begins: a result that is not in the tables
        # may have been journalled in between, or written and removed from its journal in between.
        for name, lines in _journals(settings).items():
            journals[name] = journals.get(name, b"") + lines
        advance = begin(snapshot_.estimated_rows)
        with new_archive(path, settings.data_dir) as archive:
            _add_files(archive, snapshot_, journals, keys if with_secret_key else (), advance)
            manifest = Manifest(
                taken=taken,
                revision=snapshot_.revision,
                database=snapshot_.database,
                secret_key=fingerprint(keys[0]),
                secret_key_fallbacks=list(map(fingerprint, keys[1:])),
                last_ids=last_ids,
                end_of_ranges=end_of_ranges,
                field_indexes=snapshot_.field_indexes,
                files=archive.files,
            )
            archive.finish(manifest)
    return manifest


def delete_remains(folder: Path) -> None:
    """Deletes what is left in the folder of backups that were killed, before the next one needs the room. Raises
    `OSError`."""
    for path in folder.iterdir():
        if UNFINISHED_BACKUP_NAME.fullmatch(path.name) and is_abandoned(path):
            path.unlink(missing_ok=True)


def prune(folder: Path, keep: int) -> list[Path]:
    """Deletes all but the latest backups in the folder; returns the deleted ones. Files of other names stay. Raises
    `OSError`."""
    backups = sorted(path for path in folder.iterdir() if BACKUP_NAME.fullmatch(path.name))
    oldest = backups[: max(0, len(backups) - keep)]
    for path in oldest:
        path.unlink(missing_ok=True)
    return oldest


def _journals(settings: Settings) -> dict[str, bytes]:
    """The journals of this machine's senders that are not empty."""
    return {name: lines + b"\n" for name, lines in read_journals(settings) if lines}


def _add_files(
    archive: ArchiveWriter, source: Snapshot, journals: dict[str, bytes], keys: SecretKeys, advance: Advance
) -> None:
    if keys:
        archive.add(SECRET_KEY, [(keys[0].encode(), 0)])
    if keys[1:]:
        archive.add(FALLBACKS, [("\n".join(keys[1:]).encode(), 0)])
    for name, lines in journals.items():
        archive.add(f"{JOURNALS}{name}", [(lines, 0)])
    for table in source.tables.values():
        archive.add(f"{TABLES}{table.name}", _advancing(source, table, advance), rows=True)


def _advancing(source: Snapshot, table: StoredTable, advance: Advance) -> Iterator[tuple[bytes, int]]:
    for block, rows in source.blocks(table):
        yield block, rows
        advance(rows)
