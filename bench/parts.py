"""The processor time of the parts of an installation: the service's processes, PostgreSQL, Redis and the sink."""

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


class Meter:
    """Measures rounds: the seconds of each part for one request or mail. `pids_by_part` are the processes of the parts
    other than PostgreSQL and Redis, `count` is how many requests or mails a round has."""

    def __init__(self, parts: Stack, pids_by_part: Mapping[str, Sequence[int]], count: int) -> None:
        self._parts = parts
        self._pids_by_part = pids_by_part
        self._count = count
        self.rounds: list[dict[str, float]] = []

    @contextlib.contextmanager
    def round(self) -> Iterator[None]:
        """The block is a round."""
        before = self._seconds()
        yield
        after = self._seconds()
        self.rounds.append({part: _spent(before[part], after[part]) / self._count for part in after})

    def _seconds(self) -> dict[str, dict[int, float]]:
        """Part -> process -> its processor time so far."""
        redis = int(self._parts.services.redis.info("server")["process_id"])
        pids = {**self._pids_by_part, DATABASE: self._database(), REDIS: [redis]}
        return {part: _seconds_by_process(pids[part]) for part in PARTS if part in pids}

    def _database(self) -> list[int]:
        """The processes of PostgreSQL; SQLite runs in those of the service."""
        if not self._parts.is_postgresql:
            return []
        with self._parts.connect() as connection:
            ((folder,),) = connection.execute("SHOW data_directory").fetchall()
        first = int(Path(folder, "postmaster.pid").read_text().split()[0])
        return [first, *children(first)]


class ProcessorTimes:
    """The processor time of `case`, a mail or a request, by the number of processes of the service. A sink stands for
    other machines, and does not count."""

    def __init__(self, parts: Stack, case: str, sink: Sink | None = None) -> None:
        self._parts = parts
        self._case = case
        self._others = {SINK: [sink.pid]} if sink else {}
        self._rounds: dict[int, list[dict[str, float]]] = {}

    @contextlib.contextmanager
    def round(self, workers: Sequence[int], count: int) -> Iterator[None]:
        """In the block the workers send so many mails, or answer so many requests."""
        meter = Meter(self._parts, {SERVICE: workers, **self._others}, count)
        with meter.round():
            yield
        self._rounds.setdefault(len(workers), []).extend(meter.rounds)

    def row(self, processes: int) -> Row:
        """The medians in microseconds; `ours` is the sum without the sink."""
        usual = {part: time * 1e6 for part, time in medians(self._rounds[processes]).items()}
        listed = ", ".join(f"{part} {time:.0f}" for part, time in usual.items())
        total, ending = _total(usual), ""
        if processes > 1:
            ending = "es"
            listed += f"; {total / _total(medians(self._rounds[1])) / 1e6:.2f} times that of 1 process"
        return Row(f"{self._case}, {processes} process{ending}", "us", total, detail=listed)


def _total(times: Mapping[str, float]) -> float:
    """The sum of all parts of an installation."""
    return sum(time for part, time in times.items() if part != SINK)


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each part over the rounds."""
    return {part: statistics.median(round_[part] for round_ in rounds) for part in rounds[0]}


def _seconds_by_process(pids: Sequence[int]) -> dict[int, float]:
    seconds = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            seconds[pid] = cpu_seconds(pid)
    return seconds


def _spent(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """A process that started in between has spent all of its time since."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
