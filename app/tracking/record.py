"""Recording visits: opens and clicks of recipients, with their steps, events and counts (docs/tracking.md#counting).

    first open             open_type, first_open_time     event opened     group opened + 1
    first click            first_click_time               event clicked    group clicked + 1
    each further one       last_open_time                 event
    repeated within 10 s   last_open_time                 nothing else
    beyond the limits      last_open_time                 counted in `further_visits` only
    by a machine           a step                         event, if the account wants those of machines

A click also counts as an open: the first one records both events. Each visit is a step of the timeline. Events of
visits that a machine has perhaps made say so (docs/tracking.md#machines). A link can be requested any number of times,
with ever new user agents. So only the first visits to a link, and to all links of a recipient together, become steps
and events. Many visits are written in a fixed number of statements.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Update, func, select, update

from app.automations.definition import Did
from app.automations.run_states import end_waits
from app.db.bulk import BulkUpdate, RowValues
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import Account, Contact, Recipient, RecipientStep, table_of
from app.events.outbox import Payload, record_many
from app.recipients.conditions import has_been_forgotten
from app.recipients.row import RecipientRow, add_steps, as_recipient, select_recipients
from app.recipients.timeline import VISIT_STEPS, TimelineStep
from app.tracking.devices import is_suspect
from app.tracking.visits import Visit, link_of_detail

REPEAT_PERIOD = timedelta(seconds=10)
"""A double click, a reload, or a mail program that shows a message twice counts as one visit."""
MAX_STEPS_OF_LINK = 20
"""Visits of one recipient to one link (or the pixel) that become steps and events, people and machines separately."""
MAX_STEPS_OF_KIND = 100
"""Steps of one kind in the timeline of a recipient, for all links together."""

VISIT_COLUMNS = ("first_open_time", "last_open_time", "open_type", "first_click_time")
"""Columns of a recipient that visits set."""
OPENED, CLICKED = "opened", "clicked"
"""Names of the events, and of the counters of a group."""


@dataclass(slots=True)
class _RecipientVisits:
    """The visits of one recipient: those in its timeline, and what the new ones change."""

    recipient: RecipientRow
    stored: Mapping[str, Any]
    times: dict[str, Any]
    sent_time: datetime | None
    reports_machines: bool
    """Whether the account gets events of visits of machines."""
    latest: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """Step and detail -> time of the latest visit."""
    by_link: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    further: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list)
    counted: list[tuple[str, datetime]] = field(default_factory=list)
    """What it adds to its group, and when."""

    def add_known(self, step: str, detail: str | None, latest: datetime, count: int) -> None:
        """Counts visits that are in the timeline."""
        self.latest[step, detail or ""] = latest
        self.by_link[step, link_of_detail(step, detail)] += count
        self.by_kind[step] += count

    def add(self, visit: Visit) -> list[Payload]:
        """Adds a new visit; returns its events."""
        is_recorded, names = self._is_recorded(visit), self._event_names(visit)
        by_machine = visit.client.machine or self._is_suspect(visit)
        if not visit.client.machine:
            self._set_times(visit)
        if not is_recorded:
            return []
        self._add_step(visit)
        return [_event(self.recipient, visit, name, by_machine) for name in names]

    def column_values(self) -> dict[str, Any]:
        """The row of the bulk update; empty if no column changes."""
        if not self.further and self.times == self.stored:
            return {}
        return {"row": self.recipient.id, "further": self.further, **self.times}

    def _is_recorded(self, visit: Visit) -> bool:
        """Whether the visit becomes a step; one beyond the limits is only counted."""
        latest = self.latest.get((visit.step, visit.detail))
        if latest is not None and latest > visit.moment - REPEAT_PERIOD:
            return False
        is_full = (
            self.by_link[visit.step, visit.link] >= MAX_STEPS_OF_LINK or self.by_kind[visit.step] >= MAX_STEPS_OF_KIND
        )
        self.further += is_full
        return not is_full

    def _is_suspect(self, visit: Visit) -> bool:
        clicks = (
            (link_of_detail(step, detail), time)
            for (step, detail), time in self.latest.items()
            if step == TimelineStep.CLICKED
        )
        return is_suspect(visit.moment, self.sent_time, visit.link, clicks)

    def _event_names(self, visit: Visit) -> list[str]:
        if visit.client.machine:
            return [CLICKED if visit.target else OPENED] if self.reports_machines else []
        if visit.target is None:
            return [OPENED]
        return [OPENED, CLICKED] if self.times["first_open_time"] is None else [CLICKED]

    def _set_times(self, visit: Visit) -> None:
        """The type of the first open stays; a group counts each recipient once."""
        second = visit.moment.replace(microsecond=0)
        self.times["last_open_time"] = second
        if self.times["first_open_time"] is None:
            self.times |= {"first_open_time": second, "open_type": visit.open_type}
            self.counted.append((OPENED, second))
        if visit.target and self.times["first_click_time"] is None:
            self.times["first_click_time"] = second
            self.counted.append((CLICKED, second))

    def _add_step(self, visit: Visit) -> None:
        self.add_known(visit.step, visit.detail, visit.moment, 1)
        step = self.recipient.step(visit.step, visit.detail or None, visit.moment)
        self.steps.append({**step, "country": visit.country})


def record_visits(transaction: Transaction, visits: Sequence[Visit]) -> None:
    """Records visits in their order; those of deleted recipients are ignored."""
    by_recipient = _earlier_visits(transaction, {visit.recipient_id for visit in visits})
    events: dict[int, list[Payload]] = defaultdict(list)
    for visit in visits:
        if recipient_visits := by_recipient.get(visit.recipient_id):
            events[recipient_visits.recipient.account_id] += recipient_visits.add(visit)
    recorded = list(by_recipient.values())
    _update_recipients(transaction, recorded)
    record_many(transaction, events)
    add_steps(transaction, [step for visits_of_recipient in recorded for step in visits_of_recipient.steps])
    end_waits(transaction, _happened(recorded))
    _count(transaction, recorded)


def _happened(recorded: Sequence[_RecipientVisits]) -> dict[Did, list[int]]:
    """What became of messages that steps of automations have sent. A click is an open, too."""
    step_visits = [
        visits_of_recipient for visits_of_recipient in recorded if visits_of_recipient.recipient.step_id is not None
    ]
    clicked = [
        visits_of_recipient.recipient.id
        for visits_of_recipient in step_visits
        if any(step["step"] == TimelineStep.CLICKED for step in visits_of_recipient.steps)
    ]
    opened = [
        visits_of_recipient.recipient.id
        for visits_of_recipient in step_visits
        if any(step["step"] == TimelineStep.OPENED for step in visits_of_recipient.steps)
    ]
    return {"opened": [*opened, *clicked], "clicked": clicked}


def _earlier_visits(transaction: Transaction, ids: Collection[int]) -> dict[int, _RecipientVisits]:
    """The recipients with their visits so far, locked, so that simultaneous visits are recorded one after the other."""
    by_recipient = {
        visits_of_recipient.recipient.id: visits_of_recipient
        for visits_of_recipient in _lock_recipients(transaction, ids)
    }
    if by_recipient:
        for recipient_id, *earlier_visits in _steps(transaction, by_recipient):
            by_recipient[recipient_id].add_known(*earlier_visits)
    return by_recipient


def _lock_recipients(transaction: Transaction, ids: Collection[int]) -> Iterable[_RecipientVisits]:
    """A recipient given by `contact_id` has no address until its message is sent, so the contact's is used."""
    statement = (
        select_recipients(
            *(getattr(Recipient, name) for name in VISIT_COLUMNS),
            Recipient.sent_time,
            Account.machine_events,
            email=func.coalesce(Recipient.email, Contact.email),
        )
        .join(Account, Account.id == Recipient.account_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(in_json(Recipient.id, ids), between_ids(Recipient.id, ids), ~has_been_forgotten())
        .order_by(Recipient.id)
        .with_for_update(of=Recipient)
    )
    for row in transaction.execute(statement).all():
        stored = {name: getattr(row, name) for name in VISIT_COLUMNS}
        yield _RecipientVisits(as_recipient(row), stored, dict(stored), row.sent_time, row.machine_events)


def _steps(transaction: Transaction, ids: Collection[int]) -> Iterable[Sequence[Any]]:
    """Recipient, step, detail, time of the latest visit, and their number; the limits bound the number of rows."""
    statement = (
        select(
            RecipientStep.recipient_id,
            RecipientStep.step,
            RecipientStep.detail,
            func.max(RecipientStep.time, type_=RecipientStep.time.type),
            func.count(),
        )
        .where(
            in_json(RecipientStep.recipient_id, ids),
            between_ids(RecipientStep.recipient_id, ids),
            RecipientStep.step.in_(VISIT_STEPS),
        )
        .group_by(RecipientStep.recipient_id, RecipientStep.step, RecipientStep.detail)
    )
    return transaction.execute(statement)


def _update_recipients(transaction: Transaction, recorded: Sequence[_RecipientVisits]) -> None:
    _UPDATE_RECIPIENTS.run(
        transaction, [values for visits_of_recipient in recorded if (values := visits_of_recipient.column_values())]
    )


def _update_statement(row: RowValues) -> Update:
    columns = table_of(Recipient).c
    values: dict[str, Any] = {name: row[name] for name in VISIT_COLUMNS}
    values["further_visits"] = columns.further_visits + row["further"]
    return update(table_of(Recipient)).where(columns.id == row["row"]).values(values)


_UPDATE_RECIPIENTS = BulkUpdate(
    {
        "row": Recipient.id.type,
        "further": Recipient.further_visits.type,
        **{name: table_of(Recipient).c[name].type for name in VISIT_COLUMNS},
    },
    _update_statement,
    id_column=table_of(Recipient).c.id,
)


def _count(transaction: Transaction, recorded: Sequence[_RecipientVisits]) -> None:
    for visits_of_recipient in recorded:
        for name, moment in visits_of_recipient.counted:
            count_in_group(
                transaction,
                visits_of_recipient.recipient.account_id,
                visits_of_recipient.recipient.group_id,
                moment,
                visits_of_recipient.recipient.tags,
                **{name: 1},
            )


def _event(recipient: RecipientRow, visit: Visit, name: str, by_machine: bool) -> Payload:
    client = visit.client
    target = visit.target if name == CLICKED else None
    extra = {
        "device_type": client.device_type,
        "device_name": client.device_name,
        "link_url": target.url if target else None,
        "link_type": target.link_type if target else None,
        "country_code": visit.country,
        "is_machine": by_machine or None,
    }
    return recipient.event(name, visit.moment, extra)
