"""Sharing the counts of all processes of a machine: one file per process, replaced as a whole by ordinary writes.

A failure costs counts, never a request or a process: a full disk, or a folder that is missing or not writable, is
logged once and retried a moment later. The file of a dead process is added to `total.json` by the next one that starts,
so that no count is lost by a restart and files do not accumulate. Gauges count only while their process runs.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.infrastructure.liveness import (
    DRAFT,
    SUFFIX,
    create_locked,
    delete_stale_drafts,
    live_processes,
    lock_if_dead,
    lock_if_free,
    new_process_name,
)

logger = logging.getLogger(__name__)

Key = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels of a sample."""
Counts = dict[Key, float]

PERIOD_SECONDS = 0.5
"""Seconds between two checks for new counts."""
COUNTS_SUFFIX = ".counts"
GAUGES = "gauges"
TOTAL_FILE = "total.json"
LATEST_SUFFIX = "_timestamp_seconds"
"""The end of the names of those of which the latest counts, and not the sum."""
MAX_MERGED_NAMES = 1000
"""Process names kept in the total, so that no file is counted twice: neither by a reader while a file is being added to
the total, nor when the process that adds it is killed before it deletes the file."""


def add(summed: Counts, counts: Mapping[Key, float]) -> None:
    """Adds counts to others."""
    for key, value in counts.items():
        before = summed.get(key, 0.0)
        summed[key] = max(before, value) if key[0].endswith(LATEST_SUFFIX) else before + value


class SharedCounts:
    """The folder in which the processes of this machine share their counts, and their gauges."""

    def __init__(
        self,
        folder: Path,
        read_counts: Callable[[], Counts],
        read_gauges: Callable[[], Counts] = dict,
        after_write: Callable[[], None] = lambda: None,
    ) -> None:
        """`after_write` is called by the thread that shares, about twice a second. It may raise `OSError`."""
        self._folder = folder
        self._read_counts = read_counts
        self._read_gauges = read_gauges
        self._after_write = after_write
        self._name: str | None = None
        self._descriptor = -1
        self._written: tuple[Counts, Counts] = {}, {}
        self._failing = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts a thread that shares new counts; the last ones are shared at the end of the process."""
        with self._errors_logged():
            self._join()
            self._merge_dead()
        atexit.register(self.write)
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(PERIOD_SECONDS):
            self.write()
            with self._errors_logged():
                self._after_write()

    def write(self) -> None:
        """Shares the counts of this process if they have changed. Raises nothing."""
        with self._errors_logged(), self._lock:
            shared = self._read_counts(), self._read_gauges()
            if self._name is None:
                self._join()
            if shared != self._written:
                replace_content(
                    self._folder / f"{self._name}{COUNTS_SUFFIX}",
                    {**listed_counts(shared[0]), **listed_counts(shared[1], GAUGES)},
                )
                self._written = shared

    def write_once(self) -> None:
        """Shares the counts of a process that ends now, and adds those of dead ones to the total, so that their files
        do not accumulate. Raises nothing."""
        self.write()
        with self._errors_logged():
            self._merge_dead()
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def others(self) -> Iterable[Counts]:
        """The counts of all other processes, including dead ones."""
        contents = {
            path.stem: read_content(path) for path in self._folder.glob(f"*{COUNTS_SUFFIX}") if path.stem != self._name
        }
        # Read last: files added to it meanwhile are named in it.
        total = read_content(self._folder / TOTAL_FILE)
        folded = _folded(total)
        yield counts_of(total)
        for name, content in contents.items():
            if name not in folded:
                yield counts_of(content)

    def others_gauges(self) -> Iterable[Counts]:
        """The gauges of all other processes that run."""
        with contextlib.suppress(OSError):
            for path in live_processes(self._folder):
                name = path.name.removesuffix(SUFFIX)
                if name != self._name:
                    yield counts_of(read_content(self._folder / f"{name}{COUNTS_SUFFIX}"), GAUGES)

    @contextlib.contextmanager
    def _errors_logged(self) -> Iterator[None]:
        """Suppresses errors of the disk or the folder, and logs the first one."""
        try:
            yield
        except OSError as error:
            self._leave()
            if not self._failing:
                self._failing = True
                logger.warning("counts for /metrics cannot be shared with other processes for now: %s", error)
        else:
            if self._failing:
                self._failing = False
                logger.info("counts for /metrics are shared again")

    def _join(self) -> None:
        name = new_process_name()
        self._descriptor = create_locked(self._folder / f"{name}{SUFFIX}")
        self._name, self._written = name, ({}, {})

    def _leave(self) -> None:
        """Called if the file has disappeared with its folder: the next one gets a new name."""
        if self._name is not None and not (self._folder / f"{self._name}{SUFFIX}").exists():
            os.close(self._descriptor)
            self._name = None

    def _merge_dead(self) -> None:
        """Adds the counts of dead processes to the total, and deletes their files."""
        with contextlib.ExitStack() as locks:
            if not lock_if_free(self._folder / "fold.lock", os.O_RDWR | os.O_CREAT, locks):
                return
            files = sorted(self._folder.glob(f"*{SUFFIX}"))
            dead = [path.name.removesuffix(SUFFIX) for path in files if lock_if_dead(path, locks)]
            if dead:
                self._add_to_total(dead)
            for name in dead:
                for suffix in (f"{COUNTS_SUFFIX}{DRAFT}", COUNTS_SUFFIX, SUFFIX):
                    (self._folder / f"{name}{suffix}").unlink(missing_ok=True)
            delete_stale_drafts(self._folder)

    def _add_to_total(self, names: list[str]) -> None:
        total = read_content(self._folder / TOTAL_FILE)
        folded, summed = _folded(total), counts_of(total)
        for name in names:
            if name not in folded:
                add(summed, counts_of(read_content(self._folder / f"{name}{COUNTS_SUFFIX}")))
        replace_content(
            self._folder / TOTAL_FILE, {**listed_counts(summed), "folded": [*names, *folded][:MAX_MERGED_NAMES]}
        )


def replace_content(path: Path, content: dict[str, Any]) -> None:
    """Replaces the file atomically. Raises `OSError`."""
    draft = path.with_name(f"{path.name}{DRAFT}")
    try:
        draft.write_text(json.dumps(content), "utf-8")
        draft.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def read_content(path: Path) -> dict[str, Any]:
    """The counts of a file; empty if it is missing or cannot be read."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _folded(total: dict[str, Any]) -> list[str]:
    """The processes whose counts are in the total."""
    folded = total.get("folded")
    return folded if isinstance(folded, list) else []


def listed_counts(counts: Counts, part: str = "counts") -> dict[str, Any]:
    """The counts as a part of a file."""
    return {part: [[name, labels, value] for (name, labels), value in counts.items()]}


def counts_of(content: dict[str, Any], part: str = "counts") -> Counts:
    """The counts in the parsed file; empty if this code has not written it."""
    try:
        return {
            (str(name), tuple((str(label), str(value)) for label, value in labels)): float(count)
            for name, labels, count in content.get(part, ())
        }
    except (TypeError, ValueError):
        return {}
