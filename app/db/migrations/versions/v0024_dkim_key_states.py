"""DKIM keys are pending until their records are published, and retired once others have taken their place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("dkim_keys", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("state", sa.String(), server_default="active", nullable=False))
        batch_op.add_column(sa.Column("retired_time", MOMENT, nullable=True))


def downgrade() -> None:
    """Back to the previous revision, in which every key signs: those that are not active are deleted."""
    op.execute("DELETE FROM dkim_keys WHERE state != 'active'")
    with op.batch_alter_table("dkim_keys", recreate="never") as batch_op:
        batch_op.drop_column("retired_time")
        batch_op.drop_column("state")
