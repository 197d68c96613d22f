"""The rendered size of each recipient's message is stored, so that the total of a send can be limited."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("rendered_bytes", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        batch_op.drop_column("rendered_bytes")
