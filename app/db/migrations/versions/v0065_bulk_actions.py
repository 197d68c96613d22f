"""Actions on all messages that match a query (docs/console.md#bulk-actions)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0065"
down_revision = "0064"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
TIME = sa.DateTime(timezone=True)
OPEN = sa.text("end_time IS NULL")


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "bulk_actions",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("action", "query", "asked_by", "state")),
        *(sa.Column(name, TIME, nullable=False) for name in ("creation_time", "due_time")),
        sa.Column("end_time", TIME, nullable=True),
        sa.Column("messages", BIG, nullable=False),
        sa.Column("newest_time", TIME, nullable=False),
        sa.Column("newest_id", BIG, nullable=False),
        sa.Column("last_time", TIME, nullable=True),
        sa.Column("last_id", BIG, nullable=True),
        sa.Column("done", BIG, nullable=False),
        sa.Column("left_out", JSON, nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_bulk_actions_account_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_bulk_actions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_bulk_actions_page", "bulk_actions", ["account_id", "creation_time", "id"])
    for name, columns in (("due", ["due_time", "id"]), ("open", ["account_id"])):
        op.create_index(f"ix_bulk_actions_{name}", "bulk_actions", columns, postgresql_where=OPEN, sqlite_where=OPEN)
    op.create_index("ix_bulk_actions_end_time", "bulk_actions", ["end_time"])


def downgrade() -> None:
    """Back to the previous revision: what waits is not done."""
    op.drop_table("bulk_actions")
