"""Groups are counted in slots, so that concurrent sends do not wait for one row; and there are counts by hour.

The counts of a group so far stay in its own row, to which its slots are added. Hours before this revision have no
counts.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
COUNTERS = ("sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed")


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "group_counts",
        sa.Column("group_id", BIG, nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("last_sent_time", MOMENT, nullable=True),
        *_counters(),
        _account_key("group_counts"),
        sa.PrimaryKeyConstraint("group_id", "slot", name=op.f("pk_group_counts")),
    )
    op.create_table(
        "hourly_counts",
        sa.Column("group_id", BIG, nullable=False),
        sa.Column("hour", MOMENT, nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        *_counters(),
        _account_key("hourly_counts"),
        sa.PrimaryKeyConstraint("group_id", "hour", "slot", name=op.f("pk_hourly_counts")),
    )
    op.create_index("ix_hourly_counts_account", "hourly_counts", ["account_id", "hour"], unique=False)
    op.create_index("ix_hourly_counts_hour", "hourly_counts", ["hour"], unique=False)


def downgrade() -> None:
    """Back to the previous revision, whose groups have all counts in their own row."""
    sums = ", ".join(f"{name} = {name} + coalesce({_of_slots(f'sum(slots.{name})')}, 0)" for name in COUNTERS)
    op.execute(f"UPDATE transactional_groups SET {sums}")  # noqa: S608 - names
    latest = _of_slots("max(slots.last_sent_time)")
    op.execute(f"UPDATE transactional_groups SET last_sent_time = {latest} WHERE {latest} > last_sent_time")  # noqa: S608
    op.drop_table("hourly_counts")
    op.drop_table("group_counts")


def _counters() -> list[sa.Column[int]]:
    return [sa.Column(name, BIG, nullable=False) for name in COUNTERS]


def _account_key(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_account_id")
    return sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=name, ondelete="CASCADE")


def _of_slots(value: str) -> str:
    """The sum over a group's slots; null without slots."""
    return f"(SELECT {value} FROM group_counts slots WHERE slots.group_id = transactional_groups.id)"  # noqa: S608
