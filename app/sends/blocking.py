"""What outcomes do to addresses: permanent bounces block them, and so do five temporary ones in a row (decisions: 5).

All addresses of many outcomes at once, in a fixed number of statements, always in the same order, so that two workers
cannot wait for each other. No contact changes: `blocked` of a contact is read from the blocked addresses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from app.addresses import email_key
from app.clock import this_second
from app.db.bulk import insert_new_rows, is_postgresql
from app.db.database import Transaction
from app.db.models import AddressTrouble, BlockedAddress
from app.sends.outcome import Consequence

TOLERATED = 5
"""Temporary bounces, without a delivery in between, that block an address."""
PERMANENT = "permanent bounce"
TEMPORARY = "repeated temporary bounces"


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """An email address or mobile of an account, in the form in which addresses are compared."""

    account_id: int
    address: str
    kind: str = "email"

    def columns(self) -> dict[str, Any]:
        """As it stands in the tables."""
        return {"account_id": self.account_id, "kind": self.kind, "address": self.address}


def apply_to_addresses(transaction: Transaction, made: Sequence[Consequence]) -> None:
    """Blocks and counts as the outcomes say; a delivery makes earlier troubles forgotten."""
    _forget(transaction, {_address(one) for one in made if one.troubles == "forget"})
    worn_out = _count(transaction, Counter(_address(one) for one in made if one.troubles == "add"))
    reasons = dict.fromkeys(worn_out, TEMPORARY) | {_address(one): PERMANENT for one in made if one.blocks}
    _block(transaction, reasons)


def note_bounce(transaction: Transaction, address: Address, *, temporary: bool) -> None:
    """What a report that came in later does to one address: the same as the verdict would have done."""
    worn_out = _count(transaction, Counter([address] if temporary else []))
    _block(transaction, dict.fromkeys(worn_out, TEMPORARY) if temporary else {address: PERMANENT})


def note_delivery(transaction: Transaction, address: Address) -> None:
    """Something arrived there: its temporary bounces are forgotten."""
    _forget(transaction, {address})


def _address(one: Consequence) -> Address:
    return Address(one.held.account_id, email_key(one.verdict.address or ""))


def _forget(transaction: Transaction, delivered: Collection[Address]) -> None:
    """Nearly always there is nothing to forget, so this looks first: a look takes no lock."""
    if not delivered:
        return
    columns = select(AddressTrouble.id, AddressTrouble.account_id, AddressTrouble.address, AddressTrouble.kind)
    among = columns.where(
        AddressTrouble.account_id.in_({one.account_id for one in delivered}),
        AddressTrouble.kind.in_({one.kind for one in delivered}),
        AddressTrouble.address.in_({one.address for one in delivered}),
    )
    found = transaction.execute(among).all()
    _delete(transaction, [row.id for row in found if Address(*row[1:]) in delivered])


def _count(transaction: Transaction, bounces: Counter[Address]) -> list[Address]:
    """Adds up temporary bounces; gives the addresses that have had enough, whose count starts anew."""
    if not bounces:
        return []
    insert = postgresql.insert if is_postgresql(transaction) else sqlite.insert
    statement = insert(AddressTrouble).values(
        [{**one.columns(), "temporary_bounces": bounces[one]} for one in sorted(bounces)]
    )
    added = AddressTrouble.temporary_bounces + statement.excluded.temporary_bounces
    counted = statement.on_conflict_do_update(
        index_elements=["account_id", "kind", "address"], set_={"temporary_bounces": added}
    ).returning(
        AddressTrouble.id,
        AddressTrouble.account_id,
        AddressTrouble.address,
        AddressTrouble.kind,
        AddressTrouble.temporary_bounces,
    )
    worn_out = [row for row in transaction.execute(counted).all() if row.temporary_bounces >= TOLERATED]
    _delete(transaction, [row.id for row in worn_out])
    return [Address(*row[1:4]) for row in worn_out]


def _delete(transaction: Transaction, ids: list[int]) -> None:
    if ids:
        statement = delete(AddressTrouble).where(AddressTrouble.id.in_(ids))
        transaction.execute(statement, execution_options={"synchronize_session": False})


def _block(transaction: Transaction, reasons: dict[Address, str]) -> None:
    """An address that is blocked already keeps its first reason."""
    moment = this_second()
    rows = [{**one.columns(), "reason": reasons[one], "creation_time": moment} for one in sorted(reasons)]
    insert_new_rows(transaction, BlockedAddress, rows)
