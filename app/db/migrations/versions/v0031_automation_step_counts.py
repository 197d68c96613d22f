"""Counters of the steps that runs of automations have passed, in place of an index by which they were counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COUNTS, STEPS, INDEX = "automation_step_counts", "automation_passed_steps", "ix_automation_passed_steps_step"


def upgrade() -> None:
    """To this revision: what is stored is counted once."""
    op.create_table(
        COUNTS,
        sa.Column("step_id", BIG, autoincrement=False, nullable=False),
        sa.Column("result", sa.String(), nullable=False),
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("passed", BIG, nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{COUNTS}_account_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("step_id", "result", "slot", name=f"pk_{COUNTS}"),
    )
    op.execute(
        f"INSERT INTO {COUNTS} (step_id, result, slot, account_id, passed) "  # noqa: S608 - names from above
        f"SELECT step_id, result, 0, account_id, count(*) FROM {STEPS} GROUP BY step_id, result, account_id"
    )
    op.drop_index(INDEX, STEPS)


def downgrade() -> None:
    """Back to the previous revision."""
    op.create_index(INDEX, STEPS, ["step_id", "result"])
    op.drop_table(COUNTS)
