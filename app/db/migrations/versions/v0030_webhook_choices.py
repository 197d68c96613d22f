"""Webhooks choose events and lists and know for how long they have failed, and the log of deliveries says which events
each had and what the receiver answered."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
MOMENT = sa.DateTime(timezone=True)
OF_WEBHOOKS: dict[str, Any] = {
    **{"chosen_events": JSON, "chosen_lists": JSON},
    **{"failing_since": MOMENT, "outage_reported_time": MOMENT},
}
OF_ATTEMPTS: dict[str, Any] = {"after_event": BIG, "last_event": BIG, "answer": sa.String()}


def upgrade() -> None:
    """To this revision. All columns are nullable: processes of the release before go on."""
    for table, columns in (("webhooks", OF_WEBHOOKS), ("webhook_attempts", OF_ATTEMPTS)):
        with op.batch_alter_table(table, recreate="never") as batch_op:
            for name, type_ in columns.items():
                batch_op.add_column(sa.Column(name, type_, nullable=True))


def downgrade() -> None:
    """Back to the one before: every webhook receives everything again."""
    for table, columns in (("webhook_attempts", OF_ATTEMPTS), ("webhooks", OF_WEBHOOKS)):
        with op.batch_alter_table(table, recreate="never") as batch_op:
            for name in columns:
                batch_op.drop_column(name)
