"""Processes with their heartbeats, and the type of a message in its queue entry, by which the queue is counted.

The column is null in entries that are there, or that the release before writes: their type is that of the recipient.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "processes",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("roles", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("start_time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_time", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_processes"),
    )
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("type", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.drop_column("type")
    op.drop_table("processes")
