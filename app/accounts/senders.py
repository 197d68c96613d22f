"""Approved senders of text messages (docs/sending.md#senders)."""

from __future__ import annotations

import re

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import this_second
from app.db.changes import apply_changes
from app.db.models import SmsSender
from app.errors import ServiceError

KINDS = ("virtual_number", "number", "alphanumeric")
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
    session: Session, account_id: int, address: str, kind: str, list_id: int | None, *, rate: float | None = None
) -> SmsSender:
    """Approves a sender, restricted to one list if one is given; `rate` is in messages per second.

    Raises `ServiceError`: `conflict` for one that exists, and what `check_sender` raises.
    """
    check_sender(address, kind)
    check_rate(rate)
    if sender_at(session, account_id, address) is not None:
        raise ServiceError("conflict", field="address", detail=f"the account has a sender {address!r} already")
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


def update_sender(sender: SmsSender, *, kind: str, list_id: int | None, rate: float | None) -> bool:
    """Changes kind, list and rate; returns whether any differed. Raises `ServiceError` like `create_sender`."""
    check_sender(sender.address, kind)
    check_rate(rate)
    return apply_changes(sender, {"kind": kind, "list_id": list_id, "messages_per_second": rate})


def check_sender(address: str, kind: str) -> None:
    """Raises `invalid_string` or `invalid_mobile_address` unless the kind exists and the address fits it."""
    if kind not in KINDS:
        raise ServiceError("invalid_string", field="kind", detail=f"{kind!r} is none of {', '.join(KINDS)}")
    if kind == "alphanumeric" and not ALPHANUMERIC.fullmatch(address):
        wanted = "1 to 11 letters, digits, spaces or & _ . + -, one of them a letter"
        raise ServiceError("invalid_string", field="address", detail=f"{address!r} is not {wanted}")
    if kind != "alphanumeric" and not NUMBER.fullmatch(address):
        wanted = "3 to 15 digits in international format, without a plus or zero at the start"
        raise ServiceError("invalid_mobile_address", field="address", detail=f"{address!r} is not {wanted}")


def check_rate(rate: float | None) -> None:
    """Raises `invalid_range` for a rate out of the accepted range; None means no limit."""
    if rate is not None and not SLOWEST <= rate <= FASTEST:
        raise ServiceError("invalid_range", field="messages_per_second", detail=f"must be {SLOWEST} to {FASTEST}")
