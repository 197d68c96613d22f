"""Carrying out the checks that are asked for: one at a time of an account, each within a deadline.

A check changes nothing but the result that it stores, so it may run twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, aliased

from app.audit.actor import acting, service_actor
from app.clock import now, seconds_from_now
from app.db.database import Transaction
from app.db.models import Account, Domain, NetworkCheck
from app.errors import ServiceError
from app.events.registration import check_webhook, give_up_webhook
from app.infrastructure.leased_work import LEASE_SECONDS, LeasedWork
from app.maintenance.domain_check import verify_domain
from app.services import Services

MAX_ACCOUNTS_TRIED = 20
"""Accounts that are tried when a check is claimed: others may hold those before."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ClaimedCheck:
    id: int
    account_id: int
    kind: str
    object_id: int
    asked_by: str
    lease_time: datetime


def has_due(session: Session) -> bool:
    """Whether any check may begin now."""
    return bool(session.scalar(select(exists().where(_may_begin()))))


class NetworkChecker(LeasedWork[_ClaimedCheck]):
    """The checks of one process, of different accounts at the same time."""

    def __init__(self, services: Services) -> None:
        super().__init__("network check", services.stopping, partial(_next, services), partial(_carry_out, services))


def _carry_out(services: Services, check: _ClaimedCheck) -> None:
    actor = replace(service_actor(), via=f"asked for by {check.asked_by}")
    with acting(actor):
        try:
            CHECKS[check.kind](services, check)
        except SQLAlchemyError:
            raise
        except Exception:
            logger.exception("a check has failed", extra={"kind": check.kind, "object": check.object_id})
            if check.kind == "webhook":
                give_up_webhook(services, check.account_id, check.object_id)
    with services.database.write() as transaction:
        is_claimed = NetworkCheck.id == check.id, NetworkCheck.lease_time == check.lease_time
        transaction.execute(delete(NetworkCheck).where(*is_claimed))


def _check_domain(services: Services, check: _ClaimedCheck) -> None:
    with services.database.read() as session:
        statement = select(Domain.name).where(Domain.account_id == check.account_id, Domain.id == check.object_id)
        name = session.scalars(statement).first()
    if name is not None:
        try:
            verify_domain(services, check.account_id, name)
        except ServiceError:
            logger.info("a domain was deleted while it was checked", extra={"account_id": check.account_id})


def _check_webhook(services: Services, check: _ClaimedCheck) -> None:
    check_webhook(services, check.account_id, check.object_id)


CHECKS: Mapping[str, Callable[[Services, _ClaimedCheck], None]] = {"domain": _check_domain, "webhook": _check_webhook}


def _next(services: Services) -> _ClaimedCheck | None:
    """The next check, under a lease. The query takes no write lock; most of the time there is nothing to claim."""
    with services.database.read() as session:
        if not has_due(session):
            return None
    return services.database.transact(_claim)


def _may_begin() -> ColumnElement[bool]:
    """Checks of a kind that this process knows which are not leased, and of whose account no check is leased."""
    other, moment = aliased(NetworkCheck), now()
    runs = exists().where(other.account_id == NetworkCheck.account_id, other.lease_time > moment)
    unleased = or_(NetworkCheck.lease_time.is_(None), NetworkCheck.lease_time <= moment)
    return and_(NetworkCheck.kind.in_(CHECKS), unleased, ~runs)


def _claim(transaction: Transaction) -> _ClaimedCheck | None:
    """Claims a check. An account's checks that were never begun come first, so that one which ends its process keeps
    no other waiting. The lock of the account keeps two processes from claiming two checks of it."""
    waiting = select(NetworkCheck.account_id).where(_may_begin()).group_by(NetworkCheck.account_id)
    for account_id in transaction.scalars(waiting.order_by(func.min(NetworkCheck.id)).limit(MAX_ACCOUNTS_TRIED)).all():
        account_row = select(Account.id).where(Account.id == account_id)
        if transaction.scalars(account_row.with_for_update(key_share=True, skip_locked=True)).first() is None:
            continue
        checks = select(NetworkCheck).where(NetworkCheck.account_id == account_id, _may_begin())
        order = NetworkCheck.lease_time.is_not(None), NetworkCheck.id
        check = transaction.scalars(checks.order_by(*order).limit(1)).first()
        if check is not None:
            check.lease_time = seconds_from_now(LEASE_SECONDS)
            transaction.flush()
            columns = (check.id, check.account_id, check.kind, check.object_id, check.asked_by, check.lease_time)
            return _ClaimedCheck(*columns)
    return None
