"""A webhook stores the events of its batch, instead of a batch id in each event."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

GATHER = """
UPDATE webhooks SET
    batch_events = (SELECT {array}(id) FROM events WHERE events.batch_id = webhooks.batch_id),
    first_failed_time = (SELECT min(events.first_failed_time) FROM events WHERE events.batch_id = webhooks.batch_id)
WHERE EXISTS (SELECT 1 FROM events WHERE events.batch_id = webhooks.batch_id)
"""
STAMP = """
UPDATE events SET batch_id = webhooks.batch_id, first_failed_time = webhooks.first_failed_time
FROM webhooks
WHERE webhooks.id = events.webhook_id AND events.id IN ({ids})
"""


def upgrade() -> None:
    """To this revision. Batches in flight keep their id and their events."""
    with op.batch_alter_table("webhooks", schema=None) as batch_op:
        batch_op.add_column(sa.Column("batch_events", JSON, nullable=True))
        batch_op.add_column(sa.Column("first_failed_time", MOMENT, nullable=True))
    op.execute(GATHER.format(array="jsonb_agg" if _is_postgresql() else "json_group_array"))
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index("ix_events_batch")
        batch_op.drop_column("first_failed_time")
        batch_op.drop_column("batch_id")


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.add_column(sa.Column("batch_id", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("first_failed_time", MOMENT, nullable=True))
        batch_op.create_index(
            "ix_events_batch",
            ["batch_id"],
            unique=False,
            postgresql_where=sa.text("batch_id IS NOT NULL"),
            sqlite_where=sa.text("batch_id IS NOT NULL"),
        )
    of_postgresql = "SELECT CAST(jsonb_array_elements_text(webhooks.batch_events) AS bigint)"
    of_sqlite = "SELECT value FROM json_each(webhooks.batch_events)"
    op.execute(STAMP.format(ids=of_postgresql if _is_postgresql() else of_sqlite))
    with op.batch_alter_table("webhooks", schema=None) as batch_op:
        batch_op.drop_column("first_failed_time")
        batch_op.drop_column("batch_events")


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"
