"""Imports a text as both doors do: all of it at once, as the console, or in slices, as the command line."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from app.contacts.upsert import UpsertCounts
from app.csv_files.reader import find_format, reading
from app.db.models import AuditEntry, Contact, ContactImport
from app.imports.importer import SlicedImport, begin_import, check, find_import, new_import, write_at_once
from app.imports.kinds import ContactsOfList, Kind
from app.imports.rows import CheckedRows, FaultReport, Row
from app.lists.find import get_list
from app.services import Services
from tests.support.tenants import Tenant

AT_ONCE, IN_SLICES = WAYS = ("at once", "in slices")


@dataclass(frozen=True)
class Done:
    """What an import has done, and what is wrong with the file."""

    created: int
    updated: int
    left_out: int
    faults: FaultReport

    @classmethod
    def of(cls, counts: UpsertCounts | ContactImport, faults: FaultReport) -> Done:
        return cls(counts.created, counts.updated, counts.left_out, faults)

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.created, self.updated, self.left_out


def contacts_of(tenant: Tenant, list_id: int, *, empty_clears: bool = False) -> ContactsOfList:
    """The kind of import for a list."""
    with tenant.services.database.read() as session:
        return ContactsOfList(get_list(session, tenant.id, list_id), empty_clears=empty_clears)


def checked(services: Services, kind: Kind, text: str, done: int = 0) -> tuple[list[Row], FaultReport]:
    """The valid rows, and the faults of the others."""
    file, rows = io.BytesIO(text.encode()), list[Row]()
    with reading(file, find_format(file, lambda name: kind.column(name) is not None)) as reader:
        keys = [kind.column(name) for name in reader.head]
        return rows, check(services.database, kind, keys, reader.rows(), rows.append, done=done)


def sliced(
    services: Services, kind: ContactsOfList, rows: list[Row], text: str, *, resume: bool = False, keep: bool = True
) -> SlicedImport:
    """An import of checked rows in slices, begun anew or behind what is stored."""
    valid, digest = CheckedRows(io.BytesIO()), hashlib.sha256(text.encode()).hexdigest()
    for row in rows:
        valid.add(row)
    valid.rewind()
    with services.database.write() as transaction:
        contact_import = find_import(transaction, kind.contact_list, [digest]) if resume else None
        if contact_import is None:
            contact_import = new_import(kind.contact_list, [digest], "")
            begin_import(transaction, contact_import, [digest])
    return SlicedImport(services.database, kind, valid, contact_import, keep=keep)


def imported(services: Services, kind: Kind, text: str, way: str = AT_ONCE, *, keep: bool = True) -> Done:
    """Imports the valid rows; without `keep` it takes that back."""
    rows, faults = checked(services, kind, text)
    if way == AT_ONCE and keep:
        return Done.of(services.database.transact(lambda transaction: write_at_once(transaction, kind, rows)), faults)
    if way == AT_ONCE:
        return Done.of(kind.try_out(services.database, rows), faults)
    assert isinstance(kind, ContactsOfList)
    work = sliced(services, kind, rows, text, keep=keep)
    work.run(lambda _: None)
    return Done.of(work.position, faults)


def tried_out(services: Services, kind: Kind, text: str, way: str = AT_ONCE) -> Done:
    """Does the same, and takes it back."""
    return imported(services, kind, text, way, keep=False)


def stored(tenant: Tenant, list_id: int) -> dict[Any, dict[str, Any]]:
    """Email or mobile -> values of the contacts of the list."""
    columns: tuple[Any, ...] = (Contact.email, Contact.mobile, Contact.values)
    with tenant.services.database.read() as session:
        rows = session.execute(select(*columns).where(Contact.list_id == list_id).order_by(Contact.id))
        return {row[0] or row[1]: row[2] for row in rows}


def acts(tenant: Tenant) -> list[tuple[str, dict[str, int]]]:
    """The audit log of the account."""
    columns: tuple[Any, ...] = (AuditEntry.action, AuditEntry.counts)
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id
        return [tuple(row) for row in session.execute(select(*columns).where(criteria).order_by(AuditEntry.id))]
