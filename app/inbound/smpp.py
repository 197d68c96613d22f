"""What an SMPP gateway delivers over the connection that sends: receipts, which name the gateway's ids, and replies.

A long reply that comes in parts is recorded once, when it is complete (docs/sms.md#replies). The parts of one text
arrive in any order, some of them twice, and over the connections of several processes; so they wait for each other in
the database. If a part does not come, the others wait for ten minutes and are then recorded without it. Recorded parts
stay for another ten minutes, in which a duplicate of a part changes nothing.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, select, update
from sqlalchemy.exc import DataError, SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.contacts.subscriptions import lock_subscriptions
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import CapturedMessage, QueueEntry, ReplyPart, table_of
from app.db.outage import log_failure
from app.errors import ServiceError
from app.inbound.effect import POLL_INTERVAL, Effect
from app.inbound.receipts import Receipt, recipient_with_gateway_id, take_receipt, texts_in_flight
from app.inbound.replies import account_of, plain_number, record_reply
from app.services import Services
from app.transports.sms import segments
from app.transports.sms.incoming import GatewayMessage, GatewayPart, GatewayReceipt, GatewayReply, IncomingHandler

logger = logging.getLogger(__name__)


REASSEMBLY_TIMEOUT = timedelta(minutes=10)
MISSING_PART_MARK = " … "
"""Stands in a text in place of missing parts."""


@dataclass(frozen=True, slots=True)
class ReassemblyKey:
    """What the parts of one text have in common."""

    account_id: int
    number: str
    mobile: str
    reference: int
    total: int

    def parts(self) -> ColumnElement[bool]:
        """The condition on rows that are parts of it."""
        return and_(
            ReplyPart.account_id == self.account_id,
            ReplyPart.number == self.number,
            ReplyPart.mobile == self.mobile,
            ReplyPart.reference == self.reference,
            ReplyPart.total == self.total,
        )


def record_part(transaction: Transaction, part: GatewayPart) -> None:
    """Stores the part, and records the reply once no part is missing.

    Raises `ServiceError` (`invalid_id`) for a number that no account has.
    """
    number, mobile = plain_number(part.number), plain_number(part.mobile)
    account_id = account_of(transaction, mobile, number)
    key = ReassemblyKey(account_id, number, mobile, part.reference, part.total)
    lock_subscriptions(transaction, account_id)
    rows = _rows(transaction, key)
    if _is_other_text(rows, part):
        _finish_earlier(transaction, key)
        rows = []
    if any(row.position == part.position for row in rows):
        return
    is_late = any(row.recorded for row in rows)
    _store(transaction, key, part, recorded=is_late)
    if is_late:
        record_reply(transaction, mobile, number, segments.decode(part.body, part.coding))
    elif len(rows) + 1 == part.total:
        _record_reply(transaction, key)


def has_overdue_parts(session: Session) -> bool:
    """Whether any part has waited for the others, or been stored after they were recorded, for long enough."""
    return (
        session.scalars(select(ReplyPart.id).where(ReplyPart.time <= now() - REASSEMBLY_TIMEOUT).limit(1)).first()
        is not None
    )


def flush_overdue(services: Services) -> None:
    """Records the replies of which a part has not arrived in time, and deletes parts that were recorded long ago."""
    database = services.database
    flush(database.read, database.write, now() - REASSEMBLY_TIMEOUT)
    with services.database.write() as transaction:
        old = and_(ReplyPart.recorded, ReplyPart.time <= now() - REASSEMBLY_TIMEOUT)
        transaction.execute(delete(ReplyPart).where(old), execution_options={"synchronize_session": False})


def flush(
    read: Callable[[], AbstractContextManager[Session]],
    write: Callable[[], AbstractContextManager[Transaction]],
    until: datetime | None,
) -> None:
    """Records the replies of which a part has waited since that time or for longer, of None all that wait, each in a
    transaction."""
    while key := _first_waiting(read, until):
        try:
            with write() as transaction:
                lock_subscriptions(transaction, key.account_id)
                if any(not row.recorded for row in _rows(transaction, key)):
                    _record_reply(transaction, key)
        except ServiceError as error:
            # The number was removed meanwhile. If it were kept, the reply would fail in every sweep, and delay all
            # others.
            logger.warning("a reply that belongs to no account: %s", error.errors[0].developer_message)
            with write() as transaction:
                _delete(transaction, key)


def _first_waiting(read: Callable[[], AbstractContextManager[Session]], until: datetime | None) -> ReassemblyKey | None:
    columns = (ReplyPart.account_id, ReplyPart.number, ReplyPart.mobile, ReplyPart.reference, ReplyPart.total)
    waiting = select(*columns).where(ReplyPart.recorded.is_(False)).limit(1)
    if until is not None:
        waiting = waiting.where(ReplyPart.time <= until)
    with read() as session:
        row = session.execute(waiting).first()
    return ReassemblyKey(*row) if row else None


def _rows(session: Session, key: ReassemblyKey) -> Sequence[ReplyPart]:
    statement = select(ReplyPart).where(key.parts()).order_by(ReplyPart.position)
    return session.scalars(statement.execution_options(populate_existing=True)).all()


def _is_other_text(rows: Iterable[ReplyPart], part: GatewayPart) -> bool:
    """Whether the rows belong to an earlier text: a phone uses its few references again and again."""
    same = [row for row in rows if row.position == part.position]
    return any(row.body != part.body for row in same) or any(
        row.recorded and row.time <= now() - REASSEMBLY_TIMEOUT for row in rows
    )


def _finish_earlier(transaction: Transaction, key: ReassemblyKey) -> None:
    """Deletes the earlier text, after recording it if necessary."""
    if any(not row.recorded for row in _rows(transaction, key)):
        _record_reply(transaction, key)
    _delete(transaction, key)


def _delete(transaction: Transaction, key: ReassemblyKey) -> None:
    transaction.execute(delete(ReplyPart).where(key.parts()), execution_options={"synchronize_session": False})


def _store(transaction: Transaction, key: ReassemblyKey, part: GatewayPart, *, recorded: bool) -> None:
    row = {
        "account_id": key.account_id,
        "number": key.number,
        "mobile": key.mobile,
        "reference": key.reference,
        "total": key.total,
        "position": part.position,
        "coding": part.coding,
        "body": part.body,
        "time": now(),
        "recorded": recorded,
    }
    insert_rows(transaction, ReplyPart, [row])


def _record_reply(transaction: Transaction, key: ReassemblyKey) -> None:
    """Records the stored parts as one reply. The parts stay, so that a duplicate is recognized."""
    record_reply(transaction, key.mobile, key.number, _text(_rows(transaction, key), key.total))
    transaction.execute(
        update(ReplyPart).where(key.parts()).values(recorded=True, time=now()),
        execution_options={"synchronize_session": False},
    )


def _text(rows: Sequence[ReplyPart], total: int) -> str:
    """The text of a reply from its parts. Neighbouring parts are joined before they are decoded: a character may begin
    in one part and end in the next."""
    by_position = {row.position: row for row in rows}
    pieces: list[str] = []
    for there, run in itertools.groupby(range(1, total + 1), key=by_position.__contains__):
        neighbours = [by_position[position] for position in run] if there else []
        pieces += _decoded(neighbours) if there else [MISSING_PART_MARK]
    return "".join(pieces)


def _decoded(rows: Iterable[ReplyPart]) -> list[str]:
    by_coding = itertools.groupby(rows, key=lambda row: row.coding)
    return [segments.decode(b"".join(row.body for row in run), coding) for coding, run in by_coding]


# What a restored backup would report by itself, without that anybody sends anything: replies of which parts are
# missing, and what was to happen to captured messages (docs/restore.md#what-a-restore-holds).


def record_incomplete_replies(part: Callable[[], AbstractContextManager[Transaction]]) -> None:
    """Records the replies that wait for parts now, each in a part of the transaction that restores them: the other
    parts have arrived since the backup was made, or never will, and later the event would go out unasked."""
    flush(part, part, None)


def drop_simulations(connection: Connection) -> None:
    """Drops what was to happen to captured messages that were sent: it happened seconds after the backup. Held messages
    keep what is to happen to them."""
    captured, entries = table_of(CapturedMessage), table_of(QueueEntry)
    is_unsettled = exists().where(entries.c.recipient_id == captured.c.recipient_id)
    ended = update(captured).where(captured.c.simulate_time.is_not(None), ~is_unsettled)
    connection.execute(ended.values(simulate_time=None))


PATIENCE = 3.0
"""Seconds that a receipt waits for its message to be written as sent; then the gateway keeps it."""


def incoming_handler(services: Services) -> IncomingHandler:
    """Writes each receipt and reply in its own transaction.

    If it cannot be stored now, the gateway keeps it. Raises `DataError` for one that the database can never store.
    """

    def take(incoming: GatewayMessage) -> bool:
        try:
            return _take(services, incoming)
        except DataError:
            raise
        except SQLAlchemyError as error:
            log_failure(logger, "the gateway keeps the receipt or reply", error)
            return False

    return take


def _take(services: Services, incoming: GatewayMessage) -> bool:
    if isinstance(incoming, GatewayReply):
        return _in_transaction(services, lambda transaction: _record(transaction, incoming))
    if isinstance(incoming, GatewayPart):
        return _in_transaction(services, lambda transaction: record_part(transaction, incoming))
    return _take_receipt(services, incoming)


def _take_receipt(services: Services, incoming: GatewayReceipt) -> bool:
    """A receipt of an unknown message belongs to another program, or is too old to matter. One that may be for a text
    whose outcome is not written yet must come again: its sender may be slow, or have died."""
    recipient_id, may_come = _find(services, incoming.gateway_id)
    if recipient_id is None and may_come:
        return False
    if recipient_id is None:
        logger.warning("a receipt for an unknown message", extra={"gateway_id": incoming.gateway_id})
        return True
    receipt = Receipt(recipient_id, incoming.status, incoming.detail)
    return take_receipt(services, receipt, patience=PATIENCE) is not Effect.EARLY


def _find(services: Services, gateway_id: str) -> tuple[int | None, bool]:
    """The recipient, or whether it may still become known: the gateway may be quicker than the sender, which writes
    outcomes together."""
    end, may_come = time.monotonic() + PATIENCE, True
    in_flight: Sequence[int] | None = None
    while True:
        with services.database.read() as session:
            recipient_id = recipient_with_gateway_id(session, gateway_id)
            if recipient_id is not None or not may_come or time.monotonic() > end or services.stopping.is_set():
                return recipient_id, may_come
            # Only texts that were in flight when the receipt arrived can be meant. If none is left, one more lookup
            # follows: the outcome may have been written between this check and the previous lookup.
            in_flight = texts_in_flight(session, in_flight)
            may_come = bool(in_flight)
        if may_come:
            services.stopping.wait(POLL_INTERVAL)


def _record(transaction: Transaction, reply: GatewayReply) -> None:
    record_reply(transaction, reply.mobile, reply.number, reply.text)


def _in_transaction(services: Services, work: Callable[[Transaction], None]) -> bool:
    """Runs the work in a transaction; a reply that belongs to no account is only logged."""
    try:
        services.database.transact(work)
    except ServiceError as error:
        logger.warning("a reply that belongs to no account: %s", error.errors[0].developer_message)
    return True
