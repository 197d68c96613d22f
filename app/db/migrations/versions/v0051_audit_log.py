"""The audit log, whose entries no statement can change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

REFUSED = "audit entries are never changed"
ON_POSTGRESQL = (
    "CREATE FUNCTION refuse_change_of_audit_entry() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{REFUSED}'; END $$",
    "CREATE TRIGGER audit_entries_unchanged BEFORE UPDATE ON audit_entries "
    "FOR EACH ROW EXECUTE FUNCTION refuse_change_of_audit_entry()",
)
ON_SQLITE = (
    "CREATE TRIGGER audit_entries_unchanged BEFORE UPDATE ON audit_entries "
    f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "audit_entries",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("account_id", BIG, nullable=True),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("object", sa.String(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=True) for name in ("object_id", "object_name", "address_digest")),
        sa.Column("actor_kind", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("key_id", BIG, nullable=True),
        *(sa.Column(name, sa.String(), nullable=True) for name in ("source", "via", "request_id")),
        sa.Column("changes", JSON, nullable=False),
        sa.Column("counts", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entries"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_entries_page", "audit_entries", ["time", "id"])
    op.create_index("ix_audit_entries_account", "audit_entries", ["account_id", "time", "id"])
    op.create_index("ix_audit_entries_object", "audit_entries", ["object", "object_id", "time", "id"])
    hashed = sa.text("address_digest IS NOT NULL")
    columns = ["address_digest", "time", "id"]
    op.create_index("ix_audit_entries_address", "audit_entries", columns, postgresql_where=hashed, sqlite_where=hashed)
    for statement in ON_POSTGRESQL if _on_postgresql() else ON_SQLITE:
        op.execute(statement)


def downgrade() -> None:
    """Back to the previous revision, without the log."""
    op.drop_table("audit_entries")
    if _on_postgresql():
        op.execute("DROP FUNCTION refuse_change_of_audit_entry()")


def _on_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"
