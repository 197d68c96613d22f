"""Restoring a backup into an empty database: all of it or nothing, and with everything held that it would send
(docs/restore.md#what-a-restore-holds)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, delete, update
from sqlalchemy.exc import SQLAlchemyError

from app.audit.read import last_entry
from app.audit.record import Act, record
from app.audit.verify import Break, verify
from app.backup.archive import ArchiveReader, open_archive
from app.backup.journals import results_of_archive, results_of_machine
from app.backup.manifest import TABLES, Manifest, NotABackup
from app.backup.secret_key import delete_journals_aside, install_keys, keys_to_install
from app.clock import now
from app.db.copies.load import Loading, indexes_set_aside, loading
from app.db.copies.snapshot import CopyError
from app.db.database import Database
from app.db.field_indexes import restore_indexes
from app.db.migrate import MigrationError, in_baseline
from app.db.models import (
    BulkAction,
    ConsoleLink,
    ConsoleSession,
    ConsoleSignIn,
    InstallationKey,
    RunningProcess,
    table_of,
)
from app.db.outage import reason
from app.db.phases import newest_revision
from app.events.holds import hold_webhooks
from app.inbound.smpp import drop_simulations, record_incomplete_replies
from app.infrastructure.liveness import databases
from app.runs.holds import hold_runs
from app.secret_keys import SecretKeys, fingerprint
from app.sends.holds.held import hold_messages
from app.sends.holds.release import settle_as_journalled
from app.sends.outcomes.attempt_result import AttemptResult
from app.services import Services

RESTORED_ACTION = "backup.restored"
DAYS_OF_A_MONTH = 28
MANY_ROWS = 10_000
"""Rows of a table whose indexes are made after them; for fewer, dropping them costs more."""
Advance = Callable[[int], None]
Begin = Callable[[str, int], Advance]
"""Begins a part of the work: called with what it is and its size, returns what is called with each step."""


class RestoreRefused(Exception):
    """The backup cannot be restored here; the text is one line for the operator."""


class OutcomeNotKnown(Exception):
    """The connection was lost at the very end: all was restored, or nothing; the text is one line for the operator."""


class RestoreReport(NamedTuple):
    """What was restored, and how much of it is held. `settled` messages were held, but a journal in the backup or on
    this machine knew what had become of them."""

    manifest: Manifest
    messages: int
    runs: int
    webhooks: int
    settled: int
    secret_key: bool
    """Whether the key of the backup was installed."""
    audit_breaks: Sequence[Break]
    """Where the audit log of the backup is not as it was sealed."""


def restore_backup(services: Services, path: Path, *, any_secret_key: bool, begin: Begin) -> RestoreReport:
    """Restores the backup into the empty database of the settings, in one transaction: until it is committed nobody
    sees anything of it, and after a kill it begins anew.

    Raises `RestoreRefused`, `NotABackup`, `NotEmpty`, `CopyError`, `OutcomeNotKnown`, `OSError`.
    """
    settings = services.settings
    if databases(settings.data_dir):
        raise RestoreRefused("processes of the service are running with this DATA_DIR: stop them first")
    with open_archive(path) as archive:
        manifest = archive.manifest
        if manifest.revision > newest_revision():
            needs = f"it needs revision {manifest.revision}, and this version knows {newest_revision()}"
            raise RestoreRefused(f"the backup was made by a newer version of the service: {needs}")
        try:
            in_baseline(manifest.revision)
        except MigrationError as error:
            raise RestoreRefused(f"this version does not restore the backup: {error}") from None
        archive.check(begin("checking", sum(file.bytes for file in manifest.files.values())))
        keys = keys_to_install(settings, archive, any_key=any_secret_key)
        journalled = results_of_archive(archive)
        is_same = manifest.secret_key in map(fingerprint, settings.secret_keys)
        if is_same:
            # What the senders of this installation handed over last may be known here, and nowhere else.
            journalled += results_of_machine(settings)
        undo = install_keys(settings, keys, keeps_journals=is_same) if keys is not None else None
        try:
            restored = _restore(services, archive, path.name, journalled, begin, keys=keys or ())
        except OutcomeNotKnown:
            raise
        except BaseException:
            if undo is not None:
                undo()
            raise
    delete_journals_aside(settings)
    return restored._replace(secret_key=keys is not None)


def _restore(
    services: Services,
    archive: ArchiveReader,
    name: str,
    journalled: Sequence[AttemptResult],
    begin: Begin,
    *,
    keys: SecretKeys,
) -> RestoreReport:
    """Everything that is in the transaction. `keys` are those that were installed for it."""
    manifest, is_commit_sent = archive.manifest, False
    try:
        with loading(services.settings.database_url) as database:
            _load_rows(database, archive, begin("restoring", manifest.rows))
            breaks = verify(database.connection, services.settings, secret_keys=keys).breaks
            restored = _hold(services, database.connection, manifest, journalled)._replace(audit_breaks=breaks)
            with services.database.part_of(database.connection) as transaction:
                record(transaction, Act(RESTORED_ACTION, name=name, counts={"rows": manifest.rows}))
            is_commit_sent = True
    except SQLAlchemyError as error:
        if is_commit_sent and database.may_be_committed(error):
            raise OutcomeNotKnown(reason(error)) from error
        raise CopyError(reason(error)) from error
    return restored


def _hold(
    services: Services, connection: Connection, manifest: Manifest, journalled: Sequence[AttemptResult]
) -> RestoreReport:
    """Holds what would be sent, and settles what is known of it. The events of that are held, too."""
    moment, part = now(), partial(services.database.part_of, connection)
    drop_simulations(connection)
    _end_sessions(connection)
    _cancel_bulk_actions(connection, moment)
    messages, runs = hold_messages(connection, manifest.taken, moment), hold_runs(connection)
    settled = settle_as_journalled(services, journalled, part)
    record_incomplete_replies(part)
    return RestoreReport(
        manifest, messages, runs, hold_webhooks(connection, moment), settled, secret_key=False, audit_breaks=()
    )


def _load_rows(database: Loading, archive: ArchiveReader, advance: Advance) -> None:
    manifest = archive.manifest
    tables = database.prepare(manifest.revision)
    if unknown := manifest.tables.keys() - tables.keys():
        raise NotABackup(f"it has a table that revision {manifest.revision} does not have: {min(unknown)}")
    recipients = manifest.last_ids.get("recipients", 0)
    database.make_ranges(0, max(manifest.end_of_ranges, database.ranges_for(recipients)))
    large = [name for name, stored in manifest.tables.items() if (stored.rows or 0) >= MANY_ROWS]
    with indexes_set_aside(database.connection, large):
        for name in manifest.tables:
            with archive.open(f"{TABLES}{name}") as file:
                database.load(tables[name], file, advance)
    database.upgrade()
    restore_indexes(database.connection, manifest.field_indexes)
    age = now() - manifest.taken
    database.move_ids(manifest.last_ids, months=math.ceil(max(0, age.days) / DAYS_OF_A_MONTH))


def _end_sessions(connection: Connection) -> None:
    """Who was signed in to the console may have been signed out since the backup, and links may have been used. The
    processes of then do not run, and the first one of now brings the key along."""
    for model in (ConsoleSession, ConsoleSignIn, ConsoleLink, RunningProcess, InstallationKey):
        connection.execute(delete(table_of(model)))


def _cancel_bulk_actions(connection: Connection, moment: datetime) -> None:
    """Cancels all bulk actions: what they were about may have been sent since the backup."""
    is_open = table_of(BulkAction).c.end_time.is_(None)
    connection.execute(update(table_of(BulkAction)).where(is_open).values(state="cancelled", end_time=moment))


def restored_before(database: Database) -> tuple[str, datetime] | None:
    """The file that was last restored into the database, and when; None if it says of none."""
    try:
        with database.read() as session:
            entry = last_entry(session, RESTORED_ACTION)
    except SQLAlchemyError:  # tables of another application, or of an older version
        return None
    return (entry.object_name or "a backup", entry.time) if entry else None
