"""One-time tokens of relays that do not sign the whole request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "hook_tokens",
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_hook_tokens_account_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token", name="pk_hook_tokens"),
    )
    op.create_index("ix_hook_tokens_time", "hook_tokens", ["time"])


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("hook_tokens")
