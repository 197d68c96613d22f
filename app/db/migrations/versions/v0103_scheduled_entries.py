"""Indexes of the queue entries that wait for their `send_at` (docs/scheduling.md)."""

from __future__ import annotations

from app.db.online_index import create_index_online, drop_index_online

revision = "0103"
down_revision = "0102"
branch_labels = None
depends_on = None

phase = "expand"
online = True

IS_SCHEDULED = "state = 'scheduled'"


def upgrade() -> None:
    """To this revision."""
    columns = ["account_id", "due_time", "recipient_id"]
    create_index_online("ix_send_queue_scheduled", "send_queue", columns, where=IS_SCHEDULED)
    create_index_online("ix_send_queue_scheduled_time", "send_queue", ["due_time"], where=IS_SCHEDULED)


def downgrade() -> None:
    """Back to the previous revision."""
    drop_index_online("ix_send_queue_scheduled_time", "send_queue")
    drop_index_online("ix_send_queue_scheduled", "send_queue")
