"""The data folder is its owner's alone: it holds the database, the mails and the secret.

What a process makes is 0600, folders 0700 (`os.umask`). What an earlier version or a person made wider is narrowed, as
far as it is ours: whatever lies in the folder under one of our names and belongs to this user, and the folder itself
where nothing else lies in it. So a DATA_DIR that names a home folder or /tmp by mistake stays as it is.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

UMASK = 0o077
"""Nothing for the group and for others."""
OURS = re.compile(
    r"tms\.sqlite3(-wal|-shm|-journal)?|redis|redis\.sock|mail|sms|journals|dispatchers|processes|metrics|launcher\.lock"
    r"|\.?secret_key(\.\d+)?|receiver_port|demo_keys\.json|demo_keys\.new"
)
"""The names of what this service makes in its data folder."""


def make_private(folder: Path) -> None:
    """Makes the folder, or narrows the rights to it. Raises `OSError` when it cannot be made."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o777 & ~UMASK)
    entries = list(os.scandir(folder))
    for entry in entries:
        if OURS.fullmatch(entry.name) and not entry.is_symlink():
            _narrow(Path(entry.path))
    if all(OURS.fullmatch(entry.name) for entry in entries):
        _narrow(folder)


def _narrow(path: Path) -> None:
    """Only the owner can: what belongs to somebody else, or is gone by now, stays as it is."""
    try:
        found = path.stat()
        if found.st_uid == os.getuid() and found.st_mode & UMASK and not found.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(found.st_mode) & ~UMASK)
    except OSError:
        return
