"""Indexes for the collection of recipients: its pages, and each of its filters.

On PostgreSQL they are built for each range of the history, one after the other (docs/operations.md#migrations has the
time that it takes); recipients can be read meanwhile, and not be written.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

ORDER = ("creation_time", "id")
INDEXES = {
    "page": (ORDER, None),
    "by_email": ((sa.text("lower(email)"), *ORDER), "email IS NOT NULL"),
    "by_mobile": (("mobile", *ORDER), "mobile IS NOT NULL"),
    "by_contact": (("contact_id", *ORDER), "contact_id IS NOT NULL"),
    "by_list": (("list_id", *ORDER), "list_id IS NOT NULL"),
    "by_group": (("group_id", *ORDER), None),
    "by_message": (("message_id", *ORDER), "message_id IS NOT NULL"),
    "by_outcome": (("state", *ORDER), "state <> 'queued'"),
    "by_send_time": (("sent_time", "id"), "sent_time IS NOT NULL"),
}
"""Name -> columns after the account, and the rows."""


def upgrade() -> None:
    """To this revision."""
    for name, (columns, condition) in INDEXES.items():
        rows = None if condition is None else sa.text(condition)
        op.create_index(
            f"ix_recipients_{name}", "recipients", ["account_id", *columns], postgresql_where=rows, sqlite_where=rows
        )


def downgrade() -> None:
    """Back to the one before."""
    for name in reversed(INDEXES):
        op.drop_index(f"ix_recipients_{name}", table_name="recipients")
