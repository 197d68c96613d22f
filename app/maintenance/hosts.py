"""The hosts of an installation, by the heartbeats of their processes (docs/health.md#hosts)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import RunningProcess
from app.infrastructure.heartbeat import SILENT


class Host(NamedTuple):
    """A host with what runs on it: its processes that are alive, or those that fell silent if none is. It is lost then:
    a process that is stopped deletes its row."""

    name: str
    state: str
    """`live` or `lost`."""
    roles: Sequence[str]
    processes: int
    releases: Sequence[str]
    since_time: datetime
    """When the first of these processes started."""
    seen_time: datetime
    """When the main loop of one of them last turned."""
    clock_difference: float | None
    """By how many seconds its clock is ahead of the database's; None for SQLite."""


def read_hosts(session: Session, moment: datetime) -> list[Host]:
    """The hosts by their names, lost ones first: one statement."""
    processes = defaultdict[str, list[RunningProcess]](list)
    for process in session.scalars(select(RunningProcess).order_by(RunningProcess.host)):
        processes[process.host].append(process)
    hosts = [_host(name, rows, moment) for name, rows in processes.items()]
    return sorted(hosts, key=lambda host: host.state == "live")


def _host(name: str, processes: Sequence[RunningProcess], moment: datetime) -> Host:
    live = [process for process in processes if moment - process.seen_time <= SILENT]
    relevant = live or processes
    differences = [round(process.clock_difference, 1) for process in relevant if process.clock_difference is not None]
    return Host(
        name=name,
        state="live" if live else "lost",
        roles=sorted({role for process in relevant for role in process.roles.split(",")}),
        processes=len(relevant),
        releases=sorted({process.version for process in relevant}),
        since_time=min(process.start_time for process in relevant).replace(microsecond=0),
        seen_time=max(process.seen_time for process in relevant).replace(microsecond=0),
        clock_difference=max(differences, key=abs, default=None),
    )
