"""The fingerprint of the SECRET_KEY of the installation (docs/secrets.md#one-key-for-all-hosts)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0110"
down_revision = "0109"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision. The next process that starts writes the row."""
    op.create_table(
        "installation_key",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation_key")),
    )


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("installation_key")
