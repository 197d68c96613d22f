"""Entries of the send queue store since when they are ready, so that a look for them does not read claimed ones.

Each entry of the queue is written once; the new index has the size of the queue.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        default = sa.text("'2000-01-01 00:00:00'")
        batch_op.add_column(sa.Column("ready_time", MOMENT, server_default=default, nullable=False))
    op.execute("UPDATE send_queue SET ready_time = due_time")
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("send_queue", "ready_time", server_default=None)
    where = sa.text("state = 'queued' AND attempts >= 0")
    op.create_index(
        "ix_send_queue_ready",
        "send_queue",
        ["ready_time"],
        unique=False,
        postgresql_where=where,
        sqlite_where=where,
    )


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_index("ix_send_queue_ready", "send_queue")
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.drop_column("ready_time")
