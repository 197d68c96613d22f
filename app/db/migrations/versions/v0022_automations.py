"""Automations: definitions in versions, steps, runs of contacts, and the steps that these have passed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TABLES = ("automation_passed_steps", "automation_runs", "automation_steps", "automation_versions", "automations")
RUN_INDEXES = {
    "due": (["account_id", "due_time", "id"], "state = 'waiting'"),
    "next": (["due_time"], "state = 'waiting'"),
    "contact": (["contact_id"], "state <> 'ended'"),
    "live": (["automation_id", "state", "step"], "state <> 'ended'"),
    "ended": (["end_time"], "state = 'ended' AND entry_key <> 0"),
}


def upgrade() -> None:
    """To this revision."""
    _create_automations()
    _create_versions()
    _create_steps()
    _create_runs()
    _create_passed_steps()
    with op.batch_alter_table("lists", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("has_automations", sa.Boolean(), server_default=sa.false(), nullable=False))
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        for name in ("automation_id", "step_id"):
            batch_op.add_column(sa.Column(name, BIG, nullable=True))


def downgrade() -> None:
    """Back to the one before: what automations have sent stays, under reports that nothing shows."""
    with op.batch_alter_table("sends", recreate="never") as batch_op:
        for name in ("automation_id", "step_id"):
            batch_op.drop_column(name)
    with op.batch_alter_table("lists", recreate="never") as batch_op:
        batch_op.drop_column("has_automations")
    for name in TABLES:
        op.drop_table(name)


def _id(autoincrement: bool = True) -> sa.Column[int]:
    return sa.Column("id", BIG, autoincrement=autoincrement, nullable=False)


def _of_account(table: str) -> tuple[sa.Column[int], sa.ForeignKeyConstraint, sa.PrimaryKeyConstraint]:
    return (
        sa.Column("account_id", BIG, nullable=False),
        _reference(table, "account_id", "accounts"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    )


def _reference(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=op.f(f"fk_{table}_{column}"), ondelete="CASCADE")


def _unique(table: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f(f"uq_{table}_{'_'.join(columns)}"))


def _index_where(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=False, postgresql_where=where, sqlite_where=where)


def _create_automations() -> None:
    op.create_table(
        "automations",
        _id(),
        *_of_account("automations"),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("list_id", BIG, nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("paused_time", MOMENT, nullable=True),
        sa.Column("release", sa.String(), nullable=True),
        sa.Column("shifted_seconds", BIG, nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_modified_time", MOMENT, nullable=False),
        _reference("automations", "list_id", "lists"),
        _unique("automations", "account_id", "name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_automations_page", "automations", ["account_id", "creation_time", "id"], unique=False)
    op.create_index("ix_automations_list", "automations", ["list_id"], unique=False)


def _create_versions() -> None:
    op.create_table(
        "automation_versions",
        _id(),
        *_of_account("automation_versions"),
        sa.Column("automation_id", BIG, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("definition", JSON, nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        _reference("automation_versions", "automation_id", "automations"),
        _unique("automation_versions", "automation_id", "number"),
        sqlite_autoincrement=True,
    )


def _create_steps() -> None:
    op.create_table(
        "automation_steps",
        _id(autoincrement=False),
        *_of_account("automation_steps"),
        sa.Column("automation_id", BIG, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        _reference("automation_steps", "automation_id", "automations"),
        _unique("automation_steps", "automation_id", "name"),
    )


def _create_runs() -> None:
    op.create_table(
        "automation_runs",
        _id(),
        *_of_account("automation_runs"),
        sa.Column("automation_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("list_id", BIG, nullable=False),
        sa.Column("contact_id", BIG, nullable=False),
        sa.Column("entry_key", BIG, nullable=False),
        sa.Column("trigger_time", MOMENT, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("step", sa.String(), nullable=True),
        sa.Column("step_time", MOMENT, nullable=True),
        sa.Column("due_time", MOMENT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("skips_next", sa.Boolean(), nullable=False),
        sa.Column("shifted_seconds", BIG, nullable=False),
        sa.Column("watched_step", BIG, nullable=True),
        sa.Column("watched_event", sa.String(), nullable=True),
        sa.Column("end_time", MOMENT, nullable=True),
        _reference("automation_runs", "automation_id", "automations"),
        _reference("automation_runs", "version_id", "automation_versions"),
        _unique("automation_runs", "automation_id", "contact_id", "entry_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_automation_runs_page", "automation_runs", ["automation_id", "trigger_time", "id"], unique=False)
    for name, (columns, condition) in RUN_INDEXES.items():
        _index_where(f"ix_automation_runs_{name}", "automation_runs", columns, condition)


def _create_passed_steps() -> None:
    op.create_table(
        "automation_passed_steps",
        _id(),
        *_of_account("automation_passed_steps"),
        sa.Column("run_id", BIG, nullable=False),
        sa.Column("step_id", BIG, nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("result", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=True),
        sa.Column("recipient_id", BIG, nullable=True),
        _reference("automation_passed_steps", "run_id", "automation_runs"),
        _unique("automation_passed_steps", "run_id", "step_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_automation_passed_steps_step", "automation_passed_steps", ["step_id", "result"], unique=False)
    _index_where(
        "ix_automation_passed_steps_recipient",
        "automation_passed_steps",
        ["recipient_id"],
        "recipient_id IS NOT NULL",
    )
