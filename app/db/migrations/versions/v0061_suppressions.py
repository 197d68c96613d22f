"""Unsubscribed and blocked addresses of an account are read in the order of their times, for the pages of the console
(docs/console.md#suppressions). The indexes are built beside the writers.
"""

from __future__ import annotations

from app.db.online_index import create_index_online, drop_index_online

revision = "0061"
down_revision = "0060"
branch_labels = None
depends_on = None

phase = "expand"
online = True

TABLES = ("unsubscribers", "blocked_addresses")


def upgrade() -> None:
    """To this revision."""
    for table in TABLES:
        create_index_online(f"ix_{table}_page", table, ("account_id", "creation_time", "id"))


def downgrade() -> None:
    """Back to the previous revision."""
    for table in TABLES:
        drop_index_online(f"ix_{table}_page", table)
