"""Approved senders of text messages (docs/sending.md#senders)."""

from __future__ import annotations

import re

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import this_second
from app.db.locks import advisory_lock
from app.db.models import Account, SmsSender
from app.db.models.base import apply_changes
from app.errors import ServiceError

ALPHANUMERIC_KIND = "alphanumeric"
KINDS = ("virtual_number", "number", ALPHANUMERIC_KIND)
"""A virtual number receives replies, other numbers only send, and nobody can reply to a name."""

NUMBER = re.compile(r"[1-9][0-9]{2,14}")
SLOWEST, FASTEST = 0.01, 10_000
"""Messages per second of one sender."""
ALPHANUMERIC = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9 &_.+-]{1,11}")
"""Networks accept sender names of up to 11 characters, at least one of them a letter."""


def list_senders(session: Session, account_id: int) -> list[SmsSender]:
    """The senders of the account, by address."""
    return list(
        session.scalars(select(SmsSender).where(SmsSender.account_id == account_id).order_by(SmsSender.address))
    )


def sender_at(session: Session, account_id: int, address: str) -> SmsSender | None:
    """The account's sender with that address."""
    statement = select(SmsSender).where(SmsSender.account_id == account_id, SmsSender.address == address)
    return session.scalars(statement).first()


def find_sender(session: Session, account_id: int, address: str) -> SmsSender:
    """The account's sender with that address. Raises `ServiceError` (`invalid_id`)."""
    found = sender_at(session, account_id, address)
    if found is None:
        raise ServiceError("invalid_id", field="address", detail=f"the account has no sender {address!r}")
    return found


def create_sender(
    session: Session,
    account_id: int,
    address: str,
    kind: str,
    list_id: int | None,
    *,
    rate: float | None = None,
    shared: bool = False,
) -> SmsSender:
    """Approves a sender, restricted to one list if one is given; `rate` is in messages per second. Only the operator
    does so, because nothing proves whose a number or a name is; and only if it is `shared` does an account get a number
    that another one has.

    Raises `ServiceError`: `conflict` for one that exists, or is another account's, and what `check_sender` raises.
    """
    check_sender(address, kind)
    check_rate(rate)
    if sender_at(session, account_id, address) is not None:
        raise ServiceError("conflict", field="address", detail=f"the account has a sender {address!r} already")
    if kind != ALPHANUMERIC_KIND and not shared:
        _check_free(session, account_id, address)
    sender = SmsSender(
        account_id=account_id,
        address=address,
        kind=kind,
        list_id=list_id,
        messages_per_second=rate,
        creation_time=this_second(),
    )
    session.add(sender)
    session.flush()
    return sender


def _check_free(session: Session, account_id: int, number: str) -> None:
    """Raises `conflict` if another account has the number: replies to it are read by the account that has it. What a
    test account has is a copy, and nobody gets its messages."""
    if session.get_one(Account, account_id).test_of is not None:
        return
    advisory_lock(session, f"number {number}", 0)
    statement = (
        select(Account.name)
        .join(SmsSender, SmsSender.account_id == Account.id)
        .where(SmsSender.address == number, Account.id != account_id, Account.test_of.is_(None))
    )
    holder = session.scalars(statement.order_by(SmsSender.id)).first()
    if holder is not None:
        detail = f"the number {number} is that of the account {holder!r}; both have it only if it is approved as shared"
        raise ServiceError("conflict", field="address", detail=detail)


def update_sender(sender: SmsSender, *, kind: str, list_id: int | None, rate: float | None) -> bool:
    """Changes kind, list and rate; returns whether any differed. Raises `ServiceError` like `create_sender`."""
    check_sender(sender.address, kind)
    check_rate(rate)
    return apply_changes(sender, {"kind": kind, "list_id": list_id, "messages_per_second": rate})


def check_sender(address: str, kind: str) -> None:
    """Raises `invalid_string` or `invalid_mobile_address` unless the kind exists and the address fits it."""
    if kind not in KINDS:
        raise ServiceError("invalid_string", field="kind", detail=f"{kind!r} is none of {', '.join(KINDS)}")
    if kind == ALPHANUMERIC_KIND and not ALPHANUMERIC.fullmatch(address):
        wanted = "1 to 11 letters, digits, spaces or & _ . + -, one of them a letter"
        raise ServiceError("invalid_string", field="address", detail=f"{address!r} is not {wanted}")
    if kind != ALPHANUMERIC_KIND and not NUMBER.fullmatch(address):
        wanted = "3 to 15 digits in international format, without a plus or zero at the start"
        raise ServiceError("invalid_mobile_address", field="address", detail=f"{address!r} is not {wanted}")


def check_rate(rate: float | None) -> None:
    """Raises `invalid_range` for a rate out of the accepted range; None means no limit."""
    if rate is not None and not SLOWEST <= rate <= FASTEST:
        raise ServiceError("invalid_range", field="messages_per_second", detail=f"must be {SLOWEST} to {FASTEST}")
