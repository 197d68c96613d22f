"""The send queue is a separate table; sends have a priority.

One statement per state over the unsettled rows, found by their partial indexes, takes most of the time. On SQLite each
dropped column rewrites the table (docs/operations.md#migrations).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
UNSETTLED = ("queued", "sending", "uncertain")
OLD_INDEXES = {
    "ix_recipients_due": (["account_id", "due_time", "id"], "state = 'queued'"),
    "ix_recipients_lease": (["lease_time"], "state = 'sending'"),
    "ix_recipients_uncertain": (["due_time"], "state = 'uncertain'"),
}
INDEXES = {
    "ix_send_queue_due": (["account_id", "priority", "due_time", "recipient_id"], "state = 'queued'"),
    "ix_send_queue_lease": (["lease_time"], "state = 'sending'"),
    "ix_send_queue_uncertain": (["due_time"], "state = 'uncertain'"),
}
STORAGE = {
    "fillfactor": 50,
    "autovacuum_vacuum_scale_factor": 0,
    "autovacuum_vacuum_threshold": 1000,
    "autovacuum_vacuum_insert_threshold": -1,
    "autovacuum_vacuum_cost_delay": 0,
    "autovacuum_analyze_scale_factor": 0,
    "autovacuum_analyze_threshold": 5000,
    "vacuum_truncate": "false",
}
QUEUE = """
INSERT INTO send_queue (recipient_id, account_id, priority, state, due_time, lease_time, worker, attempts,
    rendered_bytes)
SELECT id, account_id, 'normal', state, due_time, lease_time, worker, attempts, rendered_bytes
FROM recipients WHERE state = '{state}'
"""
SETTLE = "UPDATE recipients SET state = 'queued' WHERE state = '{state}'"
RETURN = """
UPDATE recipients SET state = entry.state, due_time = entry.due_time, lease_time = entry.lease_time,
    worker = entry.worker, attempts = entry.attempts,
    rendered_bytes = coalesce(entry.rendered_bytes, recipients.rendered_bytes)
FROM send_queue AS entry WHERE entry.recipient_id = recipients.id
"""


def upgrade() -> None:
    """To this revision."""
    _stop_writers()
    _create_queue()
    for state in UNSETTLED:
        op.execute(QUEUE.format(state=state))
    _create_indexes("send_queue", INDEXES)
    for state in ("sending", "uncertain"):
        op.execute(SETTLE.format(state=state))
    for name in OLD_INDEXES:
        op.drop_index(name, "recipients")
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        for name in ("due_time", "lease_time", "worker"):
            batch_op.drop_column(name)
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("priority", sa.String(), server_default="normal", nullable=False))


def downgrade() -> None:
    """Back to the previous revision: unsettled entries return to the recipients."""
    _stop_writers()
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.drop_column("priority")
    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        # It is not used for settled recipients; with the default no row needs to be written.
        default = sa.text("'2000-01-01 00:00:00'")
        batch_op.add_column(sa.Column("due_time", MOMENT, server_default=default, nullable=False))
        batch_op.add_column(sa.Column("lease_time", MOMENT, nullable=True))
        batch_op.add_column(sa.Column("worker", sa.String(), nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("recipients", "due_time", server_default=None)
    op.execute(RETURN)
    op.drop_table("send_queue")
    _create_indexes("recipients", OLD_INDEXES)


def _stop_writers() -> None:
    """An older process that still runs waits and then fails; it must not add a row to what has already been moved."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("LOCK TABLE recipients IN ACCESS EXCLUSIVE MODE")


def _create_queue() -> None:
    op.create_table(
        "send_queue",
        sa.Column("recipient_id", BIG, autoincrement=False, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("priority", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("due_time", MOMENT, nullable=False),
        sa.Column("lease_time", MOMENT, nullable=True),
        sa.Column("worker", sa.String(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("rendered_bytes", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_send_queue_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("recipient_id", name=op.f("pk_send_queue")),
        postgresql_with=STORAGE,
    )


def _create_indexes(table: str, indexes: dict[str, tuple[list[str], str]]) -> None:
    for name, (columns, condition) in indexes.items():
        where = sa.text(condition)
        op.create_index(name, table, columns, unique=False, postgresql_where=where, sqlite_where=where)
