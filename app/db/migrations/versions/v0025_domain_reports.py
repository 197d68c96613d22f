"""Reports that other mail servers send about sending domains."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "domain_reports",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("domain_id", BIG, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reporter", sa.String(), nullable=False),
        sa.Column("report_id", sa.String(), nullable=False),
        sa.Column("begin_time", MOMENT, nullable=False),
        sa.Column("end_time", MOMENT, nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("passed", BIG, nullable=False),
        sa.Column("failed", BIG, nullable=False),
        sa.Column("content", JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_domain_reports_account_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name="fk_domain_reports_domain_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_domain_reports"),
        sa.UniqueConstraint(
            "domain_id", "kind", "reporter", "report_id", name="uq_domain_reports_domain_id_kind_reporter_report_id"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_domain_reports_time", "domain_reports", ["time"])


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("domain_reports")
