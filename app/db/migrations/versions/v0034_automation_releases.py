"""The automations whose held runs are to be let go are found without reading all automations, twice a second."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    released = sa.text("release IS NOT NULL")
    op.create_index("ix_automations_release", "automations", ["id"], postgresql_where=released, sqlite_where=released)


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_index("ix_automations_release", table_name="automations")
