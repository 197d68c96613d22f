"""The contacts of a list are counted in slots, so that their number is known without reading them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "contact_counts",
        sa.Column("list_id", BIG, nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("contacts", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_contact_counts_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("list_id", "slot", name=op.f("pk_contact_counts")),
    )
    op.execute(
        "INSERT INTO contact_counts (list_id, slot, account_id, contacts) "
        "SELECT list_id, 0, account_id, count(*) FROM contacts GROUP BY list_id, account_id"
    )


def downgrade() -> None:
    """Back to the previous revision, which counts the contacts themselves."""
    op.drop_table("contact_counts")
