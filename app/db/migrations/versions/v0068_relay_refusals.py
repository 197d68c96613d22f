"""What relays refuse of an account, whoever the recipient is (docs/delivery.md#a-relay-that-refuses-everything).

The table is empty at first. The release before works with it: it neither writes to it nor waits for it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0068"
down_revision = "0067"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "relay_refusals",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("transport", sa.String(), nullable=False),
        sa.Column("domains", JSON, nullable=False),
        sa.Column("reply", sa.String(), nullable=False),
        sa.Column("first_time", MOMENT, nullable=False),
        sa.Column("last_time", MOMENT, nullable=False),
        sa.Column("noticed_time", MOMENT, nullable=True),
        sa.Column("until_time", MOMENT, nullable=True),
        sa.Column("bounced", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("probe_id", BIG, nullable=True),
        sa.Column("ended_time", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_relay_refusals_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_relay_refusals")),
        sqlite_autoincrement=True,
    )
    is_open = sa.text("ended_time IS NULL")
    op.create_index(
        "ix_relay_refusals_open",
        "relay_refusals",
        ["account_id", "transport"],
        unique=True,
        postgresql_where=is_open,
        sqlite_where=is_open,
    )
    op.create_index("ix_relay_refusals_last_time", "relay_refusals", ["last_time"])


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("relay_refusals")
