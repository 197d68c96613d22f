"""Approved senders of text messages (docs/sending.md#senders)."""

from __future__ import annotations

import re

from sqlalchemy import select

from app.clock import this_second
from app.db.database import Transaction
from app.db.locks import advisory_lock
from app.db.models import Account, SmsSender
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.names import check_line
from app.resources.definition import Values

ALPHANUMERIC_KIND = "alphanumeric"
KINDS = {
    "virtual_number": "virtual number (people can reply)",
    "number": "number (nobody can reply)",
    ALPHANUMERIC_KIND: "name (nobody can reply)",
}
"""Kind of a sender -> in words."""

NUMBER = re.compile(r"[1-9][0-9]{2,14}")
SLOWEST, FASTEST = 0.01, 10_000
"""Messages per second of one sender."""
LONGEST_NOTE = 500
ALPHANUMERIC = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9 &_.+-]{1,11}")
"""Networks accept sender names of up to 11 characters, at least one of them a letter."""


def create_sender(transaction: Transaction, account_id: int, values: Values) -> SmsSender:
    """Approves a sender by its `address` and `kind`, with `list_id` for one list alone, at the rate
    `messages_per_second`, with a `note`. Only the operator does so, because nothing proves whose a number or a name is;
    and only as `shared` does an account get a number that another one has.

    Raises `ServiceError`: `conflict` for one that exists, or is another account's, and what `_check` raises.
    """
    stored = {"list_id": None, "messages_per_second": None, "note": None, **values}
    is_shared = stored.pop("shared", False)
    sender = SmsSender(account_id=account_id, creation_time=this_second(), **stored)
    _check(sender.address, stored)
    senders_of_address = select(SmsSender.id).where(
        SmsSender.account_id == account_id, SmsSender.address == sender.address
    )
    if transaction.scalar(senders_of_address) is not None:
        raise ServiceError("conflict", field="address", detail=f"the account already has a sender {sender.address!r}")
    if sender.kind != ALPHANUMERIC_KIND and not is_shared:
        _check_free(transaction, account_id, sender.address)
    transaction.add(sender)
    transaction.flush()
    return sender


def _check_free(transaction: Transaction, account_id: int, number: str) -> None:
    """Raises `conflict` if another account has the number: replies to it are read by the account that has it. What a
    test account has is a copy, and nobody gets its messages."""
    if transaction.get_one(Account, account_id).test_of is not None:
        return
    advisory_lock(transaction, f"number {number}", 0)
    statement = (
        select(Account.name)
        .join(SmsSender, SmsSender.account_id == Account.id)
        .where(SmsSender.address == number, Account.id != account_id, Account.test_of.is_(None))
    )
    holder = transaction.scalars(statement.order_by(SmsSender.id)).first()
    if holder is not None:
        detail = (
            f"the number {number} belongs to the account {holder!r}; to use it in both accounts, approve it as shared"
        )
        raise ServiceError("conflict", field="address", detail=detail)


def update_sender(sender: SmsSender, values: Values) -> bool:
    """Changes kind, list, rate or note; returns whether any differed. Raises what `_check` raises."""
    _check(sender.address, {"kind": sender.kind, **values})
    return apply_changes(sender, values)


def _check(address: str, values: Values) -> None:
    """Raises `invalid_string`, `invalid_mobile_address`, `invalid_range` or `too_long` unless the kind exists, the
    address fits it, the rate, if there is one, can be kept, and the note is a line of text."""
    kind, rate, note = values["kind"], values.get("messages_per_second"), values.get("note")
    if kind not in KINDS:
        raise ServiceError("invalid_string", field="kind", detail=f"{kind!r} is not one of {', '.join(KINDS)}")
    if kind == ALPHANUMERIC_KIND and not ALPHANUMERIC.fullmatch(address):
        allowed = "1 to 11 letters, digits, spaces or & _ . + -, one of them a letter"
        raise ServiceError("invalid_string", field="address", detail=f"{address!r} is not {allowed}")
    if kind != ALPHANUMERIC_KIND and not NUMBER.fullmatch(address):
        allowed = "3 to 15 digits in international format, without a plus or zero at the start"
        raise ServiceError("invalid_mobile_address", field="address", detail=f"{address!r} is not {allowed}")
    if rate is not None and not SLOWEST <= rate <= FASTEST:
        raise ServiceError("invalid_range", field="messages_per_second", detail=f"must be {SLOWEST} to {FASTEST}")
    if note is not None:
        check_line(note, "note", LONGEST_NOTE)
