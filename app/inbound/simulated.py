"""What has still to happen to captured messages to magic addresses (docs/testing.md#magic-addresses).

Each has in its row what is to happen, and when; a partial index finds what is due. It happens in one transaction with
the mark that it has happened, so that a crash neither loses nor repeats it. It waits for the outcome of the message.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import CapturedMessage, Recipient
from app.db.outage import is_unavailable
from app.inbound.captured_mail import CapturedLinks
from app.inbound.simulated_outcomes import VISITS, Simulation, read_links, simulate
from app.inbox.magic import SECONDS
from app.infrastructure import signs_of_life
from app.recipients.conditions import CURRENT_STATE
from app.recipients.states import UNSETTLED
from app.services import Services

logger = logging.getLogger(__name__)

BATCH = 100
"""Messages that are looked at together."""
TIME_SLICE = 10.0
"""Seconds after which the worker turns to its other work."""
LOOK_AGAIN = timedelta(seconds=1)
"""Between two looks for an outcome that is not written yet."""

Later = Mapping[datetime | None, Collection[int]]
"""The time of the next look -> ids of messages; None if nothing ever happens to them."""


def has_due(session: Session) -> bool:
    """Whether anything is to happen now."""
    statement = select(CapturedMessage.id).where(CapturedMessage.simulate_time <= now()).limit(1)
    return session.scalars(statement).first() is not None


def simulate_due(services: Services) -> int:
    """Carries out what is due, until nothing is, the time slice ends, or the process is asked to stop. Returns to how
    many messages something has happened."""
    end, total = time.monotonic() + TIME_SLICE, 0
    while not services.stopping.is_set() and time.monotonic() < end:
        with services.database.read() as session:
            ready, later = _read_due(session)
        if not ready and not later:
            break
        for moment, ids in later.items():
            _put_off(services, ids, moment)
        for group in _groups(ready):
            signs_of_life.report()
            _carry_out(services, group)
        total += len(ready)
    return total


def _read_due(session: Session) -> tuple[list[Simulation], Later]:
    """What happens now, and what is put off."""
    moment = now()
    columns = [getattr(CapturedMessage, "simulates" if name == "magic" else name) for name in Simulation._fields]
    statement = (
        select(*columns, Recipient.sent_time, CURRENT_STATE)
        .outerjoin(Recipient, Recipient.id == CapturedMessage.recipient_id)
        .where(CapturedMessage.simulate_time <= moment)
        .order_by(CapturedMessage.simulate_time)
        .limit(BATCH)
    )
    ready, later = list[Simulation](), defaultdict[datetime | None, list[int]](list)
    for *values, sent_time, state in session.execute(statement):
        one, ready_time = Simulation(*values), _ready_time(moment, sent_time, state)
        if ready_time is not None and ready_time <= moment:
            ready.append(one)
        else:
            later[ready_time].append(one.id)
    return ready, later


def _ready_time(moment: datetime, sent_time: datetime | None, state: str | None) -> datetime | None:
    """When it happens, or when to look again; None if the message was not sent after all, or its recipient is gone."""
    if sent_time is not None:
        return sent_time + timedelta(seconds=SECONDS)
    return moment + LOOK_AGAIN if state in UNSETTLED else None


def _groups(ready: Sequence[Simulation]) -> list[list[Simulation]]:
    """What happens in one transaction: all visits together, anything else alone."""
    visits = [one for one in ready if one.magic in VISITS]
    return [*([visits] if visits else []), *([one] for one in ready if one.magic not in VISITS)]


def _carry_out(services: Services, group: Sequence[Simulation]) -> None:
    """Carries out a group in one transaction; where that fails, one by one. What fails alone is given up."""
    try:
        with services.database.read() as session:
            links = read_links(session, group)
        services.database.transact(lambda transaction: _once(services, transaction, group, links))
    except Exception as error:
        if isinstance(error, SQLAlchemyError) and is_unavailable(error):
            raise
        if len(group) > 1:
            for one in group:
                _carry_out(services, [one])
            return
        logger.error("cannot simulate what happens to a message", exc_info=error, extra={"captured": group[0].id})
        _put_off(services, [group[0].id], None)


def _once(
    services: Services, transaction: Transaction, group: Sequence[Simulation], links: Mapping[int, CapturedLinks]
) -> None:
    """Leaves out what another worker has carried out meanwhile."""
    taken = _set_time(transaction, [one.id for one in group], None)
    simulate(services.settings, transaction, [one for one in group if one.id in taken], links)


def _put_off(services: Services, ids: Collection[int], moment: datetime | None) -> None:
    with services.database.write() as transaction:
        _set_time(transaction, ids, moment)


def _set_time(transaction: Transaction, ids: Collection[int], moment: datetime | None) -> set[int]:
    """Sets the time of those to which nothing has happened yet, and returns their ids."""
    statement = (
        update(CapturedMessage)
        .where(in_json(CapturedMessage.id, ids), CapturedMessage.simulate_time.is_not(None))
        .values(simulate_time=moment)
        .returning(CapturedMessage.id)
    )
    return set(transaction.scalars(statement, execution_options={"synchronize_session": False}))
