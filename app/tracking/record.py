"""Keeping what a recipient did: opens and clicks, with what follows from them.

    first open             open_type, first_open_time     event opened     group opened + 1
    first click            first_click_time               event clicked    group clicked + 1
    each further one       last_open_time                 event
    the same within ten seconds    last_open_time         nothing else
    a machine's            a step                         nothing else

A click counts as an open, and the first one is told as both (decisions: 11, Outcomes). Each is a step of the timeline.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import Contact, Recipient, RecipientStep, Send
from app.events.outbox import record
from app.events.payloads import Payload, recipient_event
from app.services import Services
from app.tracking.countries import Address, country_of
from app.tracking.devices import Client
from app.tracking.targets import Target

logger = logging.getLogger(__name__)

REPEATED_WITHIN = timedelta(seconds=10)
"""A double click, a reload, a mail program that shows a message twice: the same deed, told once."""

OPENED, CLICKED = "opened", "clicked"
OPENED_BY_MACHINE, CLICKED_BY_MACHINE = "opened by machine", "clicked by machine"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a pixel, or for a link where there is a `target`."""

    recipient_id: int
    moment: datetime
    client: Client
    country: str | None
    target: Target | None = None

    @property
    def step(self) -> str:
        """Its name in the timeline."""
        if self.client.machine:
            return CLICKED_BY_MACHINE if self.target else OPENED_BY_MACHINE
        return CLICKED if self.target else OPENED

    @property
    def detail(self) -> str:
        """The link, and the client's own words."""
        return " · ".join(part for part in (self.target.url if self.target else "", self.client.agent) if part)

    @property
    def open_type(self) -> str:
        """What was read."""
        return "text" if self.target and self.target.link_type == "text_email" else "html"


def visit_of(
    services: Services, recipient_id: int, client: Client, address: Address | None, target: Target | None
) -> Visit:
    """A visit that happens now. A mail provider that asks in the person's place tells where it is itself."""
    nowhere = client.machine or client.proxied
    country = None if nowhere else country_of(services.settings.geoip_database, address)
    return Visit(recipient_id, now(), client, country, target)


def note(services: Services, visit: Visit) -> None:
    """Records the visit in one transaction. A database that fails is logged: the person gets their page anyway."""
    try:
        services.database.transact(lambda transaction: keep(transaction, visit))
    except SQLAlchemyError:
        logger.exception("cannot record that a recipient %s", visit.step, extra={"recipient_id": visit.recipient_id})


def keep(transaction: Transaction, visit: Visit) -> None:
    """Writes the visit and what follows from it; nothing for a recipient that is gone."""
    row = _locked(transaction, visit.recipient_id)
    if row is None:
        return
    is_repeated = _is_repeated(transaction, visit)
    if not visit.client.machine:
        _write_times(transaction, row, visit)
        told = [] if is_repeated else [_payload(row, visit, event) for event in _events(row, visit)]
        record(transaction, row.account_id, told)
        _count(transaction, row, visit)
    if not is_repeated:
        transaction.add(_step(row, visit))


def _locked(transaction: Transaction, recipient_id: int) -> Row[*tuple[Any, ...]] | None:
    """The recipient, locked: of two visits at the same moment one is the first. A recipient that was named by its
    contact has no address of its own until it was sent."""
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
            Recipient.first_open_time,
            Recipient.first_click_time,
            Recipient.open_type,
        )
        .join(Send, Send.id == Recipient.send_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(Recipient.id == recipient_id)
        .with_for_update(of=Recipient)
    )
    return transaction.execute(statement).one_or_none()


def _is_repeated(transaction: Transaction, visit: Visit) -> bool:
    """Whether the same client did the same a moment ago."""
    same = select(RecipientStep.id).where(
        RecipientStep.recipient_id == visit.recipient_id,
        RecipientStep.step == visit.step,
        RecipientStep.detail == visit.detail,
        RecipientStep.time > visit.moment - REPEATED_WITHIN,
    )
    return transaction.execute(same.limit(1)).first() is not None


def _write_times(transaction: Transaction, row: Row[*tuple[Any, ...]], visit: Visit) -> None:
    """What was read first stays the type."""
    second = visit.moment.replace(microsecond=0)
    values: dict[str, Any] = {"last_open_time": second}
    if row.first_open_time is None:
        values |= {"first_open_time": second, "open_type": visit.open_type}
    if visit.target and row.first_click_time is None:
        values["first_click_time"] = second
    changed = update(Recipient).where(Recipient.id == row.id).values(values)
    transaction.execute(changed, execution_options={"synchronize_session": False})


def _count(transaction: Transaction, row: Row[*tuple[Any, ...]], visit: Visit) -> None:
    opened, clicked = row.first_open_time is None, bool(visit.target) and row.first_click_time is None
    if opened or clicked:
        count_in_group(transaction, row.group_id, opened=int(opened), clicked=int(clicked))


def _events(row: Row[*tuple[Any, ...]], visit: Visit) -> list[str]:
    if visit.target is None:
        return [OPENED]
    return [OPENED, CLICKED] if row.first_open_time is None else [CLICKED]


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


def _step(row: Row[*tuple[Any, ...]], visit: Visit) -> RecipientStep:
    return RecipientStep(
        account_id=row.account_id, recipient_id=row.id, time=visit.moment, step=visit.step, detail=visit.detail or None
    )
