"""Receipts and replies that an SMPP gateway delivers over the connection that sends; receipts name the gateway's
ids."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from sqlalchemy.exc import DataError, SQLAlchemyError

from app.db.database import Transaction
from app.db.outage import log_failure
from app.errors import ServiceError
from app.inbound.effect import POLL_INTERVAL, Effect
from app.inbound.reassembly import record_part
from app.inbound.receipts import Receipt, recipient_with_gateway_id, take_receipt, texts_in_flight
from app.inbound.replies import record_reply
from app.services import Services
from app.transports.sms.incoming import GatewayPart, GatewayReceipt, GatewayReply, Incoming, IncomingHandler

logger = logging.getLogger(__name__)

PATIENCE = 3.0
"""Seconds that a receipt waits for its message to be written as sent; then the gateway keeps it."""


def incoming_handler(services: Services) -> IncomingHandler:
    """Writes each receipt and reply in its own transaction.

    If it cannot be stored now, the gateway keeps it. Raises `DataError` for one that the database can never store.
    """

    def take(incoming: Incoming) -> bool:
        try:
            return _take(services, incoming)
        except DataError:
            raise
        except SQLAlchemyError as error:
            log_failure(logger, "the gateway keeps the receipt or reply", error)
            return False

    return take


def _take(services: Services, incoming: Incoming) -> bool:
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
            found = recipient_with_gateway_id(session, gateway_id)
            if found is not None or not may_come or time.monotonic() > end or services.stopping.is_set():
                return found, may_come
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
