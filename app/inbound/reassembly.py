"""Long replies that the gateway hands in part by part: told once, when all parts are there (docs/sms.md).

The parts of one text come in any order, some of them twice, and over the connections of several processes; so they
wait in the database for each other. A part that does not come keeps the others waiting for ten minutes: then what is
there is told. Told parts stay for another ten minutes, in which the same part again changes nothing.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, delete, select, update
from sqlalchemy.orm import Session

from app.clock import now
from app.contacts.subscriptions import lock_subscriptions
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import ReplyPart
from app.errors import ServiceError
from app.inbound.replies import account_of, plain_number, record_reply
from app.services import Services
from app.transports.sms import gsm
from app.transports.sms.incoming import GatewayPart

logger = logging.getLogger(__name__)

PATIENCE = timedelta(minutes=10)
GAP = " … "
"""Stands for parts that did not come."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What the parts of one text have in common."""

    account_id: int
    number: str
    mobile: str
    reference: int
    total: int

    def parts(self) -> ColumnElement[bool]:
        """Names the rows that are parts of it."""
        return and_(
            ReplyPart.account_id == self.account_id,
            ReplyPart.number == self.number,
            ReplyPart.mobile == self.mobile,
            ReplyPart.reference == self.reference,
            ReplyPart.total == self.total,
        )


def record_part(transaction: Transaction, part: GatewayPart) -> None:
    """Keeps the part, and tells the reply when it was the last one that lacked.

    Raises `ServiceError` (`invalid_id`) for a number that no account has.
    """
    number, mobile = plain_number(part.number), plain_number(part.mobile)
    account_id = account_of(transaction, mobile, number)
    whole = Whole(account_id, number, mobile, part.reference, part.total)
    lock_subscriptions(transaction, account_id)
    rows = _rows(transaction, whole)
    if _is_another(rows, part):
        _forget(transaction, whole)
        rows = []
    if any(row.position == part.position for row in rows):
        return
    belated = any(row.told for row in rows)
    _keep(transaction, whole, part, told=belated)
    if belated:
        record_reply(transaction, mobile, number, gsm.decode(part.body, part.coding))
    elif len(rows) + 1 == part.total:
        _tell(transaction, whole)


def has_overdue_parts(session: Session) -> bool:
    """Whether any part has waited for the others, or been remembered, for long enough."""
    return session.scalars(select(ReplyPart.id).where(ReplyPart.time <= now() - PATIENCE).limit(1)).first() is not None


def flush_overdue(services: Services) -> None:
    """Tells the replies of which a part has not come in time, and forgets those that were told long ago."""
    while whole := _first_overdue(services):
        try:
            with services.database.write() as transaction:
                lock_subscriptions(transaction, whole.account_id)
                if any(not row.told for row in _rows(transaction, whole)):
                    _tell(transaction, whole)
        except ServiceError as error:
            # The number was given back meanwhile. Kept, it would fail at every look, and hold up everybody else's.
            logger.warning("a reply that belongs to nobody: %s", error.errors[0].developer_message)
            with services.database.write() as transaction:
                _remove(transaction, whole)
    with services.database.write() as transaction:
        old = and_(ReplyPart.told, ReplyPart.time <= now() - PATIENCE)
        transaction.execute(delete(ReplyPart).where(old), execution_options={"synchronize_session": False})


def _first_overdue(services: Services) -> Whole | None:
    columns = (ReplyPart.account_id, ReplyPart.number, ReplyPart.mobile, ReplyPart.reference, ReplyPart.total)
    overdue = select(*columns).where(ReplyPart.time <= now() - PATIENCE, ReplyPart.told.is_(False)).limit(1)
    with services.database.read() as session:
        row = session.execute(overdue).first()
    return Whole(*row) if row else None


def _rows(session: Session, whole: Whole) -> Sequence[ReplyPart]:
    statement = select(ReplyPart).where(whole.parts()).order_by(ReplyPart.position)
    return session.scalars(statement.execution_options(populate_existing=True)).all()


def _is_another(rows: Iterable[ReplyPart], part: GatewayPart) -> bool:
    """Whether the rows are of an earlier text: a phone uses its few references again and again."""
    same = [row for row in rows if row.position == part.position]
    return any(row.body != part.body for row in same) or any(row.told and row.time <= now() - PATIENCE for row in rows)


def _forget(transaction: Transaction, whole: Whole) -> None:
    """Removes the earlier text; what was not told of it yet is told now."""
    if any(not row.told for row in _rows(transaction, whole)):
        _tell(transaction, whole)
    _remove(transaction, whole)


def _remove(transaction: Transaction, whole: Whole) -> None:
    transaction.execute(delete(ReplyPart).where(whole.parts()), execution_options={"synchronize_session": False})


def _keep(transaction: Transaction, whole: Whole, part: GatewayPart, *, told: bool) -> None:
    row = {
        "account_id": whole.account_id,
        "number": whole.number,
        "mobile": whole.mobile,
        "reference": whole.reference,
        "total": whole.total,
        "position": part.position,
        "coding": part.coding,
        "body": part.body,
        "time": now(),
        "told": told,
    }
    insert_rows(transaction, ReplyPart, [row])


def _tell(transaction: Transaction, whole: Whole) -> None:
    """Tells what is there as one reply. The parts stay, so that one that comes again is known."""
    record_reply(transaction, whole.mobile, whole.number, _text(_rows(transaction, whole), whole.total))
    transaction.execute(
        update(ReplyPart).where(whole.parts()).values(told=True, time=now()),
        execution_options={"synchronize_session": False},
    )


def _text(rows: Sequence[ReplyPart], total: int) -> str:
    """Neighbours are joined before they are decoded: a character may begin in one part and end in the next."""
    by_position = {row.position: row for row in rows}
    pieces: list[str] = []
    for there, run in itertools.groupby(range(1, total + 1), key=by_position.__contains__):
        found = [by_position[position] for position in run] if there else []
        pieces += _decoded(found) if there else [GAP]
    return "".join(pieces)


def _decoded(rows: Iterable[ReplyPart]) -> list[str]:
    by_coding = itertools.groupby(rows, key=lambda row: row.coding)
    return [gsm.decode(b"".join(row.body for row in run), coding) for coding, run in by_coding]
