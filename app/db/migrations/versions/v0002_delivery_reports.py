"""Signing keys, tracked links, receipts, inbound reports and domain back-offs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
MOMENT = sa.DateTime(timezone=True)
# Tables are altered in place (recreate="never"): on SQLite a rebuilt table would lose its AUTOINCREMENT, and with it
# the guarantee that no id is used twice.


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "destination_pauses",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("domain", sa.String(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("until_time", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_destination_pauses")),
        sa.UniqueConstraint("domain", name=op.f("uq_destination_pauses_domain")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "inbound_records",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_inbound_records_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inbound_records")),
        sa.UniqueConstraint("account_id", "fingerprint", name=op.f("uq_inbound_records_account_id_fingerprint")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("inbound_records", schema=None) as batch_op:
        batch_op.create_index("ix_inbound_records_time", ["time"], unique=False)

    op.create_table(
        "dkim_keys",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("domain_id", BIG, nullable=False),
        sa.Column("selector", sa.String(), nullable=False),
        sa.Column("algorithm", sa.String(), nullable=False),
        sa.Column("private_key", sa.String(), nullable=False),
        sa.Column("public_key", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_dkim_keys_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_dkim_keys_domain_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dkim_keys")),
        sa.UniqueConstraint("domain_id", "selector", name=op.f("uq_dkim_keys_domain_id_selector")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "send_links",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("send_id", BIG, nullable=False),
        sa.Column("link_type", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_send_links_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["send_id"], ["sends.id"], name=op.f("fk_send_links_send_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_send_links")),
        sa.UniqueConstraint("send_id", "link_type", "url", name=op.f("uq_send_links_send_id_link_type_url")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("track_opens", sa.Boolean(), server_default=sa.true(), nullable=False))
        batch_op.add_column(sa.Column("track_clicks", sa.Boolean(), server_default=sa.true(), nullable=False))

    with op.batch_alter_table("address_troubles", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("forgotten_by", BIG, nullable=True))

    with op.batch_alter_table("domains", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("trusted", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("checked_time", MOMENT, nullable=True))
        batch_op.add_column(sa.Column("findings", JSON, nullable=True))
    # Until this revision a domain counted as verified only by decision of the operator.
    op.execute(sa.text("UPDATE domains SET trusted = true WHERE verified_time IS NOT NULL"))

    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("first_click_time", MOMENT, nullable=True))
        batch_op.add_column(sa.Column("complaint_time", MOMENT, nullable=True))
        batch_op.add_column(sa.Column("segments", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("gateway_id", sa.String(), nullable=True))
        batch_op.create_index(
            "ix_recipients_gateway_id",
            ["gateway_id"],
            unique=False,
            postgresql_where=sa.text("gateway_id IS NOT NULL"),
            sqlite_where=sa.text("gateway_id IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_recipients_uncertain",
            ["due_time"],
            unique=False,
            postgresql_where=sa.text("state = 'uncertain'"),
            sqlite_where=sa.text("state = 'uncertain'"),
        )
        batch_op.create_index(
            "ix_recipients_last_sms",
            ["mobile", "sent_time"],
            unique=False,
            postgresql_where=sa.text("type = 'sms' AND sent_time IS NOT NULL"),
            sqlite_where=sa.text("type = 'sms' AND sent_time IS NOT NULL"),
        )

    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("track_opens", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("track_clicks", sa.Boolean(), server_default=sa.false(), nullable=False))

    with op.batch_alter_table("sms_senders", recreate="never") as batch_op:
        batch_op.add_column(sa.Column("messages_per_second", sa.Double(), nullable=True))


def downgrade() -> None:
    """Back to the previous revision."""
    with op.batch_alter_table("sms_senders", recreate="never") as batch_op:
        batch_op.drop_column("messages_per_second")

    with op.batch_alter_table("sends", recreate="never") as batch_op:
        batch_op.drop_column("track_clicks")
        batch_op.drop_column("track_opens")

    with op.batch_alter_table("recipients", recreate="never") as batch_op:
        batch_op.drop_index(
            "ix_recipients_last_sms",
            postgresql_where=sa.text("type = 'sms' AND sent_time IS NOT NULL"),
            sqlite_where=sa.text("type = 'sms' AND sent_time IS NOT NULL"),
        )
        batch_op.drop_index(
            "ix_recipients_uncertain",
            postgresql_where=sa.text("state = 'uncertain'"),
            sqlite_where=sa.text("state = 'uncertain'"),
        )
        batch_op.drop_index(
            "ix_recipients_gateway_id",
            postgresql_where=sa.text("gateway_id IS NOT NULL"),
            sqlite_where=sa.text("gateway_id IS NOT NULL"),
        )
        batch_op.drop_column("gateway_id")
        batch_op.drop_column("segments")
        batch_op.drop_column("complaint_time")
        batch_op.drop_column("first_click_time")

    with op.batch_alter_table("address_troubles", recreate="never") as batch_op:
        batch_op.drop_column("forgotten_by")

    with op.batch_alter_table("domains", recreate="never") as batch_op:
        batch_op.drop_column("findings")
        batch_op.drop_column("checked_time")
        batch_op.drop_column("trusted")

    with op.batch_alter_table("accounts", recreate="never") as batch_op:
        batch_op.drop_column("track_clicks")
        batch_op.drop_column("track_opens")

    op.drop_table("send_links")
    op.drop_table("dkim_keys")
    with op.batch_alter_table("inbound_records", schema=None) as batch_op:
        batch_op.drop_index("ix_inbound_records_time")

    op.drop_table("inbound_records")
    op.drop_table("destination_pauses")
