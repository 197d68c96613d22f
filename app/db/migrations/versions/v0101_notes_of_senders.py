"""A note on a sender of text messages (docs/sms.md#senders)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("sms_senders", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("note", sa.String()))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("sms_senders", recreate="never") as batch_op:
        batch_op.drop_column("note")
