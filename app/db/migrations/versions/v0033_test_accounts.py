"""Test accounts with copies of lists and messages, and the messages that are captured instead of sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COPIED = ("lists", "messages")
TABLE = "captured_messages"


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("test_of", BIG, nullable=True))
    op.create_index("ix_accounts_test_of", "accounts", ["test_of"], unique=True)
    for table in COPIED:
        with op.batch_alter_table(table, recreate="never") as batch_op:
            batch_op.add_column(sa.Column("copy_of", BIG, nullable=True))
        where = sa.text("copy_of IS NOT NULL")
        op.create_index(
            f"ix_{table}_copy_of",
            table,
            ["account_id", "copy_of"],
            unique=True,
            postgresql_where=where,
            sqlite_where=where,
        )
    _create_captured_messages()


def downgrade() -> None:
    """Back to the one before: test accounts stay, as accounts like others. Their keys are revoked, because what they
    send would leave."""
    op.execute(
        "UPDATE api_keys SET revoked_time = CURRENT_TIMESTAMP WHERE revoked_time IS NULL "
        "AND account_id IN (SELECT id FROM accounts WHERE test_of IS NOT NULL)"
    )
    op.drop_table(TABLE)
    for table in COPIED:
        op.drop_index(f"ix_{table}_copy_of", table_name=table)
        with op.batch_alter_table(table, recreate="never") as batch_op:
            batch_op.drop_column("copy_of")
    op.drop_index("ix_accounts_test_of", table_name="accounts")
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.drop_column("test_of")


def _create_captured_messages() -> None:
    op.create_table(
        TABLE,
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("recipient_id", BIG, nullable=False),
        sa.Column("is_copy", sa.Boolean(), nullable=False),
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("sender", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("captured_time", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{TABLE}_account_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{TABLE}"),
        sa.UniqueConstraint("recipient_id", "is_copy", name=f"uq_{TABLE}_recipient_id_is_copy"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_captured_messages_account", TABLE, ["account_id", "id"])
    op.create_index("ix_captured_messages_page", TABLE, ["account_id", "captured_time", "id"])
    op.create_index("ix_captured_messages_address", TABLE, ["account_id", "address", "id"])
    op.create_index("ix_captured_messages_time", TABLE, ["captured_time"])
