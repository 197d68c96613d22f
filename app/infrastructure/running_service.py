"""The lock of a data folder, which says who runs the service there and at which address."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK_FILE = "launcher.lock"
MAX_BYTES = 4096


def owner_in(file: int) -> str:
    """The process id in the open lock file; empty after an orderly end."""
    return _lines(file)[0]


def write_owner(file: int, public_url: str) -> None:
    """Writes this process and the address of the service into the open lock file."""
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()}\n{public_url}\n".encode(), 0)


def running_url(data_dir: Path) -> str | None:
    """The address of the service that runs in the data folder on this machine; None if none does."""
    try:
        file = os.open(data_dir / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _lines(file)[1] or None
    else:
        return None
    finally:
        os.close(file)


def _lines(file: int) -> tuple[str, str]:
    first, _, rest = os.pread(file, MAX_BYTES, 0).decode("utf-8", "replace").partition("\n")
    return first.strip(), rest.strip()
