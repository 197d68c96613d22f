"""An import counts the forgotten people that it leaves out, also over its interruptions
(docs/cli.md#interrupted-imports).

Imports that were interrupted before have counted none, and neither does the release before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0074"
down_revision = "0073"
branch_labels = None
depends_on = None

phase = "expand"

TABLE = "contact_imports"
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table(TABLE, recreate="never") as batch_op:
        batch_op.add_column(sa.Column("left_out", BIG, nullable=False, server_default="0"))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table(TABLE, recreate="never") as batch_op:
        batch_op.drop_column("left_out")
