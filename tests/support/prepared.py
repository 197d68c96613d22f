"""Databases that are migrated already. Migrating one takes seconds, and most tests that need a new database do not test
migrations: the first process of a test run that needs one prepares a SQLite file or the folder of a PostgreSQL, and all
use copies of it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.db.migrate import upgrade

VARIABLE = "PREPARED_DATABASES"
"""The environment variable with the folder that the processes of a test run share. Without it, nothing is prepared."""
TEMPLATE = "tms_template"
"""The migrated database of a prepared PostgreSQL."""


@contextmanager
def shared_folder() -> Iterator[None]:
    """What this process and those that it starts prepare inside the block is kept until its end."""
    if VARIABLE in os.environ:  # a test run that a test has started
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tms-prepared-") as folder:
        os.environ[VARIABLE] = folder
        yield
        del os.environ[VARIABLE]


def migrated_file(path: Path) -> str:
    """The URL of a new SQLite file with the newest schema."""
    assert not path.exists()
    source = prepared("sqlite", lambda new: upgrade(f"sqlite:///{new}"))
    if source:
        shutil.copyfile(source, path)
    else:
        upgrade(f"sqlite:///{path}")
    return f"sqlite:///{path}"


def prepared(name: str, make: Callable[[Path], object]) -> Path | None:
    """The file or folder of that name, which `make` makes for the first process that asks."""
    if VARIABLE not in os.environ:
        return None
    path = Path(os.environ[VARIABLE], name)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            make(unfinished)
            unfinished.rename(path)
    return path


def copy_folder(source: Path, target: Path) -> None:
    """Copies a folder with its owners."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
