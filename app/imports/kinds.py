"""What can be imported from a CSV file. A kind of import says which columns there are, when a row is valid, how valid
rows are written, in a number of statements that does not grow with them, and what the audit log says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, NormalizedAddress, mobile_as_stored
from app.audit.record import Act
from app.contacts.acts import act_on_list
from app.contacts.cells import FLAGS, READ_ONLY_KEYS, SUBSCRIBED_KEYS, column_key, columns_of, contact_from_cells
from app.contacts.rules import address_errors
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.upsert import UpsertCounts, identifier_of, key_of, match_contacts, unidentified, upsert_batch
from app.db.database import Database, Transaction
from app.db.expressions import in_json
from app.db.json_fields import KeyCounts
from app.db.lookup import find_all_by_name_or_id
from app.db.models import Contact, List
from app.db.write_turns import WriteTurns
from app.errors import FieldError, ServiceError
from app.imports.rows import Fault, Row
from app.lists.fields import ListSpec
from app.lists.find import get_list
from app.suppressions.acts import address_of, checked_reason, checked_state
from app.suppressions.add import NewSuppression, add_suppressions, count_new, stored_list_ids
from app.suppressions.states import BLOCKED

COLUMNS_NEVER_CLEARED = (*FLAGS, *SUBSCRIBED_KEYS)
"""Columns of contacts that have no value for which an empty cell could stand."""

Cells = Mapping[str, str]
"""Key of a column -> the text of its cell."""


class ContactsOfList:
    """The contacts of a list: missing ones are created, others updated. Raises `list_address_field_missing` for a list
    by which none could be found."""

    def __init__(self, contact_list: ListSpec, *, empty_clears: bool = False) -> None:
        self.contact_list, self.empty_clears = contact_list, empty_clears
        self.account_id = contact_list.account_id
        self.identifier = identifier_of(contact_list)
        not_there = [kind for kind in ADDRESS_KINDS if not getattr(contact_list, f"has_{kind}")]
        self.choices = [key for key in columns_of(contact_list) if key not in (*READ_ONLY_KEYS, *not_there)]
        """What a column may be that is read."""

    def column(self, name: str) -> str | None:
        """What a column of this name is; None for an unknown one."""
        return column_key(self.contact_list, name)

    def missing(self, keys: Iterable[str | None]) -> str | None:
        """Why no row of a file with these columns can be imported, if so."""
        if self.identifier in keys:
            return None
        return f"No column has the attribute {self.identifier}, which identifies the contacts of this list."

    def read(self, cells: Cells) -> tuple[dict[str, Any], list[Fault]]:
        """What a row writes, and what is wrong with it by itself."""
        given = {
            key: mobile_as_stored(text) if key == "mobile" else text
            for key, text in cells.items()
            if text or key not in COLUMNS_NEVER_CLEARED
        }
        values, errors = contact_from_cells(self.contact_list, given, clear=self.empty_clears)
        errors += address_errors(self.contact_list, [values], bulk=False)
        if not given.get(self.identifier):
            errors.append(unidentified(self.identifier))
        return values, [Fault.of(error, given.get(error.field or "")) for error in errors]

    def compare(self, database: Database, rows: Sequence[Row], counts: KeyCounts, done: int) -> None:
        """Finds the faults that rows have beside others, and in view of the contacts. Of the rows before `done`, which
        an interrupted import has written, the contacts say nothing any more."""
        for row in rows:
            row.earlier, first = counts.add(key_of(self.identifier, row.values), row.line)
            if row.earlier and not self.contact_list.allow_duplicates:
                text = f"{self.identifier}: line {first} already has it."
                row.faults.append(Fault(("conflict", self.identifier), text, row.values[self.identifier]))
        left = (row for row in rows if row.place >= done and not row.faults)
        if resetting := [row for row in left if row.values.get("double_opt_in") is False]:
            with database.read() as session:
                self._refuse_resets(session, resetting)

    def _refuse_resets(self, session: Session, rows: Sequence[Row]) -> None:
        """No write may take a confirmation back."""
        matches = match_contacts(
            session, self.contact_list, [row.values for row in rows], [row.earlier for row in rows]
        )
        by_id = {contact_id: row for contact_id, row in zip(matches, rows, strict=True) if contact_id is not None}
        confirmed = select(Contact.id).where(in_json(Contact.id, list(by_id)), Contact.double_opt_in)
        for contact_id in session.scalars(confirmed):
            by_id[contact_id].faults.append(Fault.of(FieldError("cannot_reset_double_opt_in", "double_opt_in")))

    def write(self, transaction: Transaction, rows: Sequence[Row], at_once: bool) -> UpsertCounts:
        """Writes rows, all of the file `at_once` or some. Raises `ServiceError` located by their indexes."""
        # Read again each time: automations may have begun to listen to the list meanwhile.
        current = get_list(transaction, self.account_id, self.contact_list.id)
        values, earlier = [row.values for row in rows], [row.earlier for row in rows]
        return upsert_batch(transaction, current, values, earlier, allow_system=True, long_transaction=at_once)

    def try_out(self, database: Database, rows: Sequence[Row]) -> UpsertCounts:
        """What `write` would do with all rows of a file: it does it, and takes it back."""
        return WriteTurns(database).take(len(rows), partial(self.write, rows=rows, at_once=True), keep=False)

    def act(self, rows: int, _done: UpsertCounts, **further: int) -> Act:
        """An import of so many rows."""
        return act_on_list("list.imported", self.contact_list, rows=rows, **further)


# Suppressions.

ADDRESS_COLUMNS = ("address", "email", "mobile")


class SuppressionsOfAccount:
    """Unsubscribed and blocked addresses of an account, which are added; those that are there stay as they are. A row
    without a state has the given one. Raises `invalid_string` for a wrong one."""

    empty_clears = False
    choices = (*ADDRESS_COLUMNS, "state", "list", "list_id", "reason")
    """What a column may be."""

    def __init__(self, account_id: int, state: str) -> None:
        self.account_id, self.state = account_id, checked_state(state)

    def column(self, name: str) -> str | None:
        """What a column of this name is; None for an unknown one."""
        key = name.strip().lower()
        return key if key in self.choices else None

    def missing(self, keys: Iterable[str | None]) -> str | None:
        """Why no row of a file with these columns can be imported, if so."""
        if {*keys} & {*ADDRESS_COLUMNS}:
            return None
        *others, last = ADDRESS_COLUMNS
        return f"The first line must name a column {', '.join(others)} or {last}."

    def read(self, cells: Cells) -> tuple[dict[str, Any], list[Fault]]:
        """What a row writes, with the name of its list, and what is wrong with it by itself."""
        try:
            return self._values({key: text.strip() for key, text in cells.items()}), []
        except ServiceError as error:
            return {}, [Fault.of(error.errors[0])]

    def _values(self, cells: Cells) -> dict[str, Any]:
        given = [cells[name] for name in ADDRESS_COLUMNS if cells.get(name)]
        if len(given) != 1:
            raise ServiceError("invalid_string", detail="It needs one address." if given else "It has no address.")
        (kind, key), state = address_of(given[0]), checked_state(cells.get("state") or self.state)
        in_list = cells.get("list") or cells.get("list_id") or None
        is_blocked = state == BLOCKED
        if is_blocked and in_list:
            raise ServiceError("unexpected_field", detail="A block applies to all lists. Leave the list out.")
        reason = checked_reason(cells.get("reason", "")) if is_blocked else ""
        return {"kind": kind, "address": key, "state": state, "list": in_list, "list_id": None, "reason": reason}

    def compare(self, database: Database, rows: Sequence[Row], _counts: KeyCounts, _done: int) -> None:
        """Finds the lists that the rows name, by their names and ids: one statement."""
        in_lists = [row for row in rows if row.values["list"]]
        if not in_lists:
            return
        with database.read() as session:
            named = {row.values["list"] for row in in_lists}
            lists_by_name = find_all_by_name_or_id(session, List, self.account_id, named)
            lists = {name: (contact_list.id, contact_list.name) for name, contact_list in lists_by_name.items()}
        for row in in_lists:
            list_name = row.values["list"]
            if list_name in lists:
                row.values["list_id"], row.values["list"] = lists[list_name]
            else:
                row.faults.append(Fault(("invalid_id", "list"), f"The account has no list {list_name!r}."))

    def write(self, transaction: Transaction, rows: Sequence[Row], _at_once: bool) -> UpsertCounts:
        """Adds suppressions; returns how many, and how many contacts have changed by that. Raises `invalid_id` for a
        list that is gone since it was found."""
        lock_subscriptions(transaction, self.account_id)
        ids = {row.values["list_id"] for row in rows} - {None}
        there = {None, *stored_list_ids(transaction, self.account_id, ids).values()}
        for index, row in enumerate(rows):
            if row.values["list_id"] not in there:
                detail = f"The list {row.values['list']!r} was deleted."
                raise ServiceError("invalid_id", field="list", index=index, detail=detail)
        added = add_suppressions(transaction, self.account_id, list(map(_new_suppression, rows)))
        return UpsertCounts(created=added.entries, updated=added.contacts)

    def try_out(self, database: Database, rows: Sequence[Row]) -> UpsertCounts:
        """How many suppressions `write` would add: counted, without the locks of those who write."""
        with database.read() as session:
            return UpsertCounts(created=count_new(session, self.account_id, list(map(_new_suppression, rows))))

    def act(self, _rows: int, done: UpsertCounts, **_further: int) -> Act:
        """An import of so many suppressions."""
        return Act("suppression.imported", self.account_id, counts={"suppressions": done.created})


def _new_suppression(row: Row) -> NewSuppression:
    values = row.values
    address = NormalizedAddress(values["kind"], values["address"])
    return NewSuppression(address, values["state"], values["list_id"], values["reason"])


Kind = ContactsOfList | SuppressionsOfAccount
"""What a file is imported as."""
