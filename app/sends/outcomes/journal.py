"""The journal of a worker: each attempt result, appended the moment it is known
(docs/decisions/003-journal.md).

Between the transport's answer and the commit of many outcomes together there is a time in which a killed worker would
send a message twice. The journal closes this gap: one append to a local file, which survives the death of the process
as soon as the call returns (not that of the machine: nothing is synced to the disk, so a power failure may duplicate
what was accepted in the last fraction of a second). What remains is the one message in flight per connection.

A running worker holds a lock on its journal (app/infrastructure/liveness.py), so the rows of a dead one are recovered
at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.infrastructure.liveness import create_locked, delete_stale_drafts, lock_if_dead, write_all
from app.sends.outcomes.attempt_result import AttemptResult, parse_line
from app.settings import Settings

SUFFIX = ".journal"


def journal_folder(settings: Settings) -> Path:
    """The folder of the journals of this machine's workers."""
    return settings.data_dir / "journals"


def journal_sizes(settings: Settings) -> list[int]:
    """The bytes of each journal of this machine."""
    sizes = []
    with contextlib.suppress(OSError):
        for path in journal_folder(settings).glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError):  # recovered and deleted meanwhile
                sizes.append(path.stat().st_size)
    return sizes


class Journal:
    """The journal that this process writes, from several threads."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._path = folder / f"{worker}{SUFFIX}"
        self._descriptor = create_locked(self._path)
        self._lock = threading.Lock()
        self._cut = False
        """The last line may have been cut short: on a full disk, for example."""
        self.is_broken = False
        """It could not be written, and has not been mended since."""

    def append(self, attempt_result: AttemptResult) -> None:
        """Appends one result on a separate line. Raises `OSError`."""
        line = attempt_result.line()
        with self._lock:
            line, self._cut = b"\n" + line if self._cut else line, True
            try:
                write_all(self._descriptor, line)
            except OSError:
                self.is_broken = True
                raise
            self._cut = False

    def clear(self) -> None:
        """Empties it: every result is in the database. Raises `OSError`."""
        with self._writing():
            if os.fstat(self._descriptor).st_size:
                os.ftruncate(self._descriptor, 0)
            self._cut = False

    def mend(self) -> None:
        """Makes sure that results can be written where whoever recovers them finds them: in a new file, with what this
        one has, if it was deleted or its folder replaced. Raises `OSError` as long as they cannot."""
        with self._writing():
            if not self._is_in_place():
                content = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
                replaced, self._descriptor = self._descriptor, create_locked(self._path, content)
                os.close(replaced)
            if self.is_broken:
                write_all(self._descriptor, b"\n")  # ends a line that was cut, and shows whether there is room
                self._cut = self.is_broken = False

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except OSError:
                self.is_broken = True
                raise

    def _is_in_place(self) -> bool:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._descriptor))

    def close(self) -> None:
        """Unlocks it: for the next drain on this machine its worker is dead, and its rows are recovered."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class FoundJournal:
    """A journal in the folder; `dead` if its worker does not run any more. Whether it does is not known of one that
    cannot be opened, which is `unreadable`."""

    path: Path
    dead: bool
    unreadable: bool = False

    @property
    def worker(self) -> str:
        """The worker that writes it."""
        return self.path.name.removesuffix(SUFFIX)

    def results(self) -> list[AttemptResult]:
        """Its content, without a line that a kill or a full disk cut short: that message was in flight. Raises
        `OSError` for one that cannot be read."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.path.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    found.append(parse_line(line))
        return found


@contextlib.contextmanager
def scan_journals(folder: Path) -> Iterator[list[FoundJournal]]:
    """The journals of this machine. Those of dead workers are locked inside the block, and those that are dead in the
    list are deleted after it, unless the block raises: no other process recovers them meanwhile. Raises `OSError` if
    the folder cannot be read."""
    with contextlib.ExitStack() as locks:
        found = [_found(folder / name, locks) for name in _names(folder)]
        yield found
        for journal in found:
            if journal.dead:
                journal.path.unlink(missing_ok=True)
        delete_stale_drafts(folder)


def _names(folder: Path) -> list[str]:
    """Of the journals in the folder; one that does not exist has none."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except FileNotFoundError:
        return []


def _found(path: Path, locks: contextlib.ExitStack) -> FoundJournal:
    try:
        return FoundJournal(path, lock_if_dead(path, locks))
    except OSError:
        return FoundJournal(path, dead=False, unreadable=True)
