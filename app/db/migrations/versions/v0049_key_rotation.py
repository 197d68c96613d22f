"""When an API key was last used, and a former secret of a key: the name that it had, and until when it works."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0045"
branch_labels = None
depends_on = None

phase = "expand"

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("api_keys", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("last_used_time", MOMENT, nullable=True))
        batch_op.add_column(sa.Column("former_name", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("valid_until", MOMENT, nullable=True))


def downgrade() -> None:
    """Back to the previous revision, which knows no end of a key: former secrets are revoked."""
    op.execute("UPDATE api_keys SET revoked_time = valid_until WHERE revoked_time IS NULL AND valid_until IS NOT NULL")
    with op.batch_alter_table("api_keys", recreate="never") as batch_op:
        batch_op.drop_column("valid_until")
        batch_op.drop_column("former_name")
        batch_op.drop_column("last_used_time")
