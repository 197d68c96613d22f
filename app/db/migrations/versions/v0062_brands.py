"""An account may have a name and a colour for the pages that recipients see (docs/inbound.md#pages-for-recipients).

The columns are empty, so that the pages stay as they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0061"
branch_labels = None
depends_on = None

phase = "expand"

COLUMNS = ("brand_name", "brand_colour")


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        for name in COLUMNS:
            batch_op.add_column(sa.Column(name, sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision: the pages have no colour."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        for name in COLUMNS:
            batch_op.drop_column(name)
