"""Visits of a message beyond those recorded as steps are counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("further_visits", sa.Integer(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        batch_op.drop_column("further_visits")
