"""Domains may have a tracking host and a return-path host of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

HOSTS = ("tracking_host", "return_path_host")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("domains", recreate="never") as batch_op:
        for name in HOSTS:
            batch_op.add_column(sa.Column(name, sa.String(), nullable=True))
            batch_op.add_column(sa.Column(f"{name}_ready", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("domains", recreate="never") as batch_op:
        for name in HOSTS:
            batch_op.drop_column(f"{name}_ready")
            batch_op.drop_column(name)
