"""What a recipient's message was rendered to is known, so that all that a send renders can be bounded."""

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
    """Back to the one before."""
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        batch_op.drop_column("rendered_bytes")
