"""Mails that are submitted by SMTP: sends without wildcards, and the list of a key (docs/smtp-submission.md)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0106"
down_revision = "0105"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    op.add_column("sends", sa.Column("literal", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("api_keys", sa.Column("list_id", BIG))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("api_keys", recreate="never") as batch_op:
        batch_op.drop_column("list_id")
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.drop_column("literal")
