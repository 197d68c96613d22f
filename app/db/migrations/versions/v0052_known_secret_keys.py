"""Which SECRET_KEYs a running process knows, so that none is used that one does not know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision. The column is empty for processes of the release before, which know no fallbacks."""
    with op.batch_alter_table("processes", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("secret_keys", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("processes", recreate="never") as batch_op:
        batch_op.drop_column("secret_keys")
