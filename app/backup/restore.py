"""Restoring a backup into an empty database: all of it or nothing, and with everything held that it would send
(docs/operations.md#what-a-restore-holds)."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from app.backup.archive import ArchiveReader, open_archive
from app.backup.manifest import JOURNALS, TABLES, Manifest, NotABackup
from app.backup.secret_key import installed_keys, keys_to_install
from app.clock import now
from app.db.copies.load import Loading, loading
from app.db.field_indexes import create_indexes
from app.db.phases import newest_revision
from app.events.holds import hold_webhooks
from app.infrastructure.running import databases
from app.runs.holds import hold_runs
from app.sends.holds.hold import hold_messages
from app.sends.holds.release import settle_as_journalled
from app.sends.outcomes.attempt_result import AttemptResult, parse_line
from app.services import Services

DAYS_OF_A_MONTH = 28
Advance = Callable[[int], None]
Begin = Callable[[str, int], Advance]
"""Begins a part of the work: called with what it is and its size, returns what is called with each step."""


class NotRestorable(Exception):
    """The backup cannot be restored here; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and how much of it is held. `settled` messages were held, but a journal in the backup knew
    what had become of them."""

    manifest: Manifest
    messages: int
    runs: int
    webhooks: int
    settled: int
    secret_key: bool
    """Whether the key of the backup was installed."""


def restore_backup(services: Services, path: Path, *, any_secret_key: bool, begin: Begin) -> Restored:
    """Restores the backup into the empty database of the settings.

    Raises `NotRestorable`, `NotABackup`, `NotEmpty`, `CopyError`, `OSError`, `SQLAlchemyError`.
    """
    settings = services.settings
    if databases(settings):
        raise NotRestorable("processes of the service run with this DATA_DIR: stop them first")
    with open_archive(path) as archive:
        manifest = archive.manifest
        if manifest.revision > newest_revision():
            needs = f"it needs revision {manifest.revision}, and this version knows {newest_revision()}"
            raise NotRestorable(f"the backup was made by a newer version of the service: {needs}")
        archive.check(begin("checking", sum(one.bytes for one in manifest.files.values())))
        with ExitStack() as undo:
            keys = keys_to_install(settings, archive, any_key=any_secret_key)
            if keys is not None:
                undo.enter_context(installed_keys(settings, keys))
            with loading(settings.database_url) as database:
                _load(database, archive, begin("restoring", manifest.rows))
                moment = now()
                held = (
                    hold_messages(database.connection, manifest.taken, moment),
                    hold_runs(database.connection),
                    hold_webhooks(database.connection, moment),
                )
        create_indexes(settings.database_url, manifest.field_indexes)
        settled = settle_as_journalled(services, _journalled(archive))
    services.database.refresh_statistics()
    return Restored(manifest, *held, settled, keys is not None)


def _load(database: Loading, archive: ArchiveReader, advance: Advance) -> None:
    manifest = archive.manifest
    tables = database.prepare(manifest.revision)
    if unknown := manifest.tables.keys() - tables.keys():
        raise NotABackup(f"it has a table that revision {manifest.revision} does not have: {min(unknown)}")
    recipients = manifest.last_ids.get("recipients", 0)
    database.make_ranges(0, max(manifest.end_of_ranges, database.ranges_for(recipients)))
    for name in manifest.tables:
        with archive.open(f"{TABLES}{name}") as file:
            database.load(tables[name], file, advance)
    database.upgrade()
    age = now() - manifest.taken
    database.move_ids(manifest.last_ids, months=math.ceil(max(0, age.days) / DAYS_OF_A_MONTH))


def _journalled(archive: ArchiveReader) -> list[AttemptResult]:
    found = []
    for name in archive.manifest.files:
        if name.startswith(JOURNALS):
            for line in archive.read(name).splitlines():
                try:
                    found.append(parse_line(line))
                except ValueError:
                    continue
    return found
