"""Parts of long replies are stored until all have arrived."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "reply_parts",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("number", sa.String(), nullable=False),
        sa.Column("mobile", sa.String(), nullable=False),
        sa.Column("reference", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("coding", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("told", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_reply_parts_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reply_parts")),
        sa.UniqueConstraint(
            "account_id",
            "number",
            "mobile",
            "reference",
            "total",
            "position",
            name="uq_reply_parts_position",
        ),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("reply_parts", schema=None) as batch_op:
        batch_op.create_index("ix_reply_parts_time", ["time"], unique=False)


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("reply_parts", schema=None) as batch_op:
        batch_op.drop_index("ix_reply_parts_time")

    op.drop_table("reply_parts")
