"""Messages that wait for their next try, by the domain to which they go, and the domain back-offs
(docs/console.md#queues).

Bounded: it reads those that are tried next, and the steps of their attempts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, Select, select, union_all
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.db.expressions import between_ids, in_json
from app.db.models import Account, Contact, DomainBackoff, QueueEntry, Recipient, RecipientStep
from app.db.queue import PRIORITIES, QUEUED
from app.recipients.conditions import IS_READY
from app.recipients.timeline import TimelineStep

LOOKED_AT = 200
"""Messages that are looked at: those that are tried next."""
MOST_BACKOFFS = 50
TEXT_MESSAGES = "text messages"
"""In place of a domain."""
NO_ADDRESS = "no address"
"""In place of the domain of a contact that is gone."""
Entry = Row[int, datetime]
"""Recipient and due time."""
Address = Row[int, str, str | None, str | None]
"""Recipient, type, address, and that of the contact."""
Attempt = Row[int, int, str | None, str | None]
"""Step, recipient, detail and note."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Deferred messages to one domain. `reason` is what the latest of their attempts met, and `note` what operators
    see in its place; both are None while none of them was attempted."""

    domain: str
    messages: int
    next_try: datetime
    last_try: datetime
    reason: str | None
    note: str | None


def deferred_by_domain(session: Session, account_id: int | None, moment: datetime) -> Sequence[Destination]:
    """Of the account, or of all for None, the most messages first: three statements."""
    entries = session.execute(_next_tried(account_id, moment)).all()
    ids = [entry.recipient_id for entry in entries]
    domains, tried = _domains(session, ids), _last_attempts(session, ids)
    by_domain: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.recipient_id in domains:
            by_domain[domains[entry.recipient_id]].append(entry)
    found = [_destination(domain, own, tried) for domain, own in by_domain.items()]
    return sorted(found, key=lambda one: (-one.messages, one.domain))


def _next_tried(account_id: int | None, moment: datetime) -> Select[int, datetime]:
    entry = QueueEntry
    columns = entry.recipient_id, entry.due_time
    if account_id is None:
        later = select(*columns).where(IS_READY, entry.ready_time > moment, entry.due_time > moment)
        return later.order_by(entry.ready_time).limit(LOOKED_AT)
    # By the index in which the entries of an account are in order, of each priority by itself.
    of_account = select(*columns).where(entry.state == QUEUED, entry.account_id == account_id, entry.due_time > moment)
    each = [
        select(
            of_account.where(entry.priority == priority)
            .order_by(entry.due_time, entry.recipient_id)
            .limit(LOOKED_AT)
            .subquery()
        )
        for priority in PRIORITIES.values()
    ]
    both = union_all(*each).subquery()
    return select(both.c.recipient_id, both.c.due_time).order_by(both.c.due_time).limit(LOOKED_AT)


def _domains(session: Session, ids: Sequence[int]) -> Mapping[int, str]:
    """Id of a recipient -> where its message goes; an address that the send left out is that of its contact."""
    columns = Recipient.id, Recipient.type, Recipient.email, Contact.email.label("of_contact")
    with_contacts = select(*columns).outerjoin(Contact, Contact.id == Recipient.contact_id)
    rows = session.execute(with_contacts.where(in_json(Recipient.id, ids), between_ids(Recipient.id, ids)))
    return {row.id: _domain(row) for row in rows}


def _domain(row: Address) -> str:
    if row.type == "sms":
        return TEXT_MESSAGES
    address = row.email or row.of_contact
    return domain_of(address) if address else NO_ADDRESS


def _last_attempts(session: Session, ids: Sequence[int]) -> Mapping[int, Attempt]:
    """Id of a recipient -> the step of its last attempt."""
    step = RecipientStep
    columns = step.id, step.recipient_id, step.detail, step.note
    of_attempts = in_json(step.recipient_id, ids), between_ids(step.recipient_id, ids)
    rows = select(*columns).where(*of_attempts, step.step == TimelineStep.DEFERRED).order_by(step.id)
    return {row.recipient_id: row for row in session.execute(rows)}


def _destination(domain: str, entries: Sequence[Entry], tried: Mapping[int, Attempt]) -> Destination:
    steps = [tried[one.recipient_id] for one in entries if one.recipient_id in tried]
    last = max(steps, key=lambda one: one.id, default=None)
    times = [one.due_time for one in entries]
    reason = None if last is None else last.detail
    note = reason if last is None else last.note or reason
    return Destination(domain, len(entries), min(times), max(times), reason, note)


def backoffs(session: Session, account_id: int | None, moment: datetime) -> Sequence[Row[str, str, str, int, datetime]]:
    """The back-offs of the account, or of all for None, those that end first: account, sender's domain, domain, number
    of deferrals and end. One statement."""
    one = DomainBackoff
    columns = Account.name, one.sender_domain, one.domain, one.failures, one.until_time
    rows = select(*columns).join(Account, Account.id == one.account_id).where(one.until_time > moment)
    if account_id is not None:
        rows = rows.where(one.account_id == account_id)
    return session.execute(rows.order_by(one.until_time).limit(MOST_BACKOFFS)).all()
