"""What `flask status` and `flask top` say in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.cli.base import echo
from app.clock import now
from app.db.outage import reason
from app.distribution import COMMAND_LINE
from app.infrastructure.shared_counts import SharedCounts
from app.maintenance.figures import Figures, read_figures
from app.maintenance.findings import Finding, OnHost, are_complete, counted, database_down, findings
from app.maintenance.put_off import MOST, PutOff, read_put_off
from app.sends.outcomes.journal import journal_sizes
from app.services import Services

RUNBOOK = "docs/monitoring/alerts.md"
SET_ASIDE = "tms_transport_set_aside"
NOTES = {
    "pending": "migrations are pending, on which nothing waits: when no process of an older release is left, run "
    f"`{COMMAND_LINE} db upgrade --contract`",
    "newer": "the schema is of a newer release, on which this one works",
}
"""State of the schema -> what to know about it, though nothing is wrong."""


class Overview(NamedTuple):
    """The figures that Prometheus gets, none without a database; what needs attention; what is good to know."""

    figures: Figures
    found: list[Finding]
    notes: list[str]


def read_overview(services: Services) -> Overview:
    """The overview of now. A database that does not answer is one of the findings."""
    redis_up, on_host = _answers(services), _on_host(services)
    try:
        with services.database.read() as session:
            shown = read_figures(session, services.settings)
            put_off = read_put_off(session, now()) if are_complete(shown) else []
    except SQLAlchemyError as error:
        found = [database_down(reason(error)), *findings({}, redis_up=redis_up, on_host=on_host)]
        return Overview({}, found, [])
    return Overview(
        shown, findings(shown, redis_up=redis_up, on_host=on_host), [*notes_on_schema(shown), *_words(put_off)]
    )


def _answers(services: Services) -> bool:
    try:
        return bool(services.redis.ping())
    except RedisError:
        return False


def _on_host(services: Services) -> OnHost:
    set_aside: Counter[str] = Counter()
    for gauges in SharedCounts(services.settings.data_dir / "metrics", dict).others_gauges():
        for (name, labels), value in gauges.items():
            if name == SET_ASIDE:
                set_aside[dict(labels)["transport"]] += int(value)
    return OnHost(set_aside, sum(journal_sizes(services.settings)))


def notes_on_schema(shown: Figures) -> list[str]:
    """What to know about a schema on which this code works."""
    return [NOTES[state] for _revision, _needed, state in shown["tms_schema_info"] if state in NOTES]


def _words(put_off: Sequence[PutOff]) -> list[str]:
    return [
        f"{'at least ' if one.number == MOST else ''}{counted(one.number, 'message')} put off by transport "
        f"{one.transport}, which said last: {one.reply}"
        for one in put_off
    ]


def print_overview(overview: Overview) -> None:
    """A line for each finding, with the section of the runbook, and for each note."""
    if not overview.found and not overview.notes:
        echo("all is well")
    for one in overview.found:
        echo(f"! {one.words} ({RUNBOOK}#{one.alert.lower()})")
    for note in overview.notes:
        echo(f"- {note}")
