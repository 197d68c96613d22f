"""The claim of an idempotency key names the request that holds it, and ends with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("idempotency_records", schema=None) as batch_op:
        batch_op.add_column(sa.Column("holder", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("lease_time", MOMENT, nullable=True))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("idempotency_records", schema=None) as batch_op:
        batch_op.drop_column("lease_time")
        batch_op.drop_column("holder")
