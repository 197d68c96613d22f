"""When a send is to be sent, if it is not at once (docs/scheduling.md)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0102"
down_revision = "0101"
branch_labels = None
depends_on = None

phase = "expand"

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("send_at", MOMENT))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.drop_column("send_at")
