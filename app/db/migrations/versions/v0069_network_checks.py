"""What waits for name servers is checked by a worker (docs/console.md#checks), and forgetting leaves cleaning the files
of the database to the maintenance (docs/privacy.md#remains-in-files).

The new column is empty, so that adding it writes no row. The release before works with it: its processes check what
they are asked for themselves, and refuse private addresses at each connection.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0069"
down_revision = "0068"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    time = sa.DateTime(timezone=True)
    op.create_table(
        "network_checks",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("object_id", BIG, nullable=False),
        sa.Column("asked_by", sa.String(), nullable=False),
        sa.Column("creation_time", time, nullable=False),
        sa.Column("lease_time", time, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_network_checks_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_checks")),
        sa.UniqueConstraint(
            "account_id", "kind", "object_id", name=op.f("uq_network_checks_account_id_kind_object_id")
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "remains",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("since_time", time, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_remains")),
    )
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("barred", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision. Webhooks that were refused are deleted: the release before would try them."""
    op.execute("DELETE FROM webhooks WHERE barred IS NOT NULL")
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        batch_op.drop_column("barred")
    op.drop_table("remains")
    op.drop_table("network_checks")
