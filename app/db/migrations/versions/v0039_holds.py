"""What a restored backup would send again is held (docs/decisions/023-backups-of-rows.md).

The new columns are empty and the new index has no entry, so it takes no time, and the release before works with it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0034"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    held = sa.text("state = 'held'")
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("held_state", sa.String(), nullable=True))
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("held_to", BIG, nullable=True))
    op.create_index("ix_send_queue_held", "send_queue", ["recipient_id"], postgresql_where=held, sqlite_where=held)


def downgrade() -> None:
    """Back to the previous revision: held messages and runs stay where they are, and the release before sends none of
    them; it does send the events of held webhooks."""
    op.drop_index("ix_send_queue_held", table_name="send_queue")
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        batch_op.drop_column("held_to")
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.drop_column("held_state")
