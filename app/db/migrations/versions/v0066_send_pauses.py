"""An account, a list or a domain can be paused (docs/delivery.md#pauses).

The new column is empty and the index on the queue has no entry, so it takes no time, and the release before works with
it: it goes on to send what is paused.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0066"
down_revision = "0065"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """To this revision."""
    time = sa.DateTime(timezone=True)
    op.create_table(
        "send_pauses",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("list_id", BIG, nullable=True),
        sa.Column("domain", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("paused_by", sa.String(), nullable=False),
        sa.Column("creation_time", time, nullable=False),
        sa.Column("resumed_time", time, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_send_pauses_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["list_id"], ["lists.id"], name=op.f("fk_send_pauses_list_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_send_pauses")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_send_pauses_account", "send_pauses", ["account_id", "id"])
    _create_partial_index("ix_send_pauses_list_id", "send_pauses", ["list_id"], "list_id IS NOT NULL")
    _create_partial_index("ix_send_pauses_resumed", "send_pauses", ["id"], "resumed_time IS NOT NULL")
    everywhere = "account_id IS NULL AND resumed_time IS NULL"
    _create_partial_index("ix_send_pauses_everywhere", "send_pauses", ["domain"], everywhere, unique=True)
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("pause_id", BIG, nullable=True))
    _create_partial_index("ix_send_queue_paused", "send_queue", ["pause_id", "recipient_id"], "state = 'paused'")


def downgrade() -> None:
    """Back to the previous revision. Messages that are paused are held: the release before knows no pauses, and would
    send them."""
    op.execute("UPDATE send_queue SET held_state = 'queued', state = 'held' WHERE state = 'paused'")
    op.drop_index("ix_send_queue_paused", table_name="send_queue")
    with op.batch_alter_table("send_queue", recreate="never") as batch_op:
        batch_op.drop_column("pause_id")
    op.drop_table("send_pauses")


def _create_partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    rows = sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=rows, sqlite_where=rows)
