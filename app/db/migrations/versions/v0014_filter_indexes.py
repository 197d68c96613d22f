"""Indexes for filters of contacts and sent contacts that few rows match."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

PAGE = ("list_id", "creation_time", "id")
SENT = "message_id IS NOT NULL AND sent_time IS NOT NULL"
SENT_ORDER = ("sent_time", "contact_id", "id")
CONTACTS = {
    "modified": (("list_id", "last_modified_time", "id"), "last_modified_time <> creation_time", None),
    "unsubscribed": (
        PAGE,
        "NOT subscribed_email OR NOT subscribed_mobile",
        "subscribed_email = 0 OR subscribed_mobile = 0",
    ),
    "unsubscribed_email": (PAGE, "NOT subscribed_email", "subscribed_email = 0"),
    "unsubscribed_mobile": (PAGE, "NOT subscribed_mobile", "subscribed_mobile = 0"),
    "inactive": (PAGE, "NOT is_active", "is_active = 0"),
    "double_opt_in": (PAGE, "double_opt_in", "double_opt_in = 1"),
    "double_opt_in_time": (("list_id", "double_opt_in_time", "id"), "double_opt_in_time IS NOT NULL", None),
}
RECIPIENTS = {
    "sent_by_contact": (("message_id", "contact_id", "sent_time", "id"), SENT, None),
    "sent_by_list": (("message_id", "list_id", *SENT_ORDER), SENT, None),
    "sent_by_group": (("message_id", "group_id", *SENT_ORDER), SENT, None),
    "sent_by_open_type": (("message_id", "open_type", *SENT_ORDER), SENT, None),
    "sent_by_opening": (("message_id", "first_open_time", "id"), f"{SENT} AND first_open_time IS NOT NULL", None),
}
"""Name -> columns and condition, and the condition for SQLite if it is written differently there."""


def upgrade() -> None:
    """To this revision."""
    for table, indexes in (("contacts", CONTACTS), ("recipients", RECIPIENTS)):
        for name, (columns, condition, on_sqlite) in indexes.items():
            op.create_index(
                f"ix_{table}_{name}",
                table,
                list(columns),
                postgresql_where=sa.text(condition),
                sqlite_where=sa.text(on_sqlite or condition),
            )
    op.create_index("ix_unsubscribers_address", "unsubscribers", ["account_id", "kind", "address"])


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_index("ix_unsubscribers_address", table_name="unsubscribers")
    for table, indexes in (("recipients", RECIPIENTS), ("contacts", CONTACTS)):
        for name in reversed(indexes):
            op.drop_index(f"ix_{table}_{name}", table_name=table)
