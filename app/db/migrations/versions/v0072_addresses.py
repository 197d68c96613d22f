"""Email addresses are compared in one form: composed, without regard to case, the domain in ASCII
(docs/contacts.md#one-address).

Suppressions get an entry in that form beside the one that older processes go on finding. Once none of these runs any
more, maintenance makes one of the two, and brings contacts into the form (docs/operations.md#addresses). What it has to
look at is found by indexes, which are built beside the writers. Rows are read and written in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from app.addresses import address_forms, email_key
from app.db.online_index import create_index_online, drop_index_online

revision = "0072"
down_revision = "0071"
branch_labels = None
depends_on = None

phase = "expand"
online = True

SLICE = 500
COLUMNS = {
    "contacts": "email_key",
    "unsubscribers": "address",
    "blocked_addresses": "address",
    "soft_bounces": "address",
}
"""Table -> its column of addresses."""
SUPPRESSIONS = {
    "unsubscribers": "account_id, list_id, kind, {}, creation_time",
    "blocked_addresses": "account_id, kind, {}, reason, reply, creation_time",
}
"""Table -> its columns but the id, with a place for the address."""
PAIRS = "ix_contacts_other_identifier"

Read = Sequence[sa.Row[Any]]


def upgrade() -> None:
    """To this revision. It may be repeated after an interruption."""
    for table, column in COLUMNS.items():
        create_index_online(f"ix_{table}_non_ascii", table, ("id",), where=_non_ascii(column))
    create_index_online(PAIRS, "contacts", ("account_id", "id"), where="identifier <> email_key")
    _add_entries(_non_ascii("address"), lambda address: (email_key(address),))


def downgrade() -> None:
    """Back to the previous revision, whose code finds an address in the form in which it is written: each suppression
    gets entries in all forms, and contacts are as it would have stored them."""
    _add_entries(f"({_non_ascii('address')} OR address LIKE '%xn--%')", address_forms)
    _store_contacts_as_before()
    drop_index_online(PAIRS, "contacts")
    for table in COLUMNS:
        drop_index_online(f"ix_{table}_non_ascii", table)


def _non_ascii(column: str) -> str:
    """As in the models."""
    if op.get_bind().dialect.name == "postgresql":
        return f"octet_length({column}) <> char_length({column})"
    return f"length(CAST({column} AS BLOB)) <> length({column})"


def _add_entries(condition: str, forms_of: Callable[[str], Sequence[str]]) -> None:
    """Copies of suppressions in other forms of their addresses, unless there are such entries."""
    for table, columns in SUPPRESSIONS.items():
        copied = sa.text(
            f"INSERT INTO {table} ({columns.format('address')}) SELECT {columns.format(':form')} FROM {table} "  # noqa: S608
            "WHERE id = :id ON CONFLICT DO NOTHING"
        )
        for rows in _slices(table, "address", condition):
            copies = [
                {"id": row.id, "form": form} for row in rows for form in forms_of(row.address) if form != row.address
            ]
            if copies:
                op.get_bind().execute(copied, copies)


def _store_contacts_as_before() -> None:
    stored = sa.text(
        "UPDATE contacts SET identifier = CASE WHEN identifier = email_key THEN :key ELSE identifier END, "
        "email_key = :key WHERE id = :id"
    )
    for rows in _slices("contacts", "email, email_key", _non_ascii("email")):
        before = [{"id": row.id, "key": row.email.lower()} for row in rows if row.email.lower() != row.email_key]
        if before:
            op.get_bind().execute(stored, before)


def _slices(table: str, columns: str, condition: str) -> Iterator[Read]:
    after = 0
    chosen = sa.text(f"SELECT id, {columns} FROM {table} WHERE {condition} AND id > :after ORDER BY id LIMIT {SLICE}")  # noqa: S608
    while rows := op.get_bind().execute(chosen, {"after": after}).all():
        yield rows
        after = rows[-1].id
