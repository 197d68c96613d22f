"""What processor time the parts of an installation take for a mail: the sending processes, the database, Redis and the
sink."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.mail import Sink
from bench.processes import children, cpu_seconds
from bench.stack import Stack
from bench.turns import Row

SERVICE, DATABASE, REDIS, SINK = PARTS = ("service", "database", "Redis", "sink")


class PartTimes:
    """Seconds of the parts per mail, round by round, by the number of sending processes."""

    def __init__(self, parts: Stack, sink: Sink) -> None:
        self._parts = parts
        self._sink = sink
        self._found: dict[int, list[dict[str, float]]] = {}

    @contextlib.contextmanager
    def of(self, workers: Sequence[int], mails: int) -> Iterator[None]:
        """Measures the block, in which the workers send so many mails."""
        before = self._seconds(workers)
        yield
        after = self._seconds(workers)
        spent = {part: _spent(before[part], after[part]) / mails for part in PARTS}
        self._found.setdefault(len(workers), []).append(spent)

    def row(self, processes: int) -> Row:
        """The medians in microseconds; `ours` is the sum without the sink, which runs elsewhere in an installation."""
        rounds = self._found[processes]
        usual = {part: statistics.median(one[part] for one in rounds) * 1e6 for part in PARTS}
        total = sum(time for part, time in usual.items() if part != SINK)
        listed = ", ".join(f"{part} {time:.0f}" for part, time in usual.items())
        ending = "" if processes == 1 else "es"
        return Row(f"E. processor time of a mail, {processes} process{ending}", "us", f"{total:.0f} ({listed})")

    def _seconds(self, workers: Sequence[int]) -> dict[str, dict[int, float]]:
        """Part -> process -> the processor time that it has taken."""
        redis = int(self._parts.services.redis.info("server")["process_id"])
        pids = {SERVICE: workers, DATABASE: self._database(), REDIS: [redis], SINK: [self._sink.pid]}
        return {part: _of_processes(pids[part]) for part in PARTS}

    def _database(self) -> list[int]:
        """Its processes; on SQLite it is a part of the service."""
        if not self._parts.is_postgresql:
            return []
        with self._parts.connect() as connection:
            ((folder,),) = connection.execute("SHOW data_directory").fetchall()
        first = int(Path(folder, "postmaster.pid").read_text().split()[0])
        return [first, *children(first)]


def _of_processes(pids: Sequence[int]) -> dict[int, float]:
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found[pid] = cpu_seconds(pid)
    return found


def _spent(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """A process that came in between has taken all of its time since."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
