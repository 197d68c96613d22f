"""Tables and columns are named as in the glossary: domain back-offs, soft bounces, recorded parts of replies.

Two small tables are copied, so that their keys, indexes and sequences have the new names on both databases alike.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
BACKOFF_COLUMNS = "id, account_id, sender_domain, domain, failures, until_time"
KEY = "id, account_id, kind, address"


def upgrade() -> None:
    """To this revision."""
    _stop_writers("reply_parts", "destination_pauses", "address_troubles")
    op.execute("ALTER TABLE reply_parts RENAME COLUMN told TO recorded")
    _create_backoffs("domain_backoffs")
    _move(BACKOFF_COLUMNS, "destination_pauses", BACKOFF_COLUMNS, "domain_backoffs")
    _create_bounces("soft_bounces", "bounces", "reset_by")
    _move(f"{KEY}, temporary_bounces, forgotten_by", "address_troubles", f"{KEY}, bounces, reset_by", "soft_bounces")


def downgrade() -> None:
    """Back to the previous revision."""
    _stop_writers("reply_parts", "domain_backoffs", "soft_bounces")
    op.execute("ALTER TABLE reply_parts RENAME COLUMN recorded TO told")
    _create_backoffs("destination_pauses")
    _move(BACKOFF_COLUMNS, "domain_backoffs", BACKOFF_COLUMNS, "destination_pauses")
    _create_bounces("address_troubles", "temporary_bounces", "forgotten_by")
    _move(f"{KEY}, bounces, reset_by", "soft_bounces", f"{KEY}, temporary_bounces, forgotten_by", "address_troubles")


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _stop_writers(*tables: str) -> None:
    """An older process that still runs waits and then fails; it must not write to what has been copied."""
    if _is_postgresql():
        op.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")


def _create_backoffs(name: str) -> None:
    op.create_table(
        name,
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("sender_domain", sa.String(), nullable=False),
        sa.Column("domain", sa.String(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("until_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{name}_account_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        sa.UniqueConstraint("account_id", "sender_domain", "domain", name=f"uq_{name}_account_id_sender_domain_domain"),
        sqlite_autoincrement=True,
    )
    op.create_index(f"ix_{name}_until_time", name, ["until_time"])


def _create_bounces(name: str, count: str, reset_by: str) -> None:
    op.create_table(
        name,
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column(count, sa.Integer(), nullable=False),
        sa.Column(reset_by, BIG, nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{name}_account_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        sa.UniqueConstraint("account_id", "kind", "address", name=f"uq_{name}_account_id_kind_address"),
        sqlite_autoincrement=True,
    )


def _move(columns: str, old: str, new_columns: str, new: str) -> None:
    """Copies the rows with their ids, and drops the old table."""
    op.execute(f"INSERT INTO {new} ({new_columns}) SELECT {columns} FROM {old}")  # noqa: S608 - constants
    if _is_postgresql():
        op.execute(f"SELECT setval('{new}_id_seq', greatest(max(id), 1), max(id) IS NOT NULL) FROM {new}")  # noqa: S608 - constants
    op.drop_table(old)
