"""Figures of the whole installation for Prometheus: the work that is left to do, and the processes that do it
(docs/monitoring/metrics.md#figures-of-the-installation).

Their cost grows with the work that is left, and none reads the history. They are read apart from requests
(app/maintenance/figures_reader.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product

from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.history_ranges import has_ranges
from app.db.models import Account, Event, QueueEntry, Recipient, RelayRefusal, RunningProcess, Webhook
from app.db.models.webhooks import UNCHECKED
from app.db.phases import newest_revision
from app.db.schema import FITS, schema_of
from app.events.batch_contents import oldest_waiting, waiting_events
from app.infrastructure.heartbeat import SILENT
from app.infrastructure.metric_kinds import DEFINITIONS, Family, Labels, Measurement, define, gauge_family
from app.infrastructure.metrics import account_class
from app.infrastructure.queueing import JOBS
from app.maintenance.status import event_time, figures
from app.recipients.states import RecipientState
from app.retention.periods import Stage, overdue, periods, purged_by_sends
from app.sends.outcomes.relay_refusals import IS_NOTICED
from app.settings import Settings

WORST = 10
"""Webhooks, and answers of relays that refuse everything, that are shown one by one."""
STATES = ("due", "deferred", "in_flight", "abandoned", "uncertain", "held", "paused")
WITHOUT_AGE = ("deferred", "held", "paused")
"""The first are due later, the others wait for somebody."""
TYPES = ("email", "sms")
ROLES = ("api", *JOBS, "scheduler", "inbound")

OF_QUEUE = ("account_class", "type", "state")
define("tms_queue_entries", "gauge", "Entries of the send queue.", OF_QUEUE)
define("tms_queue_oldest_seconds", "gauge", "For how long the oldest of them has been due.", OF_QUEUE)
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
define("tms_purge_overdue_seconds", "gauge", "For how long the oldest send has been to be purged.", ("stage",))
define("tms_schema_info", "gauge", "The schema of the database.", ("revision", "needed", "state"))

Figures = dict[str, Measurement]
"""The values of each metric."""


def read_figures(session: Session, settings: Settings) -> Figures:
    """All figures as they are now; of a schema that does not fit that alone, since the tables may be others."""
    moment, schema = now(), schema_of(session.connection())
    of_schema: Figures = {"tms_schema_info": {(schema.revision or "", newest_revision(), schema.state): 1.0}}
    if schema.state not in FITS:
        return of_schema
    return {
        **_queue(session, moment, timedelta(seconds=settings.uncertain_wait)),
        "tms_relay_refused_accounts": _refused(session),
        **_webhooks(session, moment),
        "tms_automation_runs": _runs(session, moment),
        **_processes(session, moment),
        "tms_purge_overdue_seconds": _overdue(session, settings, moment),
        **of_schema,
    }


def families(shown: Figures) -> Iterator[Family]:
    """The figures as metrics."""
    for name, values in shown.items():
        one = DEFINITIONS[name]
        yield gauge_family(name, one.documentation, one.labels, values)


def _queue(session: Session, moment: datetime, uncertain_wait: timedelta) -> Figures:
    """One pass over the send queue; the type of an entry of the release before is that of its recipient."""
    entry = QueueEntry
    type_ = func.coalesce(
        entry.type, select(Recipient.type).where(Recipient.id == entry.recipient_id).scalar_subquery()
    ).label("type")
    is_due = entry.due_time <= moment
    state = case(
        (entry.state != RecipientState.QUEUED, case((entry.lease_time < moment, "abandoned"), else_=entry.state)),
        else_=case((is_due, "due"), else_="deferred"),
    ).label("state")
    columns = select(entry.account_id, type_, state, entry.due_time).subquery()
    of_account = columns.c.account_id, columns.c.type, columns.c.state
    counted = select(*of_account, func.count().label("entries"), func.min(columns.c.due_time).label("oldest"))
    totals = counted.group_by(*of_account).subquery()
    is_test = Account.test_of.is_not(None).label("is_test")
    rows = session.execute(
        select(is_test, totals.c.type, totals.c.state, func.sum(totals.c.entries), func.min(totals.c.oldest))
        .join(Account, Account.id == totals.c.account_id)
        .group_by(is_test, totals.c.type, totals.c.state)
    )
    entries: dict[Labels, float] = dict.fromkeys(product(("live", "test"), TYPES, STATES), 0.0)
    oldest: dict[Labels, float] = {key: 0.0 for key in entries if key[2] not in WITHOUT_AGE}
    for test, of_type, of_state, number, due_time in rows:
        name = "in_flight" if of_state == RecipientState.SENDING else of_state
        key = account_class(is_test=bool(test)), str(of_type), name
        entries[key] = float(number)
        if name not in WITHOUT_AGE:
            since = due_time - uncertain_wait if name == RecipientState.UNCERTAIN else due_time
            oldest[key] = _seconds(moment - since)
    return {"tms_queue_entries": entries, "tms_queue_oldest_seconds": oldest}


def _refused(session: Session) -> Measurement:
    """The ones that began first, since answers may be of any number."""
    columns = RelayRefusal.transport, RelayRefusal.reply, func.count()
    oldest = select(*columns).where(*IS_NOTICED).group_by(*columns[:2]).order_by(func.min(RelayRefusal.id)).limit(WORST)
    return {(transport, reply): float(number) for transport, reply, number in session.execute(oldest)}


def _webhooks(session: Session, moment: datetime) -> Figures:
    first = oldest_waiting(Webhook.id, Webhook.position, 1, Event.payload).scalar_subquery()
    rows = session.execute(
        select(
            Webhook.id,
            Webhook.failures,
            Webhook.lease_time,
            Webhook.held_to,
            waiting_events().label("waiting"),
            first.label("first"),
        ).where(or_(Webhook.barred.is_(None), Webhook.barred == UNCHECKED))
    ).all()
    behind = {row.id: (float(row.waiting), _age(row.first, moment)) for row in rows if row.waiting}
    worst = sorted(behind, key=lambda webhook_id: behind[webhook_id][1], reverse=True)[:WORST]
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
    }


def _runs(session: Session, moment: datetime) -> Measurement:
    wanted = figures(moment)
    return {
        (state,): float(session.execute(wanted[f"runs_{state}"]).one()[0])
        for state in ("waiting", "due", "late", "held")
    }


def _processes(session: Session, moment: datetime) -> Figures:
    """By role; a worker of two queues counts for both."""
    numbers: dict[Labels, float] = dict.fromkeys(product(ROLES, ("live", "silent")), 0.0)
    ages: dict[Labels, float] = defaultdict(lambda: float("inf"))
    for roles, host, seen_time in session.execute(
        select(RunningProcess.roles, RunningProcess.host, RunningProcess.seen_time)
    ):
        age = moment - seen_time
        for role in roles.split(","):
            state = "silent" if age > SILENT else "live"
            numbers[role, state] = numbers.get((role, state), 0.0) + 1
            ages[role, host] = min(ages[role, host], _seconds(age))
    return {"tms_processes": numbers, "tms_process_heartbeat_age_seconds": dict(ages)}


def _overdue(session: Session, settings: Settings, moment: datetime) -> Measurement:
    """Of what is purged send by send; two statements for each stage, with two lookups for each account."""
    found: dict[Labels, float] = {}
    for stage in Stage:
        of_accounts = periods(session, settings, stage)
        by_sends = purged_by_sends(of_accounts, stage, in_ranges=has_ranges(session))
        ages = [one.limit - one.oldest for one in overdue(session, by_sends, stage, moment)]
        found[(stage,)] = _seconds(max(ages, default=timedelta()))
    return found


def _age(payload: str | None, moment: datetime) -> float:
    since = event_time(payload) if payload else None
    return 0.0 if since is None else _seconds(moment - since)


def _seconds(age: timedelta) -> float:
    return max(0.0, round(age.total_seconds(), 3))
