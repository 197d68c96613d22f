"""An account has a time zone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("time_zone", sa.String(), server_default="UTC", nullable=False))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.drop_column("time_zone")
