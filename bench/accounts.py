"""Many accounts with the same number of due messages each, written straight into the database: each is a copy of one
whose first message the API has accepted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bulk import draw_ids, insert_rows
from app.db.models import Account, Base, Domain, Group, List, QueueEntry, Recipient, Send, table_of
from bench.contacts import Shop
from bench.mail import values
from bench.stack import Stack

ROWS_PER_CHUNK = 10_000
FIRST_NUMBER = 1_000_000
"""The number of the first recipient; no other mail has it."""

Row = dict[str, Any]


def fill_accounts(parts: Stack, shop: Shop, count: int, each: int) -> None:
    """Adds accounts like that of the shop, each with a list, a group and a send to `each` recipients, all due."""
    with parts.services.database.write() as transaction:
        accounts = _copies(transaction, Account, [{"name": f"Account {number}"} for number in range(count)], shop)
        owners = [{"account_id": account} for account in accounts]
        _copies(transaction, Domain, owners, shop)
        lists = _copies(transaction, List, owners, shop)
        groups = _copies(transaction, Group, owners, shop)
        account_rows = [
            {"account_id": account, "list_id": list_id, "group_id": group}
            for account, list_id, group in zip(accounts, lists, groups, strict=True)
        ]
        sends = _copies(transaction, Send, account_rows, shop)
        owned = [{**account_row, "send_id": send} for account_row, send in zip(account_rows, sends, strict=True)]
        numbered = zip(itertools.count(FIRST_NUMBER), (owner for owner in owned for _ in range(each)), strict=False)
        for chunk in _chunks(_recipient(number, owner) for number, owner in numbered):
            _queue(transaction, chunk, _copies(transaction, Recipient, chunk, shop))


def _copies(
    session: Session, model: type[Base], rows_of_accounts: Sequence[Mapping[str, Any]], shop: Shop
) -> list[int]:
    """Adds a copy of the shop's first row for each of `rows_of_accounts`, whose values replace the copied ones; returns
    the ids."""
    table = table_of(model)
    owner = table.c.id if model is Account else table.c.account_id
    template = session.execute(select(table).where(owner == shop.account_id).order_by(table.c.id).limit(1)).one()
    same = {str(name): value for name, value in template._mapping.items() if name not in {"id", *rows_of_accounts[0]}}
    ids = draw_ids(session, model, len(rows_of_accounts))
    insert_rows(
        session, model, [{"id": row_id, **row} for row_id, row in zip(ids, rows_of_accounts, strict=True)], same
    )
    return ids


def _recipient(number: int, owner: Mapping[str, Any]) -> Row:
    address = f"person{number}@customers.example"
    return {**owner, "uuid": str(uuid4()), "email": address, "contact_id": None, "values": values(number)}


def _queue(session: Session, recipients: Sequence[Mapping[str, Any]], ids: Sequence[int]) -> None:
    moment = now()
    shared = {"priority": "normal", "state": "queued", "due_time": moment, "ready_time": moment, "attempts": 0}
    pairs = zip(recipients, ids, strict=True)
    insert_rows(
        session, QueueEntry, [{"recipient_id": i, "account_id": owner["account_id"]} for owner, i in pairs], shared
    )


def _chunks(rows: Iterable[Row]) -> Iterable[list[Row]]:
    remaining = iter(rows)
    return iter(lambda: list(itertools.islice(remaining, ROWS_PER_CHUNK)), [])
