"""The data folder is private to its owner: it contains the database, the mails and the secret.

Processes create files with mode 0600 and folders with 0700 (`os.umask`). Wider permissions, from an earlier version or
a person, are narrowed, but only for our own files: those in the folder that have one of our names and belong to this
user, and the folder itself if it contains nothing else. So a DATA_DIR that names a home folder or /tmp by mistake is
not changed.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

UMASK = 0o077
"""No permissions for the group and for others."""
OURS = re.compile(
    r"tms\.sqlite3(-wal|-shm|-journal)?|redis|redis\.sock|mail|sms|journals(\.\d+)?|dispatchers|processes|metrics"
    r"|requests|(launcher|secret_key)\.lock|service\.log(\.1)?|demo_keys\.new"
    r"|\.?(secret_key|secret_key_fallbacks|receiver_port|demo_keys\.json)(\.[0-9a-f]+)?"
)
"""The names of the files and folders that this service creates in its data folder."""


def make_private(folder: Path) -> None:
    """Creates the folder, or narrows its permissions. Raises `OSError` if it cannot be created."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o777 & ~UMASK)
    entries = list(os.scandir(folder))
    for entry in entries:
        if OURS.fullmatch(entry.name) and not entry.is_symlink():
            _narrow(Path(entry.path))
    if all(OURS.fullmatch(entry.name) for entry in entries):
        _narrow(folder)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a crash: the rename of a file is not durable before. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _narrow(path: Path) -> None:
    """Only the owner can: files that belong to somebody else, or have disappeared, are skipped."""
    try:
        status = path.stat()
        if status.st_uid == os.getuid() and status.st_mode & UMASK and not status.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(status.st_mode) & ~UMASK)
    except OSError:
        return
