"""Keeping what recipients did: opens and clicks, with what follows from them.

    first open             open_type, first_open_time     event opened     group opened + 1
    first click            first_click_time               event clicked    group clicked + 1
    each further one       last_open_time                 event
    the same within ten seconds    last_open_time         nothing else
    beyond the bounds      last_open_time                 only counted, in `further_visits`
    a machine's            a step                         nothing else

A click counts as an open, and the first one is told as both (decisions: 11, Outcomes). Each is a step of the timeline.

Whoever has a link can follow it for ever, under ever new names. So of one link, and of all links of a recipient
together, only the first visits become steps and events. Many visits are written by a fixed number of statements.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, Update, bindparam, func, select, update

from app.db.bulk import insert_rows
from app.db.bulk_update import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import Contact, Group, Recipient, RecipientStep, Send, table_of
from app.events.outbox import record_many
from app.events.payloads import Payload, recipient_event
from app.recipients.timeline import VISITS
from app.tracking.visits import Visit, link_of_detail

REPEATED_WITHIN = timedelta(seconds=10)
"""A double click, a reload, a mail program that shows a message twice: the same deed, told once."""
MOST_OF_A_LINK = 20
"""Visits of one recipient to one link that become steps and events; the pixel is a link. People and machines apart."""
MOST_OF_A_KIND = 100
"""The same for all links of a recipient together: opens, clicks, and those of machines, each."""

WRITTEN = ("first_open_time", "last_open_time", "open_type", "first_click_time")
OPENED, CLICKED = "opened", "clicked"
"""Names of the events, and of the counters of a group."""
COUNTERS = (OPENED, CLICKED)


@dataclass(slots=True)
class _Reader:
    """A recipient with what it has done, and what is to be written of it."""

    row: Row[*tuple[Any, ...]]
    times: dict[str, Any]
    latest: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """Step and detail -> when it last happened."""
    of_link: Counter[tuple[str, str]] = field(default_factory=Counter)
    of_kind: Counter[str] = field(default_factory=Counter)
    further: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def know(self, step: str, detail: str | None, latest: datetime, count: int) -> None:
        """What the timeline holds already."""
        self.latest[step, detail or ""] = latest
        self.of_link[step, link_of_detail(step, detail)] += count
        self.of_kind[step] += count

    def see(self, visit: Visit) -> list[Payload]:
        """Takes one visit in; the events that it makes."""
        is_kept, told = self._is_kept(visit), []
        if not visit.client.machine:
            if is_kept:
                told = [_payload(self.row, visit, event) for event in self._events(visit)]
            self._note_times(visit)
        if is_kept:
            self._add_step(visit)
        return told

    def columns(self) -> dict[str, Any]:
        """What is to be written of its row, if anything."""
        is_changed = self.further or any(getattr(self.row, name) != value for name, value in self.times.items())
        return {"row": self.row.id, "further": self.further, **self.times} if is_changed else {}

    def _is_kept(self, visit: Visit) -> bool:
        """Whether it becomes a step; one beyond the bounds is counted."""
        latest = self.latest.get((visit.step, visit.detail))
        if latest is not None and latest > visit.moment - REPEATED_WITHIN:
            return False
        is_full = self.of_link[visit.step, visit.link] >= MOST_OF_A_LINK or self.of_kind[visit.step] >= MOST_OF_A_KIND
        self.further += is_full
        return not is_full

    def _events(self, visit: Visit) -> list[str]:
        if visit.target is None:
            return [OPENED]
        return [OPENED, CLICKED] if self.times["first_open_time"] is None else [CLICKED]

    def _note_times(self, visit: Visit) -> None:
        """What was read first stays the type; a group counts each recipient once."""
        second = visit.moment.replace(microsecond=0)
        self.times["last_open_time"] = second
        if self.times["first_open_time"] is None:
            self.times |= {"first_open_time": second, "open_type": visit.open_type}
            self.counted[OPENED] += 1
        if visit.target and self.times["first_click_time"] is None:
            self.times["first_click_time"] = second
            self.counted[CLICKED] += 1

    def _add_step(self, visit: Visit) -> None:
        self.know(visit.step, visit.detail, visit.moment, 1)
        self.steps.append(
            {
                "account_id": self.row.account_id,
                "recipient_id": self.row.id,
                "time": visit.moment,
                "step": visit.step,
                "detail": visit.detail or None,
            }
        )


def keep(transaction: Transaction, visits: Sequence[Visit]) -> None:
    """Writes visits, in their order, and what follows from them; nothing for recipients that are gone."""
    readers = _readers(transaction, {visit.recipient_id for visit in visits})
    told: dict[int, list[Payload]] = defaultdict(list)
    for visit in visits:
        if reader := readers.get(visit.recipient_id):
            told[reader.row.account_id] += reader.see(visit)
    made = list(readers.values())
    _write_recipients(transaction, made)
    record_many(transaction, told)
    insert_rows(transaction, RecipientStep, [step for one in made for step in one.steps])
    _count(transaction, made)


def _readers(transaction: Transaction, ids: Collection[int]) -> dict[int, _Reader]:
    """The recipients, locked: of two visits at the same moment one is the first."""
    rows = _locked(transaction, ids)
    readers = {row.id: _Reader(row, {name: getattr(row, name) for name in WRITTEN}) for row in rows}
    if readers:
        for recipient_id, *known in _known(transaction, readers):
            readers[recipient_id].know(*known)
    return readers


def _locked(transaction: Transaction, ids: Collection[int]) -> Iterable[Row[*tuple[Any, ...]]]:
    """A recipient that was named by its contact has no address of its own until it was sent."""
    statement = (
        select(
            Recipient.id,
            Recipient.account_id,
            Recipient.uuid,
            Recipient.type,
            Recipient.group_id,
            Send.group_name,
            Recipient.message_id,
            Recipient.list_id,
            Recipient.contact_id,
            func.coalesce(Recipient.email, Contact.email).label("email"),
            *(getattr(Recipient, name) for name in WRITTEN),
        )
        .join(Send, Send.id == Recipient.send_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(in_json(Recipient.id, ids))
        .order_by(Recipient.id)
        .with_for_update(of=Recipient)
    )
    return transaction.execute(statement)


def _known(transaction: Transaction, ids: Collection[int]) -> Iterable[Sequence[Any]]:
    """Recipient, step, detail, when it last happened, and how often. The bounds keep them few."""
    statement = (
        select(
            RecipientStep.recipient_id,
            RecipientStep.step,
            RecipientStep.detail,
            func.max(RecipientStep.time, type_=RecipientStep.time.type),
            func.count(),
        )
        .where(in_json(RecipientStep.recipient_id, ids), RecipientStep.step.in_(VISITS))
        .group_by(RecipientStep.recipient_id, RecipientStep.step, RecipientStep.detail)
    )
    return transaction.execute(statement)


def _write_recipients(transaction: Transaction, made: Sequence[_Reader]) -> None:
    rows = [columns for one in made if (columns := one.columns())]
    _UPDATE_OF_RECIPIENTS.run(transaction, rows)


def _update_of_recipients(row: RowValues) -> Update:
    columns = table_of(Recipient).c
    values: dict[str, Any] = {name: row[name] for name in WRITTEN}
    values["further_visits"] = columns.further_visits + row["further"]
    return update(table_of(Recipient)).where(columns.id == row["row"]).values(values)


_UPDATE_OF_RECIPIENTS = BulkUpdate(
    {
        "row": Recipient.id.type,
        "further": Recipient.further_visits.type,
        **{name: table_of(Recipient).c[name].type for name in WRITTEN},
    },
    _update_of_recipients,
)


def _count(transaction: Transaction, made: Sequence[_Reader]) -> None:
    """Last here as everywhere, and groups in ascending order: two writers then never wait for each other."""
    counts: Mapping[int, Counter[str]] = defaultdict(Counter)
    for one in made:
        if one.counted:
            counts[one.row.group_id].update(one.counted)
    if not counts:
        return
    columns = table_of(Group).c
    more = {name: columns[name] + bindparam(f"more_{name}") for name in COUNTERS}
    rows = [{"row": group, **{f"more_{name}": counts[group][name] for name in COUNTERS}} for group in sorted(counts)]
    transaction.connection().execute(update(table_of(Group)).where(columns.id == bindparam("row")).values(more), rows)


def _payload(row: Row[*tuple[Any, ...]], visit: Visit, event: str) -> Payload:
    client = visit.client
    target = visit.target if event == CLICKED else None
    return recipient_event(
        event,
        recipient_id=row.id,
        uuid=row.uuid,
        group_id=row.group_id,
        group_name=row.group_name,
        message_id=row.message_id,
        message_type=row.type,
        list_id=row.list_id,
        contact_id=row.contact_id,
        email=row.email,
        mobile=None,
        moment=visit.moment,
        device_type=client.device_type,
        device_name=client.device_name,
        link_url=target.url if target else None,
        link_type=target.link_type if target else None,
        country_code=visit.country,
    )
