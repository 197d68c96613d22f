"""What an installation needs attention for, in words: `flask status`, `flask top` and the console."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.db.expressions import in_json
from app.db.models import Account, QueueEntry, RecipientStep
from app.db.outage import reason
from app.distribution import COMMAND_LINE
from app.infrastructure.liveness import host_name
from app.infrastructure.metrics import BACKUP_TIME, counts_of_host, noted_time
from app.infrastructure.recent_counts import RecentCounts
from app.infrastructure.shared_counts import SharedCounts
from app.maintenance.alerts import ALERTS, Finding
from app.maintenance.figures import Figures, asked_redis, read_figures
from app.maintenance.findings import HostState, are_complete, database_down, findings
from app.maintenance.hosts import Host, read_hosts
from app.maintenance.words import counted
from app.recipients.conditions import IS_READY
from app.recipients.states import NOT_PERMITTED_PREFIX
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT_TRANSPORT
from app.sends.outcomes.attempt_result import journal_sizes
from app.sends.outcomes.relay_refusals import ShownRefusal, shown_refusals
from app.sends.pauses.read import ShownPause, active_shown, words
from app.services import Services

# Why messages wait for a retry: what relays and gateways said last, for `flask status` (docs/health.md#status).
#
# Bounded: it reads those that are retried next, and the steps of their attempts.

MAX_MESSAGES = 100
"""Messages that are looked at: those that are retried next."""


class Postponement(NamedTuple):
    """Messages that a transport has deferred, up to `MAX_MESSAGES` of all together, and the reply to the last attempt.
    `transport` is None where it was not asked, because the account lacks what `reply` says."""

    transport: str | None
    number: int
    reply: str


def read_put_off(session: Session, moment: datetime) -> list[Postponement]:
    """By transport, the most messages first. What was never attempted waits for another reason, and what test accounts
    send comes to no transport."""
    soonest = (
        select(QueueEntry.recipient_id, QueueEntry.account_id, QueueEntry.attempts)
        .where(IS_READY, QueueEntry.ready_time > moment)
        .order_by(QueueEntry.ready_time)
        .limit(MAX_MESSAGES)
        .subquery()
    )
    attempted = (
        select(soonest.c.recipient_id)
        .join(Account, Account.id == soonest.c.account_id)
        .where(soonest.c.attempts > 0, Account.test_of.is_(None))
    )
    ids = session.scalars(attempted).all()
    return _by_transport(session, ids) if ids else []


def _by_transport(session: Session, recipient_ids: Sequence[int]) -> list[Postponement]:
    columns = RecipientStep.recipient_id, RecipientStep.transport, RecipientStep.detail, RecipientStep.note
    is_deferral = in_json(RecipientStep.recipient_id, recipient_ids), RecipientStep.step == TimelineStep.DEFERRED
    steps = session.execute(select(*columns).where(*is_deferral).order_by(RecipientStep.id)).all()
    last = {step.recipient_id: _key(step.transport, step.detail) for step in steps}
    replies = {_key(step.transport, step.detail): step.note or step.detail or "" for step in steps}
    return [Postponement(key[0], number, replies[key]) for key, number in Counter(last.values()).most_common()]


def _key(transport: str | None, detail: str | None) -> tuple[str | None, str | None]:
    """What the messages have in common: the transport, or what their account lacks."""
    return (None, detail) if (detail or "").startswith(NOT_PERMITTED_PREFIX) else (transport or DEFAULT_TRANSPORT, None)


MAX_PAUSES = 10
SET_ASIDE_METRIC = "tms_transport_set_aside"
TIMES = {
    "TmsSchedulerDoesNotLook": ("scheduler", "tms_sweep_timestamp_seconds", "queues"),
    "TmsCleaningLate": ("maintenance", "tms_sweep_timestamp_seconds", "cleaning"),
    "TmsBackupOld": (None, BACKUP_TIME, "done"),
}
"""Alert that something was not done for too long -> the role that does it, the metric with the time, and its label. It
counts where a process of that role runs on this host: on another, the time is that of a process which has moved."""
SCHEMA_NOTES = {
    "pending": "migrations are pending, but not urgent: when all processes run this release, run "
    f"`{COMMAND_LINE} db upgrade --contract`",
    "newer": "the schema is from a newer release, but this release works with it",
}
"""State of the schema -> what to know about it, though nothing is wrong."""


class Overview(NamedTuple):
    """The figures that Prometheus gets, none without a database; what needs attention; what is good to know; what is
    known on this host alone; the relays that refuse everything of an account; what is paused; the
    hosts."""

    figures: Figures
    findings: list[Finding]
    notes: list[str]
    on_host: HostState = HostState()
    refusals: Sequence[ShownRefusal] = ()
    pauses: Sequence[ShownPause] = ()
    hosts: Sequence[Host] = ()

    @property
    def lines(self) -> Sequence[str]:
        """What is good to know, for a terminal, where commands stand within the words."""
        ended = (refusal.words() for refusal in self.refusals if refusal.ended_time is not None)
        return [*self.notes, *ended, *words(self.pauses, MAX_PAUSES)]


def read_overview(services: Services) -> Overview:
    """The overview of now. A database that does not answer is one of the findings."""
    redis_up, begin = asked_redis(services.redis)
    try:
        with services.database.read() as session:
            figures = read_figures(session, services.settings, begin)
            return overview_of(services, session, figures, redis_up=redis_up)
    except SQLAlchemyError as error:
        on_host = _on_host(services, {})
        problems = [database_down(reason(error)), *findings({}, redis_up=redis_up, on_host=on_host)]
        return Overview({}, problems, [], on_host)


def overview_of(services: Services, session: Session, figures: Figures, *, redis_up: bool) -> Overview:
    """What these figures say, with what messages wait for and what is known on this host."""
    put_off = read_put_off(session, now()) if are_complete(figures) else []
    on_host = _on_host(services, figures)
    pauses = active_shown(session, None, MAX_PAUSES + 1) if are_complete(figures) else ()
    refusals = shown_refusals(session, None) if are_complete(figures) else []
    refusing = [refusal for refusal in refusals if refusal.ended_time is None]
    problems = findings(figures, redis_up=redis_up, on_host=on_host, refusals=refusing)
    notes = [*notes_on_schema(figures), *_words(put_off)]
    hosts = read_hosts(session, now()) if are_complete(figures) else []
    return Overview(figures, problems, notes, on_host, refusals, pauses, hosts)


def _on_host(services: Services, figures: Figures) -> HostState:
    settings = services.settings
    set_aside: Counter[str] = Counter()
    for gauges in SharedCounts(settings.data_dir / "metrics", dict).others_gauges():
        for (name, labels), value in gauges.items():
            if name == SET_ASIDE_METRIC:
                set_aside[dict(labels)["transport"]] += int(value)
    here, beats = host_name(), figures.get("tms_process_heartbeat_age_seconds", {})
    done_here = {alert: metric for alert, (role, *metric) in TIMES.items() if role is None or (role, here) in beats}
    counts = counts_of_host(settings)
    times = {alert: noted_time(counts, *metric) for alert, metric in done_here.items()}
    ages = {alert: time.time() - noted for alert, noted in times.items() if noted is not None}
    windows = sorted({alert.window for alert in ALERTS.values() if alert.window})
    growths = RecentCounts(settings.data_dir / "metrics").growths(counts, windows)
    return HostState(set_aside, sum(journal_sizes(settings)), growths, ages)


def notes_on_schema(figures: Figures) -> list[str]:
    """What to know about a schema on which this code works."""
    return [SCHEMA_NOTES[state] for _revision, _needed, state in figures["tms_schema_info"] if state in SCHEMA_NOTES]


def _words(put_off: Sequence[Postponement]) -> list[str]:
    return [f"{'at least ' if group.number == MAX_MESSAGES else ''}{_sentence(group)}" for group in put_off]


def _sentence(group: Postponement) -> str:
    number = counted(group.number, "message")
    if group.transport is None:
        return f"{number} deferred before a transport was tried: {group.reply}"
    return f"{number} deferred by transport {group.transport}, last reply: {group.reply}"
