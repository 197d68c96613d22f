"""Adding and removing suppressions in the console, as the command line does (docs/console.md#suppressions)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.addresses import (
    AddressKind,
    NormalizedAddress,
    is_valid_email,
    is_valid_mobile,
    mobile_as_stored,
    normalize_address,
)
from app.console.suppressions import Suppression
from app.console.uploads import CheckedUpload, opened, rows_of
from app.contacts.blocked import BLOCKED, STATES
from app.contacts.suppression_acts import (
    NewSuppressionRow,
    add_blocked,
    add_unsubscribed,
    new_rows,
    remove_blocked,
    remove_unsubscribed,
)
from app.csv_files.reader import UnreadableFile, cell, find_format, from_cell, reading
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.lookup import find_by_name_or_id
from app.db.models import List
from app.errors import ServiceError
from app.ids import copied_id, id_in, shown_id

LONGEST_REASON = 255
BY_HAND = "blocked by hand"


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """What the form says: an address, a state, a list by its name or id, and the reason of a block. The last two may
    be empty."""

    address: str
    state: str
    list: str = ""
    reason: str = ""


def address_of(text: str) -> NormalizedAddress:
    """The address that somebody has written, normalized. Raises `invalid_email_address`, or `invalid_mobile_address`,
    for a text that is none."""
    if "@" in text:
        if not is_valid_email(text):
            raise ServiceError("invalid_email_address", field="email", detail=f"{text!r} is not an email address.")
        return normalize_address("email", text)
    number = mobile_as_stored(text)
    if not is_valid_mobile(number):
        detail = f"{text!r} is neither an email address nor a mobile number such as 61411111111."
        raise ServiceError("invalid_mobile_address", field="mobile", detail=detail)
    return normalize_address("mobile", number)


def checked_state(text: str) -> str:
    """The state. Raises `invalid_string` for any other text."""
    if text not in STATES:
        raise ServiceError("invalid_string", field="state", detail=f"{text!r} is none of {', '.join(STATES)}.")
    return text


def checked_reason(text: str) -> str:
    """The reason of a block; a general one for an empty text. Raises `too_long`."""
    if len(text) > LONGEST_REASON:
        raise ServiceError("too_long", field="reason", detail=f"A reason has at most {LONGEST_REASON} characters.")
    return text or BY_HAND


def add_suppression(transaction: Transaction, secret_key: str, account_id: int, new: NewSuppression) -> None:
    """Blocks the address, or unsubscribes it from the list, or account-wide without one. Raises the errors of the
    form."""
    address, state = address_of(new.address), checked_state(new.state)
    if state == BLOCKED:
        if new.list:
            raise ServiceError("unexpected_field", field="list", detail="An address is blocked for all lists.")
        add_blocked(transaction, secret_key, account_id, address, checked_reason(new.reason))
        return
    list_id = find_by_name_or_id(transaction, List, account_id, new.list, "list").id if new.list else None
    add_unsubscribed(transaction, secret_key, account_id, address, list_id)


def remove_suppression(transaction: Transaction, secret_key: str, account_id: int, one: Suppression) -> None:
    """Unblocks the address, or resubscribes it: to the list of the entry, and account-wide. Raises `conflict` for a
    forgotten one."""
    if one.address is None:
        raise ServiceError("conflict", detail="The address was forgotten; add it anew to change what is kept of it.")
    address = normalize_address(cast("AddressKind", one.kind), one.address)
    if one.state == BLOCKED:
        remove_blocked(transaction, secret_key, account_id, address)
    else:
        remove_unsubscribed(transaction, secret_key, account_id, address, one.stored_list_id)


# Importing suppressions from a CSV file: it is checked first, and what is valid is written at once
# (docs/console.md#suppressions).

ADDRESS_COLUMNS = ("address", "email", "mobile")
COLUMNS = (*ADDRESS_COLUMNS, "state", "list", "list_id", "reason")
OTHER_WAY = "a seed file"
"""What imports more than fits in here."""
WRITTEN = ("address", "state", "list_id", "reason")


@dataclass(slots=True)
class Checked(CheckedUpload):
    """What a file says: its valid rows, how many suppressions they add, and its faults."""

    rows: list[NewSuppressionRow] = field(default_factory=list)
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


def _row(values: Mapping[str, str], state: str, lists: Mapping[str, tuple[int, str]]) -> NewSuppressionRow:
    given = [values[name] for name in ADDRESS_COLUMNS if values.get(name)]
    if len(given) != 1:
        raise ServiceError("invalid_string", detail="It needs one address." if given else "It has no address.")
    address, state = address_of(given[0]), checked_state(values.get("state") or state)
    wanted = values.get("list") or values.get("list_id")
    if state == BLOCKED:
        if wanted:
            raise ServiceError("unexpected_field", detail="An address is blocked for all lists.")
        return NewSuppressionRow(address, state, None, None, checked_reason(values.get("reason", "")))
    if wanted and wanted not in lists:
        raise ServiceError("invalid_id", detail=f"The account has no list {wanted!r}.")
    list_id, name = lists[wanted] if wanted else (None, None)
    return NewSuppressionRow(address, state, list_id, name, "")


def as_file(rows: Iterable[NewSuppressionRow]) -> str:
    """The rows as a file, which the preview sends back when they are to be imported."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(WRITTEN)
    for row in rows:
        list_id = shown_id(row.list_id)
        writer.writerow([cell(value) for value in (row.address.key, row.state, list_id, row.reason)])
    return text.getvalue()
