"""Brings stored addresses into the form in which they are compared, the rows of releases before revision 0072, which
normalised the case alone (docs/upgrade.md#from-before-the-first-release).

Entries of one address become one. Rows are found by indexes of what is not ASCII, and written in slices, so that no
request waits for long. A row that is missed, because another wrote it meanwhile, is found by the next run.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, TextClause, delete, select, text, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, NormalizedAddress, email_key
from app.clock import this_second
from app.contacts.blocked import COMPLAINT, Block, block_addresses
from app.contacts.events import record_contact_events
from app.contacts.same_address import compare_contacts
from app.contacts.subscriptions import lock_subscriptions, unsubscribe_addresses
from app.db.address_forms import is_non_ascii
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import BlockedAddress, Contact, SoftBounces, Unsubscriber, table_of
from app.db.models.contacts import OTHER_IDENTIFIER
from app.sends.outcomes.bounce_blocking import add_soft_bounces
from app.services import Services

logger = logging.getLogger(__name__)

SLICE = 500
"""Rows of one transaction."""


Write = Callable[[Transaction, int, Sequence[int]], None]
"""Writes those of an account's rows."""


class Part(NamedTuple):
    """A table whose rows are brought into the form: `column` has the address, and `rows` are those to look at, in the
    order of their index."""

    column: Any
    rows: Callable[[Session], TextClause]
    order: tuple[Any, ...]
    write: Write


def compare_stored_addresses(services: Services) -> int:
    """Returns how many rows were brought into the form."""
    total = sum(_bring(services, part) for part in PARTS)
    if total:
        logger.info("normalised stored addresses", extra={"rows": total})
    return total


def _bring(services: Services, part: Part) -> int:
    total = 0
    for account_id, ids in _slices(services, part):
        try:
            with services.database.write() as transaction:
                part.write(transaction, account_id, ids)
        except IntegrityError:  # another contact has just got the address; the next run sees it
            logger.warning("left the remaining addresses for the next run", extra={"account_id": account_id})
        else:
            total += len(ids)
    return total


def _slices(services: Services, part: Part) -> Iterator[tuple[int, list[int]]]:
    """Accounts with ids of their rows that are not in the form, slice by slice."""
    model, after = part.column.class_, (0,) * len(part.order)
    while not services.stopping.is_set():
        with services.database.read() as session:
            columns = select(model.id, model.account_id, part.column)
            chosen = columns.where(part.rows(session), tuple_(*part.order) > tuple_(*after))
            rows = session.execute(chosen.order_by(*part.order).limit(SLICE)).all()
        if not rows:
            return
        after = tuple(getattr(rows[-1], column.key) for column in part.order)
        by_account = defaultdict[int, list[int]](list)
        for row_id, account_id, address in rows:
            if email_key(address) != address:
                by_account[account_id].append(row_id)
        yield from by_account.items()


def _rows(transaction: Transaction, model: Any, ids: Sequence[int], *order: Any) -> Sequence[Row[Any]]:
    """The rows that are still there, locked."""
    table = table_of(model)
    chosen = select(table).where(in_json(table.c.id, ids)).order_by(*order, table.c.id)
    return transaction.connection().execute(chosen.with_for_update()).all()


def _unsubscribe(transaction: Transaction, account_id: int, ids: Sequence[int]) -> None:
    """The entries in the form, since when the oldest of them is, and the flags of the contacts that they apply to."""
    lock_subscriptions(transaction, account_id)
    moment, by_list = this_second(), defaultdict[int | None, dict[NormalizedAddress, Any]](dict)
    for row in _rows(transaction, Unsubscriber, ids, Unsubscriber.creation_time):
        by_list[row.list_id].setdefault(NormalizedAddress(row.kind, email_key(row.address)), row)
    for list_id, oldest in by_list.items():
        entries = [
            {"kind": kind, "address": key, "uuid": row.uuid, "creation_time": row.creation_time}
            for (kind, key), row in oldest.items()
        ]
        insert_new_rows(transaction, Unsubscriber, entries, {"account_id": account_id, "list_id": list_id})
        changed = unsubscribe_addresses(transaction, account_id, list_id, list(oldest), moment)
        record_contact_events(transaction, account_id, "updated", changed, moment)


def _block(transaction: Transaction, account_id: int, ids: Sequence[int]) -> None:
    """A complaint weighs more than any other reason, and of others the older one stays."""
    blocks: dict[AccountAddress, Block] = {}
    rows = _rows(transaction, BlockedAddress, ids, BlockedAddress.creation_time)
    for row in sorted(rows, key=lambda row: bool(row.reason != COMPLAINT)):
        address = AccountAddress.of(account_id, row.kind, row.address)
        blocks.setdefault(address, Block(row.reason, row.reply, row.uuid, row.creation_time))
    changed = block_addresses(transaction, blocks)
    record_contact_events(transaction, account_id, "updated", changed.get(account_id, ()), this_second())


def _count(transaction: Transaction, account_id: int, ids: Sequence[int]) -> None:
    """Soft bounces since the last delivery."""
    counts: Counter[AccountAddress] = Counter()
    for row in _rows(transaction, SoftBounces, ids):
        if row.reset_by is None:
            counts[AccountAddress.of(account_id, row.kind, row.address)] += row.bounces
    changed = add_soft_bounces(transaction, counts)
    record_contact_events(transaction, account_id, "updated", changed.get(account_id, ()), this_second())


def _merge(write: Write, model: Any) -> Write:
    """Deletes the rows after that."""

    def merge(transaction: Transaction, account_id: int, ids: Sequence[int]) -> None:
        write(transaction, account_id, ids)
        transaction.connection().execute(delete(table_of(model)).where(in_json(table_of(model).c.id, ids)))

    return merge


PARTS = (
    Part(Contact.email_key, lambda session: is_non_ascii(session, "email_key"), (Contact.id,), compare_contacts),
    Part(Contact.identifier, lambda _: text(OTHER_IDENTIFIER), (Contact.account_id, Contact.id), compare_contacts),
    *(
        Part(model.address, lambda session: is_non_ascii(session, "address"), (model.id,), _merge(write, model))
        for model, write in ((Unsubscriber, _unsubscribe), (BlockedAddress, _block), (SoftBounces, _count))
    ),
)
