"""Sends are found by the addresses for replies and for blind copies, for forgetting people (docs/privacy.md), and audit
entries by what was done, by whom and by which request (docs/audit.md#reading).

Only sends that have an address there get an entry. The indexes are built beside the writers.
"""

from __future__ import annotations

import sqlalchemy as sa

from app.db.online_index import create_index_online, drop_index_online

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None

phase = "expand"
online = True

OF_SENDS = ("reply_to", "bcc_address")
OF_AUDIT = ("action", "actor", "request_id")


def upgrade() -> None:
    """To this revision."""
    for column in OF_SENDS:
        columns = "account_id", sa.text(f"lower({column})"), "id"
        create_index_online(f"ix_sends_{column}", "sends", columns, where=f"{column} IS NOT NULL")
    for column in OF_AUDIT:
        create_index_online(f"ix_audit_entries_{column}", "audit_entries", (column, "time", "id"))


def downgrade() -> None:
    """Back to the previous revision."""
    for column in OF_AUDIT:
        drop_index_online(f"ix_audit_entries_{column}", "audit_entries")
    for column in OF_SENDS:
        drop_index_online(f"ix_sends_{column}", "sends")
