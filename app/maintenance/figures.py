"""Figures of the whole installation for Prometheus: the work that is left to do, and the processes that do it
(docs/monitoring/metrics.md#figures-of-the-installation).

Their cost grows with the work that is left, and none reads the history. They are read apart from requests
(app/maintenance/figures.py).
"""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import orjson
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import ColumnElement, Select, and_, case, func, literal, or_, select, union_all
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.automations.run_states import IS_HELD, IS_WAITING
from app.clock import now
from app.db import bounded_connection
from app.db.due import FULL_SHARE
from app.db.history_ranges import has_ranges
from app.db.models import (
    Account,
    AutomationRun,
    Event,
    QueueEntry,
    Recipient,
    RecipientStep,
    RelayRefusal,
    RunningProcess,
    Webhook,
)
from app.db.models.webhooks import UNCHECKED_BAR
from app.db.outage import log_failure
from app.db.phases import newest_revision
from app.db.schema import FITTING_STATES, schema_of
from app.distribution import VERSION
from app.events.batch_contents import oldest_waiting, waiting_events
from app.infrastructure import metrics
from app.infrastructure.heartbeat import EXPIRY_AGE, SILENT
from app.infrastructure.metric_kinds import DEFINITIONS, Definition, Family, Labels, Measurement, define, gauge_family
from app.infrastructure.metrics import account_class
from app.infrastructure.redis_client import JOBS
from app.recipients.conditions import IS_READY, IS_SENDING, entry_in_state
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.retention.periods import Stage, overdue, periods, purged_by_sends
from app.sends.outcomes.attempt_result import journal_sizes
from app.sends.outcomes.relay_refusals import IS_NOTICED
from app.sends.queue_begin import QueueBegin, known_begin
from app.services import Services
from app.settings import Settings

logger = logging.getLogger(__name__)


MAX_WORST = 10
"""Webhooks, and answers of relays that refuse everything, that are shown one by one."""
STATES = ("due", "deferred", "in_flight", "abandoned", "uncertain", "held", "paused")
STATES_WITHOUT_AGE = ("deferred", "held", "paused")
"""The first are due later, the others wait for somebody."""
TYPES = ("email", "sms")
LATE_AFTER = timedelta(seconds=60)
"""For how long a late run of an automation has been due at least."""
QUEUE_BEGIN = QueueBegin()
ROLES = ("api", *JOBS, "scheduler", "inbound", "submission")

QUEUE_LABELS = ("account_class", "type", "state")
define("tms_queue_entries", "gauge", "Entries of the send queue.", QUEUE_LABELS)
define("tms_queue_oldest_seconds", "gauge", "For how long the oldest of them has been due.", QUEUE_LABELS)
define(
    "tms_relay_refused_accounts",
    "gauge",
    "Accounts of which a transport refuses everything, with its answer.",
    ("transport", "reply"),
)
define("tms_webhooks", "gauge", "Webhooks, and how many are behind or fail.", ("state",))
define("tms_events_waiting", "gauge", "Events that their webhook has not accepted yet.", ())
define("tms_events_oldest_seconds", "gauge", "Age of the oldest of them.", ())
define("tms_webhook_events_waiting", "gauge", "The same of the webhooks with the oldest ones.", ("webhook",))
define("tms_webhook_oldest_seconds", "gauge", "Age of the oldest event of each of these.", ("webhook",))
define("tms_automation_runs", "gauge", "Runs of automations that have not ended.", ("state",))
define("tms_processes", "gauge", "Processes by their heartbeats.", ("role", "state"))
define(
    "tms_process_heartbeat_age_seconds",
    "gauge",
    "Age of the newest heartbeat of a role on a host.",
    ("role", "host"),
)
define("tms_host_heartbeat_age_seconds", "gauge", "Age of the newest heartbeat of a host.", ("host",))
define("tms_clock_difference_seconds", "gauge", "By how much a host's clock is ahead of the database's.", ("host",))
define("tms_purge_overdue_seconds", "gauge", "For how long the oldest send has been to be purged.", ("stage",))
define("tms_schema_info", "gauge", "The schema of the database.", ("revision", "needed", "state"))

Figures = dict[str, Measurement]
"""The values of each metric, and the `STATUS_FIGURES` ones."""
STATUS_FIGURES = ("relays_refusing", "runs_due_oldest_seconds", "test_events_waiting")
"""What `flask status` shows and no metric: relays that refuse everything of an account, the age of the oldest run that
is due, and the events of test accounts."""


def read_figures(
    session: Session, settings: Settings, begin: QueueBegin = QUEUE_BEGIN, moment: datetime | None = None
) -> Figures:
    """All figures as they are now; of a schema that does not fit that alone, since the tables may be others. `begin` is
    where the send queue begins, if it is known."""
    moment, schema = moment or now(), schema_of(session.connection())
    schema_figures: Figures = {"tms_schema_info": {(schema.revision or "", newest_revision(), schema.state): 1.0}}
    if schema.state not in FITTING_STATES:
        return schema_figures
    return {
        **_queue(session, moment, begin),
        **_refused(session),
        **_webhooks(session, moment),
        **_runs(session, moment),
        **_processes(session, moment),
        "tms_purge_overdue_seconds": _overdue(session, settings, moment),
        **schema_figures,
    }


def families(figures: Figures) -> Iterator[Family]:
    """The figures as metrics."""
    for name, values in figures.items():
        if name not in STATUS_FIGURES:
            yield _family(DEFINITIONS[name], values)


def _family(definition: Definition, values: Measurement) -> Family:
    return gauge_family(definition.name, definition.documentation, definition.labels, values)


def _queue(session: Session, moment: datetime, begin: QueueBegin) -> Figures:
    """One statement, which reads the entries of each state by their partial index."""
    columns = union_all(*_entries(moment, begin)).subquery()
    account_columns = columns.c.account_id, columns.c.type, columns.c.state
    counted = select(*account_columns, func.count().label("entries"), func.min(columns.c.since).label("oldest"))
    totals = counted.group_by(*account_columns).subquery()
    is_test = Account.test_of.is_not(None).label("is_test")
    rows = session.execute(
        select(is_test, totals.c.type, totals.c.state, func.sum(totals.c.entries), func.min(totals.c.oldest))
        .join(Account, Account.id == totals.c.account_id)
        .group_by(is_test, totals.c.type, totals.c.state)
    )
    entries: dict[Labels, float] = dict.fromkeys(product(("live", "test"), TYPES, STATES), 0.0)
    oldest: dict[Labels, float] = {key: 0.0 for key in entries if key[2] not in STATES_WITHOUT_AGE}
    for test, type_, state, number, since in rows:
        key = account_class(is_test=bool(test)), str(type_), state
        entries[key] = float(number)
        if state not in STATES_WITHOUT_AGE:
            oldest[key] = _seconds(moment - since)
    return {"tms_queue_entries": entries, "tms_queue_oldest_seconds": oldest}


def _entries(moment: datetime, begin: QueueBegin) -> Iterator[Select[Any]]:
    """Account, type, state and since when it waits, each by the index on the columns of the order: PostgreSQL considers
    all indexes equal after it has analyzed the table while it was empty, and reads in that order only by one of
    them."""
    entry = QueueEntry
    ready = and_(IS_READY, entry.ready_time >= begin.ready)
    leased = and_(IS_SENDING, entry.lease_time >= begin.lease)
    yield _ordered(ready, case((entry.due_time <= moment, "due"), else_="deferred"), entry.ready_time)
    yield _ordered(leased, case((entry.lease_time < moment, "abandoned"), else_="in_flight"), entry.lease_time)
    others = (
        (RecipientState.UNCERTAIN, entry.due_time),
        (RecipientState.HELD, entry.recipient_id),
        (RecipientState.PAUSED, entry.pause_id, entry.recipient_id),
    )
    for state, *order in others:
        since = _FIRST_UNCERTAIN if state is RecipientState.UNCERTAIN else entry.due_time
        yield _ordered(entry_in_state(state), literal(state.value), *order, since=since)


_OUTCOMES = TimelineStep.SENT, TimelineStep.BOUNCED, TimelineStep.FAILED
_STEPS = RecipientStep.recipient_id == QueueEntry.recipient_id
_LAST_OUTCOME = (
    select(func.max(RecipientStep.id)).where(_STEPS, RecipientStep.step.in_(_OUTCOMES)).correlate(QueueEntry)
).scalar_subquery()
_FIRST_UNCERTAIN = func.coalesce(
    select(func.min(RecipientStep.time))
    .where(_STEPS, RecipientStep.step == TimelineStep.UNCERTAIN, RecipientStep.id > func.coalesce(_LAST_OUTCOME, 0))
    .scalar_subquery(),
    QueueEntry.due_time,
)
"""The first attempt without an answer, since with each further one the wait begins anew. What came before an outcome,
which a retry leaves in the timeline, does not count. A deferral says nothing about an earlier attempt."""


def _ordered(
    condition: ColumnElement[bool], state: ColumnElement[str], *order: Any, since: Any = QueueEntry.due_time
) -> Select[Any]:
    """The type of an entry of the release before is that of its recipient."""
    recipient_type = select(Recipient.type).where(Recipient.id == QueueEntry.recipient_id).scalar_subquery()
    type_ = func.coalesce(QueueEntry.type, recipient_type).label("type")
    columns = QueueEntry.account_id, type_, state.label("state"), since.label("since")
    return select(select(*columns).where(condition).order_by(*order).subquery())


def _refused(session: Session) -> Figures:
    """The answers that began first, since they may be of any number, and how many relays there are of all."""
    columns = RelayRefusal.transport, RelayRefusal.reply, func.count(), func.sum(func.count()).over()
    oldest = (
        select(*columns).where(*IS_NOTICED).group_by(*columns[:2]).order_by(func.min(RelayRefusal.id)).limit(MAX_WORST)
    )
    rows = session.execute(oldest).all()
    return {
        "tms_relay_refused_accounts": {(transport, reply): float(number) for transport, reply, number, _ in rows},
        "relays_refusing": {(): float(rows[0][-1]) if rows else 0.0},
    }


def _webhooks(session: Session, moment: datetime) -> Figures:
    first = oldest_waiting(Webhook.id, Webhook.position, 1, Event.payload).scalar_subquery()
    rows = session.execute(
        select(
            Webhook.id,
            Webhook.failures,
            Webhook.lease_time,
            Webhook.held_to,
            Account.test_of,
            waiting_events().label("waiting"),
            first.label("first"),
        )
        .join(Account, Account.id == Webhook.account_id)
        .where(or_(Webhook.barred.is_(None), Webhook.barred == UNCHECKED_BAR))
    ).all()
    behind = {row.id: (float(row.waiting), _age(row.first, moment)) for row in rows if row.waiting}
    worst = sorted(behind, key=lambda webhook_id: behind[webhook_id][1], reverse=True)[:MAX_WORST]
    return {
        "tms_webhooks": {
            ("all",): float(len(rows)),
            ("behind",): float(len(behind)),
            ("failing",): float(sum(row.failures > 0 for row in rows)),
            ("in_flight",): float(sum(row.lease_time is not None for row in rows)),
            ("held",): float(sum(row.held_to is not None for row in rows)),
        },
        "tms_events_waiting": {(): sum(waiting for waiting, _ in behind.values())},
        "tms_events_oldest_seconds": {(): max((age for _, age in behind.values()), default=0.0)},
        "tms_webhook_events_waiting": {(str(webhook_id),): behind[webhook_id][0] for webhook_id in worst},
        "tms_webhook_oldest_seconds": {(str(webhook_id),): behind[webhook_id][1] for webhook_id in worst},
        "test_events_waiting": {(): float(sum(row.waiting for row in rows if row.test_of is not None))},
    }


def _runs(session: Session, moment: datetime) -> Figures:
    due_time = AutomationRun.due_time
    conditions = {
        "waiting": and_(IS_WAITING, due_time > moment),
        "due": and_(IS_WAITING, due_time <= moment),
        "late": and_(IS_WAITING, due_time <= moment - LATE_AFTER),
        "held": IS_HELD,
    }
    counted = (
        select(literal(state).label("state"), func.count().label("runs"), func.min(due_time).label("oldest")).where(
            condition
        )
        for state, condition in conditions.items()
    )
    rows = {row.state: row for row in session.execute(union_all(*counted))}
    oldest = rows["due"].oldest
    return {
        "tms_automation_runs": {(state,): float(rows[state].runs) for state in conditions},
        "runs_due_oldest_seconds": {(): 0.0 if oldest is None else _seconds(moment - oldest)},
    }


def _processes(session: Session, moment: datetime) -> Figures:
    """By role; a worker of two queues counts for both."""
    numbers: dict[Labels, float] = dict.fromkeys(product(ROLES, ("live", "silent")), 0.0)
    ages: dict[Labels, float] = defaultdict(lambda: float("inf"))
    host_ages: dict[Labels, float] = defaultdict(lambda: float("inf"))
    differences: dict[Labels, float] = {}
    columns = RunningProcess.roles, RunningProcess.host, RunningProcess.seen_time, RunningProcess.clock_difference
    for roles, host, seen_time, difference in session.execute(select(*columns)):
        age = moment - seen_time
        host_ages[host,] = min(host_ages[host,], _seconds(age))
        if age > EXPIRY_AGE:
            continue  # only what tells that its host is lost
        if difference is not None and age <= SILENT:
            differences[host,] = max(differences.get((host,), 0.0), round(difference, 3), key=abs)
        for role in roles.split(","):
            state = "silent" if age > SILENT else "live"
            numbers[role, state] = numbers.get((role, state), 0.0) + 1
            ages[role, host] = min(ages[role, host], _seconds(age))
    return {
        "tms_processes": numbers,
        "tms_process_heartbeat_age_seconds": dict(ages),
        "tms_host_heartbeat_age_seconds": dict(host_ages),
        "tms_clock_difference_seconds": differences,
    }


def _overdue(session: Session, settings: Settings, moment: datetime) -> Measurement:
    """How late purging is, for what is purged send by send. Two statements for each stage, with two lookups for each
    account."""
    oldest_seconds: dict[Labels, float] = {}
    for stage in Stage:
        account_periods = periods(session, settings, stage)
        by_sends = purged_by_sends(account_periods, stage, in_ranges=has_ranges(session))
        ages = [
            overdue_account.limit - overdue_account.oldest
            for overdue_account in overdue(session, by_sends, stage, moment)
        ]
        oldest_seconds[(stage,)] = _seconds(max(ages, default=timedelta()))
    return oldest_seconds


def _age(payload: str | None, moment: datetime) -> float:
    """For how long the event has waited (docs/webhooks.md#events)."""
    timestamp = orjson.loads(payload).get("timestamp") if payload else None
    return _seconds(moment - datetime.fromisoformat(timestamp)) if timestamp else 0.0


def _seconds(age: timedelta) -> float:
    return max(0.0, round(age.total_seconds(), 3))


# Reads the figures of the installation for scrapes, so that these cost the same however much work is left, and never
# wait for a database that hangs (docs/monitoring/metrics.md#figures-of-the-installation).

WAIT_SECONDS = 0.25
"""Seconds that a scrape waits for new figures; then it shows those before. It does not wait at all if these took
longer: it would in vain, and takes the same time however much work is left."""
MIN_INTERVAL = 1.0
"""Seconds between the starts of two readings, however often scrapers come."""
MAX_INTERVAL = 30.0
"""Seconds from a reading to the next one, however long it took: an alert must notice that its condition has ended."""
RETRY_INTERVAL = 2.0
"""Seconds from a reading that failed to the next one."""
DATABASE_SECONDS = 2.0
"""Seconds within which the database answers, or counts as away."""
MAX_AGE = 600.0
"""Seconds; older figures are not shown."""


class Reading(NamedTuple):
    """Figures, when they were taken on the monotonic clock, and how long the database took for them."""

    figures: Figures
    taken: float
    seconds: float
    database_up: bool
    redis_up: bool


def asked_redis(redis: Redis) -> tuple[bool, QueueBegin]:
    """Whether Redis answers, and where the send queue begins as far as it knows."""
    try:
        return bool(redis.ping()), known_begin(redis)
    except RedisError:
        return False, QUEUE_BEGIN


class FiguresReader:
    """One per process: one reading at a time, in a thread and over a connection of its own, which takes at most
    `FULL_SHARE` of the time, unless `MAX_INTERVAL` is over."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._running: threading.Event | None = None
        self._due = 0.0
        self._latest: Reading | None = None

    def latest(self) -> Reading | None:
        """The newest figures; None if there are none that are new enough."""
        with self._lock:
            if self._running is None and time.monotonic() >= self._due:
                ended = threading.Event()
                threading.Thread(target=self._run, args=(ended,), name="figures", daemon=True).start()
                self._running = ended
            running = self._running
        reading = self._latest
        if running is not None and (reading is None or reading.seconds <= WAIT_SECONDS):
            running.wait(WAIT_SECONDS)
        reading = self._latest
        return reading if reading and time.monotonic() - reading.taken <= MAX_AGE else None

    def _run(self, ended: threading.Event) -> None:
        began, pause = time.monotonic(), RETRY_INTERVAL
        try:
            self._latest = reading = self._read(began)
            if reading.database_up:
                pause = min(reading.seconds / FULL_SHARE, MAX_INTERVAL)
        except Exception:
            logger.exception("the figures for /metrics cannot be read")
        finally:
            with self._lock:
                self._running = None
                self._due = max(began + MIN_INTERVAL, time.monotonic() + pause)
            ended.set()

    def _read(self, began: float) -> Reading:
        """A database that does not answer has no figures; whatever else fails is raised. Only what the database does
        counts as the time that they took: a Redis that hangs must not keep them from being read again soon."""
        redis_up, begin = asked_redis(self._services.redis)
        started = time.monotonic()
        try:
            with bounded_connection.limit_waits(DATABASE_SECONDS), self._services.database.read() as session:
                schema_of(session.connection())
            with self._services.database.read() as session:
                figures = read_figures(session, self._services.settings, begin)
        except SQLAlchemyError as error:
            log_failure(logger, "no figures for /metrics", error)
            return Reading({}, began, time.monotonic() - started, database_up=False, redis_up=redis_up)
        return Reading(figures, began, time.monotonic() - started, database_up=True, redis_up=redis_up)


# What `GET /metrics` answers: the counts of this host's processes, and the figures of the installation
# (docs/monitoring/metrics.md).

JOURNAL_BYTES = define("tms_journal_bytes", "gauge", "Size of the journals of this host.", ())
JOURNALS = define("tms_journals", "gauge", "Journals of this host.", ())
BUILD = define("tms_build_info", "gauge", "The version that answers.", ("version", "python"))
DATABASE_UP = define("tms_database_up", "gauge", "Whether the figures of the installation could be read.", ())
REDIS_UP = define("tms_redis_up", "gauge", "Whether Redis answered when they were read.", ())
AGE = define("tms_figures_age_seconds", "gauge", "How old the figures of the installation are.", ())
SECONDS = define("tms_figures_seconds", "gauge", "How long reading them took.", ())


def scrape(settings: Settings, reader: FiguresReader) -> bytes:
    """All metrics in Prometheus' text format."""
    return metrics.exposition([*_host_families(settings), *_installation_families(reader.latest())])


def _host_families(settings: Settings) -> Iterator[Family]:
    sizes = journal_sizes(settings)
    yield _family(JOURNAL_BYTES, {(): float(sum(sizes))})
    yield _family(JOURNALS, {(): float(len(sizes))})
    yield _family(BUILD, {(VERSION, platform.python_version()): 1.0})


def _installation_families(reading: Reading | None) -> Iterator[Family]:
    """Without a reading the database has not answered since the process started, or for long."""
    if reading is None:
        yield _family(DATABASE_UP, {(): 0.0})
        return
    yield from families(reading.figures)
    yield _family(DATABASE_UP, {(): float(reading.database_up)})
    yield _family(REDIS_UP, {(): float(reading.redis_up)})
    yield _family(AGE, {(): round(time.monotonic() - reading.taken, 3)})
    yield _family(SECONDS, {(): round(reading.seconds, 3)})
