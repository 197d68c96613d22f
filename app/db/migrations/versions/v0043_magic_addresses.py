"""What magic addresses have still to simulate of captured messages, found by a partial index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

phase = "expand"

TABLE = "captured_messages"


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table(TABLE, recreate="never") as batch_op:
        batch_op.add_column(sa.Column("simulates", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("simulate_time", sa.DateTime(timezone=True), nullable=True))
    waiting = sa.text("simulate_time IS NOT NULL")
    op.create_index(
        "ix_captured_messages_simulate", TABLE, ["simulate_time"], postgresql_where=waiting, sqlite_where=waiting
    )


def downgrade() -> None:
    """Back to the previous revision: what is still to be simulated does not happen."""
    op.drop_index("ix_captured_messages_simulate", table_name=TABLE)
    with op.batch_alter_table(TABLE, recreate="never") as batch_op:
        batch_op.drop_column("simulate_time")
        batch_op.drop_column("simulates")
