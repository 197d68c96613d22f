"""Seals of the entries of the audit log (docs/audit.md#seals). On SQLite no INSERT replaces an entry any more: REPLACE
deletes the row that has the id, and no trigger on updates sees that.

Entries from before are sealed by the maintenance, in slices. Without the table the keys of the seals are of no use.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0073"
down_revision = "0072"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)
NOT_REPLACED = (
    "CREATE TRIGGER audit_entries_not_replaced BEFORE INSERT ON audit_entries "
    "WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id = NEW.id) "
    "BEGIN SELECT RAISE(ABORT, 'audit entries are never changed'); END"
)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "audit_seals",
        *(sa.Column(name, BIG, autoincrement=False, nullable=False) for name in ("number", "first_number", "entry_id")),
        sa.Column("time", TIME, nullable=False),
        sa.Column("key_id", sa.SmallInteger(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("digest", "hash")),
        sa.Column("purged_time", TIME, nullable=True),
        sa.Column("purged_mark", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit_seals")),
        *(sa.UniqueConstraint(name, name=op.f(f"uq_audit_seals_{name}")) for name in ("entry_id", "first_number")),
    )
    if _on_sqlite():
        op.execute(NOT_REPLACED)


def downgrade() -> None:
    """Back to the previous revision, without the seals."""
    if _on_sqlite():
        op.execute("DROP TRIGGER audit_entries_not_replaced")
    op.drop_table("audit_seals")
    op.execute("DELETE FROM digest_key WHERE id > 1")


def _on_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"
