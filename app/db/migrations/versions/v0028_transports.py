"""Named transports and routes; the transport that a send names, and that of each step of a timeline."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "transports",
        *_named("transports"),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("connections", sa.Integer(), nullable=True),
        sa.Column("messages_per_second", sa.Double(), nullable=True),
        sa.Column("any_account", sa.Boolean(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "transport_accounts",
        sa.Column("transport_id", BIG, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        _reference("transport_accounts", "transport_id", "transports"),
        _reference("transport_accounts", "account_id", "accounts"),
        sa.PrimaryKeyConstraint("transport_id", "account_id", name=op.f("pk_transport_accounts")),
    )
    op.create_table(
        "routes",
        *_named("routes"),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("account_id", BIG, nullable=True),
        sa.Column("sender_domain", sa.String(), nullable=True),
        sa.Column("priority", sa.String(), nullable=True),
        sa.Column("country_prefixes", JSON, nullable=False),
        sa.Column("transports", JSON, nullable=False),
        _reference("routes", "account_id", "accounts"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "routing_version",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_routing_version")),
    )
    for table in ("sends", "recipient_steps"):
        with op.batch_alter_table(table, recreate="never") as batch_op:
            batch_op.add_column(sa.Column("transport", sa.String(), nullable=True))


def downgrade() -> None:
    """Back to the one before: messages that wait go over the transports in the settings."""
    for table in ("recipient_steps", "sends"):
        with op.batch_alter_table(table, recreate="never") as batch_op:
            batch_op.drop_column("transport")
    for name in ("routing_version", "routes", "transport_accounts", "transports"):
        op.drop_table(name)


def _named(table: str) -> tuple[Any, ...]:
    return (
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_modified_time", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("name", name=op.f(f"uq_{table}_name")),
    )


def _reference(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=op.f(f"fk_{table}_{column}"), ondelete="CASCADE")
