"""Suppressions of forgotten addresses are kept under digests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "digest_key",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_digest_key"),
    )
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("has_digests", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Back to the previous revision. Digests stay among the addresses, where they match nothing."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.drop_column("has_digests")
    op.drop_table("digest_key")
