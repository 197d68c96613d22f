"""A domain back-off belongs to an account, a sender's domain and a recipient's domain. Existing ones, at most an hour
long, are dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    op.drop_table("destination_pauses")
    _create(
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("sender_domain", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_destination_pauses_account_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint(
            "account_id", "sender_domain", "domain", name="uq_destination_pauses_account_id_sender_domain_domain"
        ),
    )
    op.create_index("ix_destination_pauses_until_time", "destination_pauses", ["until_time"])


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("destination_pauses")
    _create(sa.UniqueConstraint("domain", name="uq_destination_pauses_domain"))


def _create(*key: sa.schema.SchemaItem) -> None:
    op.create_table(
        "destination_pauses",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("domain", sa.String(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("until_time", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_destination_pauses"),
        *key,
        sqlite_autoincrement=True,
    )
