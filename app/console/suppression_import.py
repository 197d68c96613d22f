"""Importing suppressions from a CSV file: it is checked first, and what is valid is written at once
(docs/console.md#suppressions)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, NormalizedAddress
from app.audit.record import Act, record
from app.clock import this_second
from app.console.suppression_changes import address_of, checked_reason, checked_state
from app.console.uploads import CheckedUpload, opened, rows_of
from app.contacts.blocked import BLOCKED, UNSUBSCRIBED, Block, block_addresses, blocked_among
from app.contacts.events import record_contact_events
from app.contacts.subscriptions import lock_subscriptions, unsubscribe_addresses
from app.contacts.unsubscriber_entries import lists_of_entries
from app.csv_files.reader import UnreadableFile, cell, find_format, from_cell, reading
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import List
from app.errors import ServiceError
from app.ids import copied_id, id_in, shown_id

BATCH = 1000
ADDRESS_COLUMNS = ("address", "email", "mobile")
COLUMNS = (*ADDRESS_COLUMNS, "state", "list", "list_id", "reason")
OTHER_WAY = "a seed file"
"""What imports more than fits in here."""
WRITTEN = ("address", "state", "list_id", "reason")

Address = TypeVar("Address")


@dataclass(frozen=True, slots=True)
class Row:
    """A valid row: `list_id` None is account-wide."""

    address: NormalizedAddress
    state: str
    list_id: int | None
    list_name: str | None
    reason: str


@dataclass(slots=True)
class Checked(CheckedUpload):
    """What a file says: its valid rows, how many suppressions they add, and its faults."""

    rows: list[Row] = field(default_factory=list)
    added: int = 0


def check_file(session: Session, account_id: int, content: bytes, state: str) -> Checked:
    """Reads the file; a row without a state has the given one. Raises `too_long`, and `invalid_string` for one that is
    no such file."""
    checked_state(state)
    with (
        opened(content, OTHER_WAY) as file,
        reading(file, find_format(file, lambda name: _column(name) in COLUMNS)) as reader,
    ):
        names = [_column(name) for name in reader.head]
        if not set(names) & set(ADDRESS_COLUMNS):
            raise UnreadableFile(f"the first line names no column {', '.join(ADDRESS_COLUMNS)}")
        rows = rows_of(reader, OTHER_WAY)
    cells = [dict(zip(names, map(from_cell, row.cells), strict=False)) for row in rows]
    lists, checked = _lists(session, account_id, cells), Checked()
    for row, values in zip(rows, cells, strict=True):
        if row.problem is not None:
            checked.add_fault(row.line, row.problem)
            continue
        try:
            checked.rows.append(_row({name: value.strip() for name, value in values.items()}, state, lists))
        except ServiceError as error:
            checked.add_fault(row.line, error.errors[0].developer_message)
    checked.added = len(new_rows(session, account_id, checked.rows))
    return checked


def _column(name: str) -> str:
    return name.strip().lower()


def _lists(session: Session, account_id: int, cells: Iterable[Mapping[str, str]]) -> dict[str, tuple[int, str]]:
    """The lists that the rows name, by their names and ids: one statement."""
    named = {values.get(column, "").strip() for values in cells for column in ("list", "list_id")} - {""}
    ids = [one for name in named if (given := id_in(name)) is not None for one in (given, copied_id(given))]
    if not named:
        return {}
    of_account = select(List.id, List.name).where(List.account_id == account_id)
    wanted = or_(in_json(List.name, sorted(named)), in_json(List.id, ids))
    found = session.execute(of_account.where(wanted).order_by(List.id)).all()
    lists = {str(shown_id(row.id)): (row.id, str(row.name)) for row in found}
    return lists | {str(row.name): (row.id, str(row.name)) for row in reversed(found)}


def _row(values: Mapping[str, str], state: str, lists: Mapping[str, tuple[int, str]]) -> Row:
    given = [values[name] for name in ADDRESS_COLUMNS if values.get(name)]
    if len(given) != 1:
        raise ServiceError("invalid_string", detail="It needs one address." if given else "It has no address.")
    address, state = address_of(given[0]), checked_state(values.get("state") or state)
    wanted = values.get("list") or values.get("list_id")
    if state == BLOCKED:
        if wanted:
            raise ServiceError("unexpected_field", detail="An address is blocked for all lists.")
        return Row(address, state, None, None, checked_reason(values.get("reason", "")))
    if wanted and wanted not in lists:
        raise ServiceError("invalid_id", detail=f"The account has no list {wanted!r}.")
    list_id, name = lists[wanted] if wanted else (None, None)
    return Row(address, state, list_id, name, "")


def as_file(rows: Iterable[Row]) -> str:
    """The rows as a file, which the preview sends back when they are to be imported."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(WRITTEN)
    for row in rows:
        list_id = shown_id(row.list_id)
        writer.writerow([cell(value) for value in (row.address.key, row.state, list_id, row.reason)])
    return text.getvalue()


def new_rows(session: Session, account_id: int, rows: Sequence[Row]) -> Sequence[Row]:
    """Those of the rows that add a suppression: it is not there yet, and no earlier row adds it. Two statements for
    each thousand rows."""
    known: set[tuple[NormalizedAddress, str, int | None]] = set()
    for some in _batches([row.address for row in rows]):
        for address, lists in lists_of_entries(session, account_id, some).items():
            known.update((address, UNSUBSCRIBED, list_id) for list_id in lists)
        known.update((address, BLOCKED, None) for address in blocked_among(session, account_id, some))
    found = []
    for row in rows:
        key = row.address, row.state, row.list_id
        if key not in known:
            known.add(key)
            found.append(row)
    return found


def import_rows(transaction: Transaction, account_id: int, rows: Sequence[Row]) -> None:
    """Adds the suppressions, all or none; those that exist already stay as they are."""
    lock_subscriptions(transaction, account_id)
    moment, added = this_second(), new_rows(transaction, account_id, rows)
    changed = [*_unsubscribe(transaction, account_id, rows), *_block(transaction, account_id, rows)]
    record_contact_events(transaction, account_id, "updated", sorted(changed), moment)
    if added or changed:
        record(transaction, Act("suppression.imported", account_id, counts={"suppressions": len(added)}))


def _unsubscribe(transaction: Transaction, account_id: int, rows: Iterable[Row]) -> Iterator[tuple[int, int]]:
    by_list: dict[int | None, dict[NormalizedAddress, None]] = {}
    for row in rows:
        if row.state != BLOCKED:
            by_list.setdefault(row.list_id, {})[row.address] = None
    for list_id, addresses in by_list.items():
        for some in _batches(list(addresses)):
            yield from unsubscribe_addresses(transaction, account_id, list_id, some, this_second())


def _block(transaction: Transaction, account_id: int, rows: Iterable[Row]) -> Iterator[tuple[int, int]]:
    blocked = {AccountAddress(account_id, *row.address): Block(row.reason) for row in rows if row.state == BLOCKED}
    for some in _batches(list(blocked)):
        yield from block_addresses(transaction, {one: blocked[one] for one in some}).get(account_id, [])


def _batches(addresses: list[Address]) -> Iterator[list[Address]]:
    return (addresses[start : start + BATCH] for start in range(0, len(addresses), BATCH))
