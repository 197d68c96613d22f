"""People who sign in to the console by OpenID Connect: who they are, and where they are signed in (docs/sign-in.md)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0108"
down_revision = "0107"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "console_people",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("name", sa.String()),
        sa.Column("email", sa.String()),
        sa.Column("grants", JSON, nullable=False),
        sa.Column("creation_time", TIME, nullable=False),
        sa.Column("last_modified_time", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_console_people")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_console_people_issuer_subject")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "console_sign_ins",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("wanted_path", sa.String(), nullable=False),
        sa.Column("reason", sa.String()),
        sa.Column("person_id", BIG),
        sa.Column("due_time", TIME),
        sa.Column("end_time", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_console_sign_ins")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_console_sign_ins_token_hash")),
        sa.ForeignKeyConstraint(
            ["person_id"], ["console_people.id"], name=op.f("fk_console_sign_ins_person_id"), ondelete="CASCADE"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_console_sign_ins_due_time", "console_sign_ins", ["due_time"])
    op.create_index("ix_console_sign_ins_end_time", "console_sign_ins", ["end_time"])
    op.add_column("console_links", sa.Column("emergency", sa.Boolean(), nullable=False, server_default=sa.false()))
    for column in _session_columns():
        op.add_column("console_sessions", column)
    op.create_index("ix_console_sessions_person_id", "console_sessions", ["person_id"])
    op.create_index("ix_console_sessions_check_time", "console_sessions", ["check_time"])


def _session_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("person_id", BIG),
        sa.Column("role", sa.String()),
        sa.Column("refresh_token", sa.String()),
        sa.Column("check_time", TIME),
    ]


def downgrade() -> None:
    """Back to the previous revision."""
    for name in ("ix_console_sessions_check_time", "ix_console_sessions_person_id"):
        op.drop_index(name, "console_sessions")
    op.execute("DELETE FROM console_sessions WHERE role IS NOT NULL")
    with op.batch_alter_table("console_sessions", recreate="never") as batch_op:
        for column in reversed(_session_columns()):
            batch_op.drop_column(column.name)
    with op.batch_alter_table("console_links", recreate="never") as batch_op:
        batch_op.drop_column("emergency")
    op.drop_table("console_sign_ins")
    op.drop_table("console_people")
