"""A folder as the destination: each message becomes a file, which is written atomically.

The file name depends only on the message's uuid, so a retry replaces the file of the first attempt.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.private_folder import sync_folder


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder at `path`, which is created when the first file is written."""

    path: Path

    def write(self, name: str, content: bytes) -> None:
        """Writes or replaces the file `name` so that it survives a crash; raises `OSError`."""
        self.path.mkdir(parents=True, exist_ok=True)
        # An incomplete file is a hidden `*.part`, never an `*.eml` or `*.json`.
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=self.path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path / name)
        except OSError:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
        sync_folder(self.path)
