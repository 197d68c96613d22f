"""Sessions of the console, and the links that begin them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0058"
down_revision = "0054"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "console_links",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("account_id", BIG, nullable=True),
        sa.Column("made_by", sa.String(), nullable=False),
        sa.Column("end_time", sa.DateTime(timezone=True), nullable=False),
        *_keys("console_links"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "console_sessions",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("account_id", BIG, nullable=True),
        sa.Column("key_id", BIG, nullable=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("creation_time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("end_time", sa.DateTime(timezone=True), nullable=False),
        *_keys("console_sessions"),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name="fk_console_sessions_key_id", ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    for table in ("console_links", "console_sessions"):
        op.create_index(f"ix_{table}_end_time", table, ["end_time"])
    op.create_index("ix_console_sessions_key_id", "console_sessions", ["key_id"])


def _keys(table: str) -> tuple[sa.Constraint, ...]:
    return (
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{table}_account_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("token_hash", name=f"uq_{table}_token_hash"),
    )


def downgrade() -> None:
    """Back to the previous revision. Everybody has to sign in again."""
    op.drop_table("console_sessions")
    op.drop_table("console_links")
