"""What an installation needs attention for, in words: `flask status`, `flask top` and the console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.db.outage import reason
from app.distribution import COMMAND_LINE
from app.infrastructure.shared_counts import SharedCounts
from app.maintenance.figures import Figures, read_figures
from app.maintenance.findings import Finding, OnHost, are_complete, counted, database_down, findings
from app.maintenance.put_off import MOST, PutOff, read_put_off
from app.sends.outcomes.attempt_result import journal_sizes
from app.sends.outcomes.relay_refusals import shown_refusals
from app.sends.pauses.read import active_shown, words
from app.services import Services

MOST_PAUSES = 10
SET_ASIDE = "tms_transport_set_aside"
NOTES = {
    "pending": "migrations are pending, on which nothing waits: when no process of an older release is left, run "
    f"`{COMMAND_LINE} db upgrade --contract`",
    "newer": "the schema is of a newer release, on which this one works",
}
"""State of the schema -> what to know about it, though nothing is wrong."""


class Overview(NamedTuple):
    """The figures that Prometheus gets, none without a database; what needs attention; what is good to know; what is
    known on this host alone."""

    figures: Figures
    found: list[Finding]
    notes: list[str]
    on_host: OnHost = OnHost()


def read_overview(services: Services) -> Overview:
    """The overview of now. A database that does not answer is one of the findings."""
    redis_up = _answers(services)
    try:
        with services.database.read() as session:
            return overview_of(services, session, read_figures(session, services.settings), redis_up=redis_up)
    except SQLAlchemyError as error:
        on_host = _on_host(services)
        found = [database_down(reason(error)), *findings({}, redis_up=redis_up, on_host=on_host)]
        return Overview({}, found, [], on_host)


def overview_of(services: Services, session: Session, shown: Figures, *, redis_up: bool) -> Overview:
    """What these figures say, with what messages wait for and what is known on this host."""
    put_off = read_put_off(session, now()) if are_complete(shown) else []
    on_host = _on_host(services)
    paused = words(active_shown(session, None, MOST_PAUSES + 1), MOST_PAUSES) if are_complete(shown) else ()
    refusals = shown_refusals(session, None) if are_complete(shown) else []
    refusing = [one for one in refusals if one.ended_time is None]
    found = findings(shown, redis_up=redis_up, on_host=on_host, refusals=refusing)
    ended = [one.words() for one in refusals if one.ended_time is not None]
    return Overview(shown, found, [*notes_on_schema(shown), *ended, *paused, *_words(put_off)], on_host)


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
    return [f"{'at least ' if one.number == MOST else ''}{_sentence(one)}" for one in put_off]


def _sentence(one: PutOff) -> str:
    number = counted(one.number, "message")
    if one.transport is None:
        return f"{number} put off, which no transport was given: {one.reply}"
    return f"{number} put off by transport {one.transport}, which said last: {one.reply}"
