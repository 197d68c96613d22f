"""`flask backup`: a copy of the whole installation in one file, made while the service runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from flask.cli import with_appcontext
from sqlalchemy.exc import SQLAlchemyError

from app.backup.archive import ArchiveExists
from app.backup.take import NothingToBackUp, delete_remains, name_of, prune, record_backup, take_backup
from app.cli.base import Command, Unavailable, WrongValue, echo, json_option, print_done, refuse_other_key
from app.cli.progress import parts_of
from app.clock import now
from app.db.copies.snapshot import CopyError
from app.db.outage import is_unavailable, reason
from app.db.schema import fits
from app.http.context import services
from app.infrastructure.metrics import BACKUP_TIME, note_time


@click.command("backup", cls=Command)
@click.argument("target", metavar="FILE|FOLDER", type=click.Path(path_type=Path))
@click.option("--keep", type=click.IntRange(1), metavar="N", help="For a folder: keep only the latest N backups.")
@click.option(
    "--without-secret-key",
    is_flag=True,
    help="Leave SECRET_KEY out. To restore the backup, you then have to provide the key.",
)
@json_option
@with_appcontext
def command(target: Path, keep: int | None, without_secret_key: bool, as_json: bool) -> None:
    """Back up the database, SECRET_KEY and the journals to a new FILE, or to a file in FOLDER named after the current
    time. The service can keep running."""
    if keep is not None and not target.is_dir():
        raise WrongValue(f"--keep needs a folder, and {target} is not a folder")
    path = target / name_of(now()) if target.is_dir() else target
    with _errors(path), _backup_time_noted(), parts_of() as begin:
        if not without_secret_key and fits(services().database):
            refuse_other_key(services())
        _record(path)
        if target.is_dir():
            delete_remains(target)
        manifest = take_backup(
            services().settings,
            path,
            with_secret_key=not without_secret_key,
            begin=lambda total: begin("backing up", total),
        )
        deleted = prune(target, keep) if keep is not None else []
    facts = {"file": str(path), "bytes": path.stat().st_size, **manifest.facts(), "deleted": list(map(str, deleted))}
    gone = f", and deleted {len(deleted)} older" if deleted else ""
    print_done(f"wrote {path}: {manifest.rows} rows, {facts['bytes']} bytes{gone}", facts, as_json)


def _record(path: Path) -> None:
    """A database that takes no write, because its disk is full or it is a standby, is backed up all the same."""
    try:
        if not path.exists():
            record_backup(services().database, path)
    except SQLAlchemyError as error:
        if not is_unavailable(error):
            raise
        echo(f"Warning: the backup is not in the audit log: {reason(error)}", err=True)


@contextmanager
def _backup_time_noted() -> Iterator[None]:
    """Notes the time of the backup for `/metrics`: an alert fires when the last backup is old."""
    settings = services().settings
    try:
        yield
    except BaseException:
        note_time(settings, BACKUP_TIME, "failed")
        raise
    note_time(settings, BACKUP_TIME, "done")


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (ArchiveExists, NothingToBackUp) as error:
        raise WrongValue(str(error)) from None
    except CopyError as error:
        raise Unavailable(str(error)) from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror or error}") from None
