"""Content and recipients are purged after their retention (docs/decisions/025-purging-by-sends.md).

The new columns are empty and the new tables have no rows, so it takes no time, and the release before works with it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("retain_content", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("retain_recipients", sa.String(), nullable=True))
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("content_purged_time", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "purge_positions",
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("send_id", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_purge_positions_account_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", "stage", name="pk_purge_positions"),
    )
    op.create_table(
        "delayed_purges",
        sa.Column("send_id", BIG, nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_delayed_purges_account_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["send_id"], ["sends.id"], name="fk_delayed_purges_send_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("send_id", "stage", name="pk_delayed_purges"),
    )
    op.create_index("ix_delayed_purges_since", "delayed_purges", ["account_id", "stage", "since"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE sends SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000)")


def downgrade() -> None:
    """Back to the previous revision: what was purged stays so, and is not shown as purged any more."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE sends RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold)")
    op.drop_table("delayed_purges")
    op.drop_table("purge_positions")
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.drop_column("content_purged_time")
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.drop_column("retain_recipients")
        batch_op.drop_column("retain_content")
