"""How far the clock of each process is from that of the database (docs/crash-safety.md#clocks)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0109"
down_revision = "0108"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision."""
    op.add_column("processes", sa.Column("clock_difference", sa.Double()))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("processes", recreate="never") as batch_op:
        batch_op.drop_column("clock_difference")
