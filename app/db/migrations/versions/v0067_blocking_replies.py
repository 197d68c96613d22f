"""A blocked address keeps the reply by which it was blocked (docs/contacts.md#blocked-addresses).

The column is empty for those that are blocked already, so it takes no time, and the release before works with it: what
that blocks has no reply.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0067"
down_revision = "0066"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("blocked_addresses", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("reply", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision: the replies are lost."""
    with op.batch_alter_table("blocked_addresses", recreate="never") as batch_op:
        batch_op.drop_column("reply")
