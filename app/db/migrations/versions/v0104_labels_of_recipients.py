"""Tags and metadata of recipients, the labels by which they are found, counts of tags (docs/tags.md), and header fields
of mails (docs/mail-headers.md)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0104"
down_revision = "0103"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
COLUMNS = ("tags", "custom_metadata")


def upgrade() -> None:
    """To this revision."""
    for name in COLUMNS:
        op.add_column("recipients", sa.Column(name, JSON))
    op.add_column("sends", sa.Column("headers", JSON))
    op.create_table(
        "recipient_labels",
        sa.Column("recipient_id", BIG, nullable=False, autoincrement=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("creation_time", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("recipient_id", "label", name=op.f("pk_recipient_labels")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_recipient_labels_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["recipient_id"], ["recipients.id"], name=op.f("fk_recipient_labels_recipient_id"), ondelete="CASCADE"
        ).ddl_if(dialect="sqlite"),
    )
    counters = ("sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed")
    op.create_table(
        "tag_counts",
        sa.Column("account_id", BIG, nullable=False, autoincrement=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False, autoincrement=False),
        *(sa.Column(name, BIG, nullable=False) for name in counters),
        sa.PrimaryKeyConstraint("account_id", "tag", "hour", "slot", name=op.f("pk_tag_counts")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_tag_counts_account_id"), ondelete="CASCADE"
        ),
    )
    op.create_index("ix_tag_counts_hour", "tag_counts", ["hour"])
    columns = ["account_id", "label", "creation_time", "recipient_id"]
    op.create_index("ix_recipient_labels_page", "recipient_labels", columns)


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("tag_counts")
    op.drop_table("recipient_labels")
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.drop_column("headers")
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        for name in COLUMNS:
            batch_op.drop_column(name)
