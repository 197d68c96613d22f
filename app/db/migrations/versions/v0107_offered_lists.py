"""Lists that recipients can choose among on their preferences page (docs/preferences.md)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0107"
down_revision = "0106"
branch_labels = None
depends_on = None

phase = "expand"

TEXTS = ("offered_name", "offered_description")
OFFERED = sa.text("offered")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("lists", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("offered", sa.Boolean(), nullable=False, server_default=sa.false()))
        for name in TEXTS:
            batch_op.add_column(sa.Column(name, sa.String()))
    columns = ["account_id", "creation_time", "id"]
    op.create_index("ix_lists_offered", "lists", columns, postgresql_where=OFFERED, sqlite_where=OFFERED)


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_index("ix_lists_offered", table_name="lists")
    with op.batch_alter_table("lists", recreate="never") as batch_op:
        for name in (*TEXTS, "offered"):
            batch_op.drop_column(name)
