"""The database says which code works with it, so that a release of before knows whether it may start on it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision. app/db/migrate.py writes the row, after each migration."""
    op.create_table(
        "schema_state",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("oldest_code", sa.String(), nullable=False),
        sa.Column("code_in_use", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schema_state"),
    )


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("schema_state")
