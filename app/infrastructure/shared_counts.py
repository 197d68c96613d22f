"""The counts of a process for all others of its machine: a file each, replaced as a whole by ordinary writes.

What goes wrong with it costs counts, never a request or a process: a disk that is full, a folder that is gone or is
somebody else's is told in one log line, and tried again a moment later. A process that dies leaves its file, which the
next one adds to `total.json`, so that nothing is counted less after a restart and files do not pile up.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from app.infrastructure.liveness import (
    DRAFT,
    SUFFIX,
    create_locked,
    delete_stale_drafts,
    lock_if_dead,
    lock_if_free,
    new_process_name,
)

logger = logging.getLogger(__name__)

Key = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a sample, and its labels."""
Counts = dict[Key, float]

PERIOD = 0.5
"""Seconds between two looks whether there is something new to share."""
COUNTS = ".counts"
TOTAL = "total.json"
MOST_FOLDED = 1000
"""Names that the total remembers, so that no file is counted twice: neither by who reads both while the one is added to
the other, nor when its process was killed before the file was deleted."""


class SharedCounts:
    """The folder in which the processes of this machine share what they count."""

    def __init__(self, folder: Path, own: Callable[[], Counts]) -> None:
        self._folder = folder
        self._own = own
        self._name: str | None = None
        self._descriptor = -1
        self._written: Counts = {}
        self._failing = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """A thread shares from now on; what is left is shared at the end of the process."""
        with self._telling():
            self._join()
            self._fold_dead()
        atexit.register(self.write)
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(PERIOD):
            self.write()

    def write(self) -> None:
        """Shares what this process has counted, when that has changed. Raises nothing."""
        with self._telling(), self._lock:
            counts = self._own()
            if self._name is None:
                self._join()
            if counts != self._written:
                _replace(self._folder / f"{self._name}{COUNTS}", _listed(counts))
                self._written = counts

    def others(self) -> Iterable[Counts]:
        """What all other processes have counted, the dead ones included."""
        found = {path.stem: _read(path) for path in self._folder.glob(f"*{COUNTS}") if path.stem != self._name}
        # Read last: what has been added to it meanwhile is named there.
        total = _read(self._folder / TOTAL)
        folded = set(total.get("folded", ()))
        yield _counts_of(total)
        for name, content in found.items():
            if name not in folded:
                yield _counts_of(content)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Swallows what is wrong with the disk or the folder, and tells it once."""
        try:
            yield
        except OSError as error:
            self._leave()
            if not self._failing:
                self._failing = True
                logger.warning("counts for /metrics cannot be shared, others do not see them until they can: %s", error)
        else:
            if self._failing:
                self._failing = False
                logger.info("counts for /metrics are shared again")

    def _join(self) -> None:
        name = new_process_name()
        self._descriptor = create_locked(self._folder / f"{name}{SUFFIX}")
        self._name, self._written = name, {}

    def _leave(self) -> None:
        """The file may be gone with its folder; a new one gets a new name, and this one is added to the total."""
        if self._name is not None and not (self._folder / f"{self._name}{SUFFIX}").exists():
            os.close(self._descriptor)
            self._name = None

    def _fold_dead(self) -> None:
        """Adds the counts of processes that have ended to the total, and deletes their files."""
        with contextlib.ExitStack() as locks:
            if not lock_if_free(self._folder / "fold.lock", os.O_RDWR | os.O_CREAT, locks):
                return
            present = sorted(self._folder.glob(f"*{SUFFIX}"))
            gone = [path.name.removesuffix(SUFFIX) for path in present if lock_if_dead(path, locks)]
            if gone:
                self._add_to_total(gone)
            for name in gone:
                for suffix in (f"{COUNTS}{DRAFT}", COUNTS, SUFFIX):
                    (self._folder / f"{name}{suffix}").unlink(missing_ok=True)
            delete_stale_drafts(self._folder)

    def _add_to_total(self, names: list[str]) -> None:
        total = _read(self._folder / TOTAL)
        folded, summed = list(total.get("folded", ())), _counts_of(total)
        for name in names:
            if name not in folded:
                for key, value in _counts_of(_read(self._folder / f"{name}{COUNTS}")).items():
                    summed[key] = summed.get(key, 0.0) + value
        _replace(self._folder / TOTAL, {**_listed(summed), "folded": [*names, *folded][:MOST_FOLDED]})


def _replace(path: Path, content: dict[str, Any]) -> None:
    """All of it or nothing: who reads finds the old or the new. Raises `OSError`."""
    draft = path.with_name(f"{path.name}{DRAFT}")
    try:
        draft.write_text(json.dumps(content), "utf-8")
        draft.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _read(path: Path) -> dict[str, Any]:
    """Nothing for a file that is gone or that nobody can read."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _listed(counts: Counts) -> dict[str, Any]:
    return {"counts": [[name, labels, value] for (name, labels), value in counts.items()]}


def _counts_of(content: dict[str, Any]) -> Counts:
    """Nothing of a file that was not written by this code."""
    try:
        return {
            (name, tuple((label, value) for label, value in labels)): float(count)
            for name, labels, count in content.get("counts", ())
        }
    except (TypeError, ValueError):
        return {}
