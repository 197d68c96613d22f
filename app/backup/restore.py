"""Restoring a backup into an empty database: all of it or nothing, and with everything held that it would send
(docs/operations.md#what-a-restore-holds)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, delete, update
from sqlalchemy.exc import SQLAlchemyError

from app.backup.archive import ArchiveReader, open_archive
from app.backup.journals import results_of_archive, results_of_machine
from app.backup.manifest import TABLES, Manifest, NotABackup
from app.backup.secret_key import installed_keys, keys_to_install
from app.clock import now
from app.db.copies.load import Loading, loading
from app.db.copies.set_aside import indexes_set_aside
from app.db.copies.snapshot import CopyError
from app.db.database import Transaction
from app.db.field_indexes import create_indexes
from app.db.models import BulkAction, ConsoleLink, ConsoleSession, table_of
from app.db.outage import reason
from app.db.phases import newest_revision
from app.events.holds import hold_webhooks
from app.inbound.holds import drop_simulations, record_incomplete_replies
from app.infrastructure.running import databases
from app.runs.holds import hold_runs
from app.secret_keys import fingerprint
from app.sends.holds.hold import hold_messages
from app.sends.holds.release import settle_as_journalled
from app.sends.outcomes.attempt_result import AttemptResult
from app.services import Services

DAYS_OF_A_MONTH = 28
MANY = 10_000
"""Rows of a table whose indexes are made after them; for fewer, dropping them costs more."""
Advance = Callable[[int], None]
Begin = Callable[[str, int], Advance]
"""Begins a part of the work: called with what it is and its size, returns what is called with each step."""


class NotRestorable(Exception):
    """The backup cannot be restored here; the text is one line for the operator."""


class NotFinished(Exception):
    """All rows were restored and are held, but not all that follows was done; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and how much of it is held. `settled` messages were held, but a journal in the backup or on
    this machine knew what had become of them."""

    manifest: Manifest
    messages: int
    runs: int
    webhooks: int
    settled: int
    secret_key: bool
    """Whether the key of the backup was installed."""


def restore_backup(services: Services, path: Path, *, any_secret_key: bool, begin: Begin) -> Restored:
    """Restores the backup into the empty database of the settings.

    Raises `NotRestorable`, `NotABackup`, `NotEmpty`, `CopyError`, `NotFinished`, `OSError`.
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
        journalled = results_of_archive(archive)
        if manifest.secret_key in map(fingerprint, settings.secret_keys):
            # The same installation: what its senders handed over last may be known here, and nowhere else.
            journalled += results_of_machine(settings)
        keys = keys_to_install(settings, archive, any_key=any_secret_key)
        with ExitStack() as undo:
            if keys is not None:
                undo.enter_context(installed_keys(settings, keys))
            messages, runs = _load(services, archive, begin)
    with _finishing():
        settled, webhooks = _finish(services, manifest, journalled)
    return Restored(manifest, messages, runs, webhooks, settled, keys is not None)


def _load(services: Services, archive: ArchiveReader, begin: Begin) -> tuple[int, int]:
    """Everything that is in one transaction. Returns how many messages and runs are held."""
    manifest = archive.manifest
    try:
        with loading(services.settings.database_url) as database:
            _load_rows(database, archive, begin("restoring", manifest.rows))
            moment, connection = now(), database.connection
            hold_webhooks(connection, moment)
            drop_simulations(connection)
            _end_sessions(connection)
            _cancel_bulk_actions(connection, moment)
            return hold_messages(connection, manifest.taken, moment), hold_runs(connection)
    except SQLAlchemyError as error:
        raise CopyError(reason(error)) from error


def _load_rows(database: Loading, archive: ArchiveReader, advance: Advance) -> None:
    manifest = archive.manifest
    tables = database.prepare(manifest.revision)
    if unknown := manifest.tables.keys() - tables.keys():
        raise NotABackup(f"it has a table that revision {manifest.revision} does not have: {min(unknown)}")
    recipients = manifest.last_ids.get("recipients", 0)
    database.make_ranges(0, max(manifest.end_of_ranges, database.ranges_for(recipients)))
    large = [name for name, stored in manifest.tables.items() if (stored.rows or 0) >= MANY]
    with indexes_set_aside(database.connection, large):
        for name in manifest.tables:
            with archive.open(f"{TABLES}{name}") as file:
                database.load(tables[name], file, advance)
    database.upgrade()
    age = now() - manifest.taken
    database.move_ids(manifest.last_ids, months=math.ceil(max(0, age.days) / DAYS_OF_A_MONTH))


def _end_sessions(connection: Connection) -> None:
    """Who was signed in to the console may have been signed out since the backup, and links may have been used."""
    for model in (ConsoleSession, ConsoleLink):
        connection.execute(delete(table_of(model)))


def _cancel_bulk_actions(connection: Connection, moment: datetime) -> None:
    """What they were about may have been sent since the backup."""
    is_open = table_of(BulkAction).c.end_time.is_(None)
    connection.execute(update(table_of(BulkAction)).where(is_open).values(state="cancelled", end_time=moment))


def _finish(services: Services, manifest: Manifest, journalled: list[AttemptResult]) -> tuple[int, int]:
    """What needs transactions of its own; each holds the webhooks of the events that it writes. Returns how many
    messages were settled, and how many webhooks are held in the end."""
    create_indexes(services.settings.database_url, manifest.field_indexes)
    settled = settle_as_journalled(services, journalled, _hold)
    record_incomplete_replies(services, _hold)
    with services.database.write() as transaction:
        webhooks = _hold(transaction)
    services.database.refresh_statistics()
    return settled, webhooks


def _hold(transaction: Transaction) -> int:
    transaction.write_last()
    return hold_webhooks(transaction.connection(), now())


@contextmanager
def _finishing() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise NotFinished(reason(error)) from error
