"""An account may keep captured messages, the log of webhook deliveries and audit entries for a time of its own
(docs/operations.md#retention).

The columns are empty, so that the settings go on to apply.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0059"
branch_labels = None
depends_on = None

phase = "expand"

COLUMNS = ("retain_captured", "retain_logs", "retain_audit")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        for name in COLUMNS:
            batch_op.add_column(sa.Column(name, sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision: the settings apply to all accounts."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        for name in COLUMNS:
            batch_op.drop_column(name)
