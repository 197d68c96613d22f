"""The message that caused a suppression, and indexes for the filters of suppressions
(docs/contacts.md#blocked-addresses)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.db.online_index import add_column_online, create_index_online, drop_index_online

revision = "0105"
down_revision = "0104"
branch_labels = None
depends_on = None

phase = "expand"
online = True

PAGE_INDEXES = {"unsubscribers": "list_id", "blocked_addresses": "reason"}
"""Table -> the column by which pages are looked up."""


def upgrade() -> None:
    """To this revision."""
    for table, column in PAGE_INDEXES.items():
        add_column_online(table, sa.Column("uuid", sa.String()))
        create_index_online(f"ix_{table}_uuid", table, ["account_id", "uuid"], where="uuid IS NOT NULL")
        create_index_online(f"ix_{table}_{column}", table, ["account_id", column, "creation_time", "id"])


def downgrade() -> None:
    """Back to the previous revision."""
    for table, column in PAGE_INDEXES.items():
        drop_index_online(f"ix_{table}_{column}", table)
        drop_index_online(f"ix_{table}_uuid", table)
        with op.batch_alter_table(table, recreate="never") as batch_op:
            batch_op.drop_column("uuid")
