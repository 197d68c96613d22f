"""Sends are found by the addresses for replies and for blind copies, for forgetting people (docs/privacy.md).

Only sends that have one get an entry. The indexes are built beside the writers.
"""

from __future__ import annotations

import sqlalchemy as sa

from app.db.online_index import create_index_online, drop_index_online

revision = "0055"
down_revision = "0053"
branch_labels = None
depends_on = None

phase = "expand"
online = True

COLUMNS = {"ix_sends_reply_to": "reply_to", "ix_sends_bcc_address": "bcc_address"}


def upgrade() -> None:
    """To this revision."""
    for name, column in COLUMNS.items():
        columns = "account_id", sa.text(f"lower({column})"), "id"
        create_index_online(name, "sends", columns, where=f"{column} IS NOT NULL")


def downgrade() -> None:
    """Back to the previous revision."""
    for name in COLUMNS:
        drop_index_online(name, "sends")
