"""One-time tokens of relays whose events are about no mail of this service (docs/relay-hooks.md#mailgun)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("hook_tokens") as batch_op:
        batch_op.alter_column("account_id", existing_type=BIG, nullable=True)


def downgrade() -> None:
    """Back to the previous revision."""
    op.execute("DELETE FROM hook_tokens WHERE account_id IS NULL")
    with op.batch_alter_table("hook_tokens") as batch_op:
        batch_op.alter_column("account_id", existing_type=BIG, nullable=False)
