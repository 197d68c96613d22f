"""Accounts may get events of opens and clicks by machines, too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("machine_events", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.drop_column("machine_events")
