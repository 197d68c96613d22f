"""What outcomes do to addresses: permanent bounces block them, and so do five temporary ones in a row (decisions: 5).

All addresses of many outcomes at once, in a fixed number of statements, always in the same order, so that two workers
cannot wait for each other. The contacts that hold a blocked address change by it, and the caller records their events
with its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import bindparam, case, delete, or_, select, update

from app.addresses import AddressKind, email_key
from app.contacts.blocked import AccountAddress, ChangedContacts, block_addresses
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import AddressTrouble, table_of
from app.db.upsert import upsert
from app.sends.outcomes.transitions import Transition

TOLERATED = 5
"""Temporary bounces, without a delivery in between, that block an address."""
PERMANENT = "permanent bounce"
TEMPORARY = "repeated temporary bounces"


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """An email address or mobile of an account, in the form in which addresses are compared."""

    account_id: int
    address: str
    kind: AddressKind = "email"

    def columns(self) -> dict[str, Any]:
        """As it stands in the tables."""
        return {"account_id": self.account_id, "kind": self.kind, "address": self.address}


def apply_to_addresses(transaction: Transaction, made: Sequence[Transition]) -> ChangedContacts:
    """Blocks and counts as the outcomes say; a delivery makes earlier troubles forgotten."""
    _set_aside(transaction, {_address(one): one.held.id for one in made if one.troubles == "forget"})
    worn_out = _count(transaction, Counter(_address(one) for one in made if one.troubles == "add"))
    reasons = dict.fromkeys(worn_out, TEMPORARY) | {_address(one): PERMANENT for one in made if one.blocks}
    return _block(transaction, reasons)


def note_bounce(transaction: Transaction, address: Address, recipient_id: int, *, temporary: bool) -> ChangedContacts:
    """What a report that came in later does to one address: the same as the verdict would have done. The recipient had
    counted as a delivery until now, so what was forgotten by it counts again."""
    worn_out = _count(transaction, Counter([address] if temporary else []), recipient_id)
    return _block(transaction, dict.fromkeys(worn_out, TEMPORARY) if temporary else {address: PERMANENT})


def note_delivery(transaction: Transaction, address: Address) -> None:
    """Something arrived there: its temporary bounces are forgotten."""
    _forget(transaction, {address})


def _address(one: Transition) -> Address:
    return Address(one.held.account_id, email_key(one.verdict.address or ""))


def _named(account_id: int, address: str, kind: str) -> Address:
    """The address of a row."""
    return Address(account_id, address, cast(AddressKind, kind))


def _forget(transaction: Transaction, delivered: Collection[Address]) -> None:
    _delete(transaction, list(_troubles_of(transaction, delivered)))


def _set_aside(transaction: Transaction, delivered: Mapping[Address, int]) -> None:
    """Forgets for as long as the recipient that each address got a message by has not bounced after all."""
    rows = [{"row": row, "recipient": delivered[one]} for row, one in _troubles_of(transaction, delivered).items()]
    if rows:
        columns = table_of(AddressTrouble).c
        statement = update(table_of(AddressTrouble)).where(
            columns.id == bindparam("row"), columns.forgotten_by.is_(None)
        )
        transaction.connection().execute(statement.values(forgotten_by=bindparam("recipient")), rows)


def _troubles_of(transaction: Transaction, delivered: Collection[Address]) -> dict[int, Address]:
    """Nearly always there is nothing to forget, so this looks first: a look takes no lock."""
    if not delivered:
        return {}
    columns = select(AddressTrouble.id, AddressTrouble.account_id, AddressTrouble.address, AddressTrouble.kind)
    chosen = columns.where(
        AddressTrouble.account_id.in_({one.account_id for one in delivered}),
        AddressTrouble.kind.in_({one.kind for one in delivered}),
        in_json(AddressTrouble.address, {one.address for one in delivered}),
    )
    found = {row.id: _named(*row[1:]) for row in transaction.execute(chosen.order_by(AddressTrouble.id))}
    return {row: one for row, one in found.items() if one in delivered}


def _count(transaction: Transaction, bounces: Counter[Address], recipient_id: int | None = None) -> list[Address]:
    """Adds up temporary bounces; gives the addresses that have had enough, whose count starts anew."""
    if not bounces:
        return []
    rows = [{**one.columns(), "temporary_bounces": bounces[one]} for one in sorted(bounces)]
    counts_still = or_(AddressTrouble.forgotten_by.is_(None), AddressTrouble.forgotten_by == (recipient_id or 0))
    earlier = case((counts_still, AddressTrouble.temporary_bounces), else_=0)
    counted = upsert(
        transaction,
        AddressTrouble,
        rows,
        index=["account_id", "kind", "address"],
        update=lambda refused: {"temporary_bounces": earlier + refused.temporary_bounces, "forgotten_by": None},
    ).returning(
        AddressTrouble.id,
        AddressTrouble.account_id,
        AddressTrouble.address,
        AddressTrouble.kind,
        AddressTrouble.temporary_bounces,
    )
    worn_out = [row for row in transaction.execute(counted).all() if row.temporary_bounces >= TOLERATED]
    _delete(transaction, [row.id for row in worn_out])
    return [_named(*row[1:4]) for row in worn_out]


def _delete(transaction: Transaction, ids: list[int]) -> None:
    if ids:
        statement = delete(AddressTrouble).where(AddressTrouble.id.in_(ids))
        transaction.execute(statement, execution_options={"synchronize_session": False})


def _block(transaction: Transaction, reasons: dict[Address, str]) -> ChangedContacts:
    return block_addresses(
        transaction, {AccountAddress(one.account_id, one.kind, one.address): reason for one, reason in reasons.items()}
    )
