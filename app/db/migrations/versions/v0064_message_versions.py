"""What stored messages said before, a row for each version (docs/contacts.md#versions).

There are no rows at first: what a message says by then becomes a version at its first change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0064"
down_revision = "0063"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql")
TABLE = "message_versions"
UNKNOWN = ("actor_kind", "actor", "via")
CONTENT = ("subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_html", "body_text")


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        TABLE,
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("message_id", BIG, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, sa.String(), nullable=True) for name in UNKNOWN),
        sa.Column("changed", JSON, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=True) for name in CONTENT),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{TABLE}_account_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=f"fk_{TABLE}_message_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{TABLE}"),
        sa.UniqueConstraint("message_id", "number", name=f"uq_{TABLE}_message_id_number"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    """Back to the previous revision: stored messages have no history."""
    op.drop_table(TABLE)
