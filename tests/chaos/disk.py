"""A separate disk for a data folder, small enough to be filled. It needs root, and a system that lets root mount."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SIZE = "256m"
PIECES = (1024 * 1024, 4096, 1)


@cache
def can_mount() -> bool:
    """Whether this machine allows it; tried once."""
    refused = contextlib.suppress(OSError, subprocess.CalledProcessError)
    with tempfile.TemporaryDirectory() as name, refused, small_disk(Path(name)):
        return True
    return False


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mounts a separate disk on the folder inside the block."""
    if shutil.which("mount") is None:
        raise OSError(errno.ENOENT, "there is no mount")
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        # Lazily: a process that is ending may still have a file open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


@contextlib.contextmanager
def fill(folder: Path) -> Iterator[None]:
    """Fills the folder's disk to the last byte inside the block."""
    path = folder / "filler"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        _write_until_full(descriptor)
        yield
    finally:
        os.close(descriptor)
        path.unlink()


def _write_until_full(descriptor: int) -> None:
    """Others may free space meanwhile, so it tries several times."""
    for _ in range(5):
        for size in PIECES:
            with contextlib.suppress(OSError):
                while os.write(descriptor, b"x" * size):
                    pass
        time.sleep(0.1)
