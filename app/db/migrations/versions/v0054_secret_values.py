"""Entries of the send queue hold secret values of their recipients (docs/decisions/026-secret-values-in-the-queue.md).

The column is empty in all rows, so it takes no time, and the release before works with it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("secret_values", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision. Messages with secret values that have not left are held: they would be sent
    without them."""
    op.execute(
        "UPDATE send_queue SET held_state = state, state = 'held', worker = NULL, lease_time = NULL"
        " WHERE secret_values IS NOT NULL AND state <> 'held'"
    )
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.drop_column("secret_values")
