"""Holds SQLite's write lock in a separate process: `python -m tests.chaos.sqlite_lock FILE`, until its input ends."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.launched import ROOT


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds the write lock inside the block."""
    command = [sys.executable, "-m", "tests.chaos.sqlite_lock", str(file)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.stdin.close()


def main(file: str) -> None:
    """Prints `locked` and waits."""
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        print("locked", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
