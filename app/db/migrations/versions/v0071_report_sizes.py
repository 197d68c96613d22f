"""What the reports about a domain hold is limited by day and by reporter (docs/inbound.md#reports-about-a-domain).

The size of a report that was stored before counts as nothing, and the release before stores none: both are forgotten a
day later. The index is built beside the writers.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.db.online_index import create_index_online, drop_index_online

revision = "0071"
down_revision = "0070"
branch_labels = None
depends_on = None

phase = "expand"
online = True

TABLE, INDEX = "domain_reports", "ix_domain_reports_domain_id_time"


def upgrade() -> None:
    """To this revision. It may be repeated after an interruption."""
    if not _has_size():
        with op.batch_alter_table(TABLE, recreate="never") as batch_op:
            batch_op.add_column(sa.Column("size", sa.Integer(), nullable=False, server_default="0"))
    create_index_online(INDEX, TABLE, ("domain_id", "time"))


def downgrade() -> None:
    """Back to the previous revision."""
    drop_index_online(INDEX, TABLE)
    if _has_size():
        with op.batch_alter_table(TABLE, recreate="never") as batch_op:
            batch_op.drop_column("size")


def _has_size() -> bool:
    return any(column["name"] == "size" for column in sa.inspect(op.get_bind()).get_columns(TABLE))
