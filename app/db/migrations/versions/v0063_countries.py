"""A step of a timeline that is an open or a click has its country (docs/tracking.md#device-and-country).

The column is empty, so that adding it writes no row: on PostgreSQL it is added to the ranges with the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0063"
down_revision = "0062"
branch_labels = None
depends_on = None

phase = "expand"


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("recipient_steps", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("country", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision: reports of groups have no countries."""
    with op.batch_alter_table("recipient_steps", recreate="never") as batch_op:
        batch_op.drop_column("country")
