"""A folder as the other side: each message becomes a file that is there completely or not at all.

The name of a file comes from the message's uuid alone, so a message that is tried again replaces its first try.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder at `path`, which is made when the first file is written."""

    path: Path

    def write(self, name: str, content: bytes) -> None:
        """Write or replace the file `name` so that it survives a crash; raises `OSError`."""
        self.path.mkdir(parents=True, exist_ok=True)
        # A file that is not complete is neither an `*.eml` nor a `*.json`, nor shown to a person.
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
        self._sync()

    def _sync(self) -> None:
        """The new name itself is only safe once the folder is on the disk as well."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
