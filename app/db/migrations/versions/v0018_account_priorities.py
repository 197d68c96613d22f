"""Accounts have a priority for each type of message, which applies to sends without one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

COLUMNS = ("email_priority", "sms_priority")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        for name in COLUMNS:
            batch_op.add_column(sa.Column(name, sa.String(), server_default="normal", nullable=False))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        for name in COLUMNS:
            batch_op.drop_column(name)
