"""Sends store whether secret links are tracked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("track_secrets", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.drop_column("track_secrets")
