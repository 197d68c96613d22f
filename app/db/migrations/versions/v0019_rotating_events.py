"""Events are kept in rotating tables, and a webhook has a position in them; delivery deletes nothing.

Waiting events get new ids: those of a batch in flight come first. Copying and indexing the waiting events takes most of
the time.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
SLOTS = (0, 1)
LONG_AGO = "2000-01-01 00:00:00.000000"
"""The first rotation may happen at once: the other table is empty."""

ROTATING = """
CREATE TABLE events (
    id BIGINT NOT NULL DEFAULT nextval('events_id_seq'),
    slot SMALLINT NOT NULL,
    account_id BIGINT NOT NULL,
    webhook_id BIGINT NOT NULL,
    payload VARCHAR NOT NULL,
    CONSTRAINT fk_events_account_id FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
) PARTITION BY LIST (slot)
"""
PARTITION = """
CREATE TABLE events_{slot} PARTITION OF events FOR VALUES IN ({slot}) WITH (autovacuum_vacuum_insert_threshold = -1)
"""
MOVE = """
INSERT INTO events (id, slot, account_id, webhook_id, payload)
SELECT {last} + row_number() OVER (ORDER BY old.webhook_id, batched.event_id IS NULL, old.id),
    0, old.account_id, old.webhook_id, old.payload
FROM old_events AS old
LEFT JOIN (
    SELECT webhooks.id AS webhook_id, CAST(one.value AS VARCHAR) AS event_id FROM webhooks, {each} AS one
) AS batched ON batched.webhook_id = old.webhook_id AND batched.event_id = CAST(old.id AS VARCHAR)
"""
BATCH_END = """
UPDATE webhooks SET batch_end = (
    (SELECT min(id) - 1 FROM events WHERE events.webhook_id = webhooks.id)
    + (SELECT count(*) FROM old_events WHERE old_events.webhook_id = webhooks.id
       AND CAST(old_events.id AS VARCHAR) IN (SELECT CAST(one.value AS VARCHAR) FROM {each} AS one))
) WHERE batch_id IS NOT NULL AND batch_events IS NOT NULL
"""
RETURN = """
INSERT INTO events (id, account_id, webhook_id, payload)
SELECT one.id, one.account_id, one.webhook_id, one.payload
FROM rotating_events AS one JOIN webhooks ON webhooks.id = one.webhook_id AND one.id > webhooks.position
"""
BATCH_EVENTS = """
UPDATE webhooks SET batch_events = (
    SELECT {array}(id) FROM events WHERE events.webhook_id = webhooks.id AND events.id <= webhooks.batch_end
) WHERE batch_id IS NOT NULL AND batch_end IS NOT NULL
"""


def upgrade() -> None:
    """To this revision."""
    _stop_writers()
    op.drop_index("ix_events_webhook", "events")
    op.rename_table("events", "old_events")
    _create_rotating()
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("position", BIG, server_default="0", nullable=False))
        batch_op.add_column(sa.Column("batch_end", BIG, nullable=True))
        batch_op.add_column(sa.Column("complete_to", BIG, server_default="0", nullable=False))
    last = op.get_bind().execute(sa.text("SELECT coalesce(max(id), 0) FROM old_events")).scalar_one()
    op.execute(MOVE.format(last=last, each=_batch_events()))
    if _is_postgresql():
        for slot in SLOTS:  # they become parts of the index of the parent
            op.create_index(f"ix_events_webhook_{slot}", f"events_{slot}", ["webhook_id", "id"], unique=False)
    op.create_index("ix_events_webhook", "events", ["webhook_id", "id"], unique=False)
    op.create_index("ix_old_events_webhook", "old_events", ["webhook_id"], unique=False)
    op.execute(BATCH_END.format(each=_batch_events()))
    if _is_postgresql():
        op.execute("ALTER SEQUENCE events_id_seq OWNED BY events.id")
        _advance_sequence()
    op.drop_table("old_events")
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        batch_op.drop_column("batch_events")


def downgrade() -> None:
    """Back to the previous revision: delivered events are lost."""
    _stop_writers()
    op.drop_index("ix_events_webhook", "events")
    op.rename_table("events", "rotating_events")
    if _is_postgresql():
        op.execute("ALTER SEQUENCE events_id_seq RENAME TO rotating_events_id_seq")
    _create_old()
    op.execute(RETURN)
    op.create_index("ix_events_webhook", "events", ["webhook_id", "id"], unique=False)
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("batch_events", JSON, nullable=True))
    op.execute(BATCH_EVENTS.format(array="jsonb_agg" if _is_postgresql() else "json_group_array"))
    if _is_postgresql():
        _advance_sequence()
    op.drop_table("rotating_events")
    op.drop_table("event_rotation")
    with op.batch_alter_table("webhooks", recreate="never") as batch_op:
        for name in ("position", "batch_end", "complete_to"):
            batch_op.drop_column(name)


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _stop_writers() -> None:
    """An older process that still runs waits and then fails; it must not add events to what has been moved."""
    if _is_postgresql():
        op.execute("LOCK TABLE events, webhooks IN ACCESS EXCLUSIVE MODE")


def _batch_events() -> str:
    """The ids in `batch_events`, as rows."""
    if _is_postgresql():
        array = "CASE jsonb_typeof(webhooks.batch_events) WHEN 'array' THEN webhooks.batch_events ELSE '[]' END"
        return f"jsonb_array_elements_text({array})"
    return "json_each(webhooks.batch_events)"


def _create_rotating() -> None:
    rotation = op.create_table(
        "event_rotation",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("since_id", BIG, nullable=False),
        sa.Column("since_time", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_rotation")),
    )
    op.execute(f"INSERT INTO {rotation.name} (id, slot, since_id, since_time) VALUES (1, 0, 0, '{LONG_AGO}')")  # noqa: S608 - constants
    if _is_postgresql():
        op.execute(ROTATING)
        for slot in SLOTS:
            op.execute(PARTITION.format(slot=slot))
        return
    op.create_table(
        "events",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("webhook_id", BIG, nullable=False),
        sa.Column("payload", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_events_account_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )


def _create_old() -> None:
    op.create_table(
        "events",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("webhook_id", BIG, nullable=False),
        sa.Column("payload", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_events_account_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhooks.id"], name=op.f("fk_events_webhook_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )


def _advance_sequence() -> None:
    op.execute("SELECT setval('events_id_seq', greatest((SELECT max(id) FROM events), last_value)) FROM events_id_seq")
