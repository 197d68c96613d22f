"""The operator's note on a timeline step is separate from the detail that tenants read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("recipient_steps", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("note", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("recipient_steps", recreate="never") as batch_op:
        batch_op.drop_column("note")
