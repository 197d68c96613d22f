"""The history in ranges of ids on PostgreSQL, so that a range can be dropped at once; SQLite keeps one table.

Upwards the tables become the first range of theirs: one index is built, and each table is read once, under a lock
(docs/operations.md#migrations has the time that it takes). Downwards all rows are copied into one table again.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

SPAN = 1_000_000_000
AHEAD = 3
KEYS = {"recipients": "id", "recipient_steps": "recipient_id"}
"""Table -> the column by which it is in ranges."""

INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = current_schema() AND tablename = :table AND indexname <> 'pk_' || :table ORDER BY indexname
"""
FOREIGN_KEYS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = CAST(:table AS regclass) AND contype = 'f' ORDER BY conname
"""


def upgrade() -> None:
    """To this revision."""
    if op.get_bind().dialect.name != "postgresql":
        return
    _stop_writers()
    op.execute("ALTER TABLE recipient_steps DROP CONSTRAINT fk_recipient_steps_recipient_id")
    op.execute("ALTER TABLE recipient_steps DROP CONSTRAINT pk_recipient_steps")
    op.execute("ALTER TABLE recipients DROP CONSTRAINT uq_recipients_uuid")
    op.execute("CREATE INDEX ix_recipients_uuid ON recipients (uuid)")
    last: int = op.get_bind().execute(text("SELECT coalesce(max(id), 0) FROM recipients")).scalar_one()
    for table, key in KEYS.items():
        _divide(table, key, last // SPAN + 1)


def downgrade() -> None:
    """Back to the one before: one table each."""
    if op.get_bind().dialect.name != "postgresql":
        return
    _stop_writers()
    for table in KEYS:
        _join(table)
    op.execute("DROP INDEX ix_recipients_uuid")
    op.execute("ALTER TABLE recipients ADD CONSTRAINT uq_recipients_uuid UNIQUE (uuid)")
    op.execute("ALTER TABLE recipient_steps ADD CONSTRAINT pk_recipient_steps PRIMARY KEY (id)")
    op.execute(
        "ALTER TABLE recipient_steps ADD CONSTRAINT fk_recipient_steps_recipient_id "
        "FOREIGN KEY (recipient_id) REFERENCES recipients (id) ON DELETE CASCADE"
    )


def _stop_writers() -> None:
    op.execute(f"LOCK TABLE {', '.join(KEYS)} IN ACCESS EXCLUSIVE MODE")


def _divide(table: str, key: str, number: int) -> None:
    """Makes the table the first range, up to the range of that number, and more ranges from there on."""
    first, indexes, foreign_keys = f"{table}_r0", _definitions(INDEXES, table), _definitions(FOREIGN_KEYS, table)
    op.execute(f"ALTER TABLE {table} RENAME TO {first}")
    op.execute(f"CREATE TABLE {table} (LIKE {first} INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE ({key})")
    op.execute(f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}.id")
    for name, definition in indexes.items():
        op.execute(f"ALTER INDEX {name} RENAME TO {name}_r0")
        op.execute(definition)
    if key == "id":
        op.execute(f"ALTER TABLE {first} RENAME CONSTRAINT pk_{table} TO pk_{table}_r0")
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT pk_{table} PRIMARY KEY (id)")
    _add_constraints(table, foreign_keys)
    op.execute(f"ALTER TABLE {table} ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ({number * SPAN})")
    for ahead in range(number, number + AHEAD):
        bounds = f"FROM ({ahead * SPAN}) TO ({(ahead + 1) * SPAN})"
        op.execute(f"CREATE TABLE {table}_r{ahead} PARTITION OF {table} FOR VALUES {bounds}")


def _join(table: str) -> None:
    """Copies the rows of all ranges into one table, in the order of their ids."""
    indexes, foreign_keys = _definitions(INDEXES, table), _definitions(FOREIGN_KEYS, table)
    op.execute(f"CREATE TABLE {table}_joined (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE)")
    op.execute(f"INSERT INTO {table}_joined SELECT * FROM {table} ORDER BY id")  # noqa: S608 - names
    op.execute(f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}_joined.id")
    op.execute(f"DROP TABLE {table}")
    op.execute(f"ALTER TABLE {table}_joined RENAME TO {table}")
    for definition in indexes.values():
        op.execute(definition.replace(" ON ONLY ", " ON "))
    if KEYS[table] == "id":
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT pk_{table} PRIMARY KEY (id)")
    _add_constraints(table, foreign_keys)


def _definitions(statement: str, table: str) -> dict[str, str]:
    """Name -> definition."""
    found = op.get_bind().execute(text(statement), {"table": table}).all()
    return {row[0]: row[1] for row in found}


def _add_constraints(table: str, definitions: dict[str, str]) -> None:
    for name, definition in definitions.items():
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
