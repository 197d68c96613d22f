"""Contacts, the account's unsubscribed and blocked addresses, and imports of contacts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import (
    IMPERSONAL,
    KIND_COLUMN,
    AccountId,
    Base,
    BigInt,
    Identity,
    Impersonal,
    Timestamps,
    partial_index,
    personal,
)
from app.db.types import BigId, Json

PAGE_COLUMNS = ("list_id", "creation_time", "id")
"""The order of the pages of a list."""
RARE_SWITCHES = {
    "unsubscribed": ("NOT subscribed_email OR NOT subscribed_mobile", "subscribed_email = 0 OR subscribed_mobile = 0"),
    "unsubscribed_email": ("NOT subscribed_email", "subscribed_email = 0"),
    "unsubscribed_mobile": ("NOT subscribed_mobile", "subscribed_mobile = 0"),
    "inactive": ("NOT is_active", "is_active = 0"),
    "double_opt_in": ("double_opt_in", "double_opt_in = 1"),
}
"""Name of an index -> a condition that few contacts meet, as both databases write it: the others have no entry and cost
nothing."""


def non_ascii(column: str) -> tuple[str, str]:
    """The condition that a text has other characters than those of ASCII, as PostgreSQL and as SQLite write it."""
    return f"octet_length({column}) <> char_length({column})", f"length(CAST({column} AS BLOB)) <> length({column})"


def non_ascii_index(table: str, column: str) -> Index:
    """An index of the addresses that may be stored in a form of a release before revision 0072
    (app/maintenance/stored_addresses.py)."""
    postgresql, sqlite = non_ascii(column)
    return partial_index(f"ix_{table}_non_ascii", "id", where=postgresql, sqlite_where=sqlite)


OTHER_IDENTIFIER = "identifier <> email_key"
"""What contacts meet whose address another one of their list has as its identifier (app/contacts/same_address.py)."""


class Contact(Timestamps, Base):
    """A person in a list (docs/contacts.md#attributes).

    `email_key` is the email in its normalised form. `identifier` must be unique in the list: the email key (but see
    docs/contacts.md#one-address), or the mobile in a list without an email field; null where the list allows
    duplicates, so that one unique index serves every list and two sends at the same moment create one contact
    (docs/contacts.md#identifiers). `values` holds the list field values by key, without nulls.
    """

    __tablename__ = "contacts"
    __table_args__ = (
        UniqueConstraint("list_id", "identifier"),
        Index("ix_contacts_page", "list_id", "creation_time", "id"),
        Index("ix_contacts_email", "list_id", "email_key"),
        Index("ix_contacts_mobile", "list_id", "mobile"),
        Index("ix_contacts_account_email", "account_id", "email_key"),
        Index("ix_contacts_account_mobile", "account_id", "mobile"),
        # Contacts that were not changed since are found by their creation time.
        partial_index(
            "ix_contacts_modified",
            *("list_id", "last_modified_time", "id"),
            where="last_modified_time <> creation_time",
        ),
        *(
            partial_index(f"ix_contacts_{name}", *PAGE_COLUMNS, where=condition, sqlite_where=on_sqlite)
            for name, (condition, on_sqlite) in RARE_SWITCHES.items()
        ),
        partial_index(
            "ix_contacts_double_opt_in_time",
            *("list_id", "double_opt_in_time", "id"),
            where="double_opt_in_time IS NOT NULL",
        ),
        non_ascii_index("contacts", "email_key"),
        partial_index("ix_contacts_other_identifier", "account_id", "id", where=OTHER_IDENTIFIER),
        Index(
            "ix_contacts_values",
            "values",
            postgresql_using="gin",
            postgresql_ops={"values": "jsonb_path_ops"},
        ).ddl_if(dialect="postgresql"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    list_id: Mapped[int] = mapped_column(BigId, ForeignKey("lists.id", ondelete="CASCADE"))
    email: Mapped[str | None] = mapped_column(info=personal("contacts"))
    email_key: Mapped[str | None] = mapped_column(info=personal("contacts", "email"))
    mobile: Mapped[str | None] = mapped_column(info=personal("contacts", "mobile"))
    identifier: Mapped[str | None] = mapped_column(info=personal("contacts"))
    subscribed_email: Mapped[bool] = mapped_column(default=True)
    subscribed_mobile: Mapped[bool] = mapped_column(default=True)
    is_active: Mapped[bool] = mapped_column(default=True)
    double_opt_in: Mapped[bool] = mapped_column(default=False)
    double_opt_in_time: Mapped[datetime | None]
    values: Mapped[dict[str, Any]] = mapped_column(Json, default=dict, info=personal("contacts"))


CausingMessage = Annotated[str | None, mapped_column(info=IMPERSONAL)]
"""The uuid of the recipient whose message caused a suppression; null for any other cause."""


class Unsubscriber(Base):
    """An unsubscribed address: of one list, or of the whole account where `list_id` is null."""

    __tablename__ = "unsubscribers"
    __table_args__ = (
        partial_index(
            "uq_unsubscribers_list",
            "account_id",
            "kind",
            "address",
            "list_id",
            unique=True,
            where="list_id IS NOT NULL",
        ),
        partial_index(
            "uq_unsubscribers_account", "account_id", "kind", "address", unique=True, where="list_id IS NULL"
        ),
        # For all lists together, which neither of the partial indexes answers.
        Index("ix_unsubscribers_address", "account_id", "kind", "address"),
        Index("ix_unsubscribers_page", "account_id", "creation_time", "id"),
        Index("ix_unsubscribers_list_id", "account_id", "list_id", "creation_time", "id"),
        partial_index("ix_unsubscribers_uuid", "account_id", "uuid", where="uuid IS NOT NULL"),
        non_ascii_index("unsubscribers", "address"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    list_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("lists.id", ondelete="CASCADE"))
    kind: Mapped[Impersonal]
    """`email` or `mobile`."""
    address: Mapped[str] = mapped_column(info=personal("suppressions", KIND_COLUMN))
    """Normalised: emails as `email_key`."""
    uuid: Mapped[CausingMessage]
    creation_time: Mapped[datetime]


class BlockedAddress(Base):
    """An address that the account does not send to any more, whatever the list (docs/contacts.md#blocked-addresses)."""

    __tablename__ = "blocked_addresses"
    __table_args__ = (
        UniqueConstraint("account_id", "kind", "address"),
        Index("ix_blocked_addresses_page", "account_id", "creation_time", "id"),
        Index("ix_blocked_addresses_reason", "account_id", "reason", "creation_time", "id"),
        partial_index("ix_blocked_addresses_uuid", "account_id", "uuid", where="uuid IS NOT NULL"),
        non_ascii_index("blocked_addresses", "address"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    kind: Mapped[Impersonal]
    address: Mapped[str] = mapped_column(info=personal("suppressions", KIND_COLUMN))
    reason: Mapped[str] = mapped_column(info=personal("suppressions"))
    reply: Mapped[str | None] = mapped_column(info=personal("suppressions"))
    """By which a bounce has blocked it, without the address itself."""
    uuid: Mapped[CausingMessage]
    creation_time: Mapped[datetime]


class SoftBounces(Base):
    """Count of the soft bounces of an address since its last delivery; five of them block it
    (docs/contacts.md#blocked-addresses).

    A mail that was accepted counts as delivered until a bounce says otherwise (docs/delivery.md#recipient-states). So
    a delivery does not delete the row but sets `reset_by` to its recipient: if that one bounces after all, the earlier
    bounces count again.
    """

    __tablename__ = "soft_bounces"
    __table_args__ = (
        UniqueConstraint("account_id", "kind", "address"),
        non_ascii_index("soft_bounces", "address"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    kind: Mapped[Impersonal]
    address: Mapped[str] = mapped_column(info=personal("soft_bounces", KIND_COLUMN))
    bounces: Mapped[int]
    reset_by: Mapped[int | None] = mapped_column(BigId)


class ContactImport(Timestamps, Base):
    """The import of a file into a list. `rows_done` is written in the transaction of the rows that it counts, so that
    an interrupted import goes on exactly behind them (docs/csv.md#interrupted-imports)."""

    __tablename__ = "contact_imports"
    __table_args__ = (
        UniqueConstraint("list_id", "digest"),
        Index("ix_contact_imports_time", "last_modified_time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    list_id: Mapped[int] = mapped_column(BigId, ForeignKey("lists.id", ondelete="CASCADE"))
    digest: Mapped[Impersonal]
    """Keyed, of the contents of the file."""
    options: Mapped[Impersonal]
    """What else its rows depend on: how it was read."""
    rows_done: Mapped[BigInt]
    """Rows of the file, from its first, that are done."""
    created: Mapped[BigInt]
    updated: Mapped[BigInt]
    left_out: Mapped[BigInt] = mapped_column(server_default="0")
    """Forgotten people who had unsubscribed or were blocked."""
    end_time: Mapped[datetime | None]
