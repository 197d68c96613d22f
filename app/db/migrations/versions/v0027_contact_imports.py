"""How far imports of contacts have come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

TABLE = "contact_imports"
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        TABLE,
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("list_id", BIG, nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("options", sa.String(), nullable=False),
        sa.Column("rows_done", BIG, nullable=False),
        sa.Column("created", BIG, nullable=False),
        sa.Column("updated", BIG, nullable=False),
        sa.Column("end_time", MOMENT, nullable=True),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_modified_time", MOMENT, nullable=False),
        *(
            sa.ForeignKeyConstraint([column], [f"{other}.id"], name=op.f(f"fk_{TABLE}_{column}"), ondelete="CASCADE")
            for column, other in (("account_id", "accounts"), ("list_id", "lists"))
        ),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{TABLE}")),
        sa.UniqueConstraint("list_id", "digest", name=op.f(f"uq_{TABLE}_list_id_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_contact_imports_time", TABLE, ["last_modified_time"], unique=False)


def downgrade() -> None:
    """Back to the one before: interrupted imports begin again."""
    op.drop_table(TABLE)
