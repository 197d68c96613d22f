"""The tables of the first version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
MOMENT = sa.DateTime(timezone=True)

TABLES = [
    "accounts",
    "address_troubles",
    "api_keys",
    "blocked_addresses",
    "domains",
    "idempotency_records",
    "lists",
    "messages",
    "sends",
    "transactional_groups",
    "trigger_firings",
    "webhooks",
    "attachments",
    "contacts",
    "events",
    "list_fields",
    "recipients",
    "sms_senders",
    "unsubscribers",
    "webhook_attempts",
    "webhook_secrets",
    "recipient_steps",
]
"""In the order of their references to each other."""


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "accounts",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner_email", sa.String(), nullable=True),
        sa.Column("owner_confirmed", sa.Boolean(), nullable=False),
        sa.Column("allowed_networks", JSON, nullable=False),
        sa.Column("default_from_name", sa.String(), nullable=True),
        sa.Column("default_from_address", sa.String(), nullable=True),
        sa.Column("rate_limit", sa.String(), nullable=True),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_modified_time", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("name", name=op.f("uq_accounts_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "address_troubles",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("temporary_bounces", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_address_troubles_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_address_troubles")),
        sa.UniqueConstraint("account_id", "kind", "address", name=op.f("uq_address_troubles_account_id_kind_address")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "api_keys",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("token_hint", sa.String(), nullable=False),
        sa.Column("access_level", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("expiry_time", MOMENT, nullable=True),
        sa.Column("revoked_time", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_api_keys_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("account_id", "name", name=op.f("uq_api_keys_account_id_name")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_api_keys_token_hash")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "blocked_addresses",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_blocked_addresses_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_blocked_addresses")),
        sa.UniqueConstraint("account_id", "kind", "address", name=op.f("uq_blocked_addresses_account_id_kind_address")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "domains",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("verified_time", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_domains_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_domains")),
        sa.UniqueConstraint("account_id", "name", name=op.f("uq_domains_account_id_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "idempotency_records",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_idempotency_records_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_records")),
        sa.UniqueConstraint("account_id", "key", name=op.f("uq_idempotency_records_account_id_key")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_idempotency_records_time", "idempotency_records", ["creation_time"], unique=False)
    op.create_table(
        "lists",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("system", sa.Boolean(), nullable=False),
        sa.Column("allow_duplicates", sa.Boolean(), nullable=False),
        sa.Column("stop_words", JSON, nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_modified_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_lists_account_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lists")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_lists_page", "lists", ["account_id", "creation_time", "id"], unique=False)
    op.create_table(
        "messages",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("from_name", sa.String(), nullable=True),
        sa.Column("from_address", sa.String(), nullable=True),
        sa.Column("reply_to", sa.String(), nullable=True),
        sa.Column("thumbnail_url", sa.String(), nullable=True),
        sa.Column("body_html", sa.String(), nullable=True),
        sa.Column("body_text", sa.String(), nullable=True),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_modified_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_messages_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_messages_page", "messages", ["account_id", "creation_time", "id"], unique=False)
    op.create_table(
        "sends",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("list_id", BIG, nullable=True),
        sa.Column("group_id", BIG, nullable=False),
        sa.Column("group_name", sa.String(), nullable=False),
        sa.Column("message_id", BIG, nullable=True),
        sa.Column("unsubscribe_type", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("from_name", sa.String(), nullable=True),
        sa.Column("from_address", sa.String(), nullable=False),
        sa.Column("reply_to", sa.String(), nullable=True),
        sa.Column("bcc_address", sa.String(), nullable=True),
        sa.Column("body_html", sa.String(), nullable=True),
        sa.Column("body_text", sa.String(), nullable=True),
        sa.Column("include_unsubscribed", sa.Boolean(), nullable=False),
        sa.Column("recipient_data_html_encoded", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_sends_account_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sends")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sends_account", "sends", ["account_id", "id"], unique=False)
    op.create_table(
        "transactional_groups",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_sent_time", MOMENT, nullable=False),
        sa.Column("sent", BIG, nullable=False),
        sa.Column("failed_contacts", BIG, nullable=False),
        sa.Column("bounced", BIG, nullable=False),
        sa.Column("delivered", BIG, nullable=False),
        sa.Column("opened", BIG, nullable=False),
        sa.Column("clicked", BIG, nullable=False),
        sa.Column("unsubscribed", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_transactional_groups_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transactional_groups")),
        sa.UniqueConstraint("account_id", "name", name=op.f("uq_transactional_groups_account_id_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_transactional_groups_page", "transactional_groups", ["account_id", "creation_time", "id"], unique=False
    )
    op.create_table(
        "trigger_firings",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("list_id", BIG, nullable=False),
        sa.Column("contact_id", BIG, nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_trigger_firings_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trigger_firings")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_trigger_firings_account", "trigger_firings", ["account_id", "id"], unique=False)
    op.create_index("ix_trigger_firings_time", "trigger_firings", ["time"], unique=False)
    op.create_table(
        "webhooks",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("due_time", MOMENT, nullable=False),
        sa.Column("lease_time", MOMENT, nullable=True),
        sa.Column("worker", sa.String(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.String(), nullable=True),
        sa.Column("dropped_events", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_webhooks_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sa.UniqueConstraint("account_id", "url", name=op.f("uq_webhooks_account_id_url")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "attachments",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("send_id", BIG, nullable=False),
        sa.Column("recipient_id", BIG, nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("mime_type", sa.String(), nullable=False),
        sa.Column("content_id", sa.String(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_attachments_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["send_id"], ["sends.id"], name=op.f("fk_attachments_send_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachments")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_attachments_send", "attachments", ["send_id"], unique=False)
    op.create_table(
        "contacts",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("list_id", BIG, nullable=False),
        sa.Column("email", sa.String(), nullable=True),
        sa.Column("email_key", sa.String(), nullable=True),
        sa.Column("mobile", sa.String(), nullable=True),
        sa.Column("identifier", sa.String(), nullable=True),
        sa.Column("subscribed_email", sa.Boolean(), nullable=False),
        sa.Column("subscribed_mobile", sa.Boolean(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("double_opt_in", sa.Boolean(), nullable=False),
        sa.Column("double_opt_in_time", MOMENT, nullable=True),
        sa.Column("values", JSON, nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("last_modified_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_contacts_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["list_id"], ["lists.id"], name=op.f("fk_contacts_list_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_contacts")),
        sa.UniqueConstraint("list_id", "identifier", name=op.f("uq_contacts_list_id_identifier")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_contacts_account_email", "contacts", ["account_id", "email_key"], unique=False)
    op.create_index("ix_contacts_account_mobile", "contacts", ["account_id", "mobile"], unique=False)
    op.create_index("ix_contacts_email", "contacts", ["list_id", "email_key"], unique=False)
    op.create_index("ix_contacts_mobile", "contacts", ["list_id", "mobile"], unique=False)
    op.create_index("ix_contacts_page", "contacts", ["list_id", "creation_time", "id"], unique=False)
    if op.get_context().dialect.name == "postgresql":
        op.create_index(
            "ix_contacts_values",
            "contacts",
            ["values"],
            unique=False,
            postgresql_using="gin",
            postgresql_ops={"values": "jsonb_path_ops"},
        )
    op.create_table(
        "events",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("webhook_id", BIG, nullable=False),
        sa.Column("payload", sa.String(), nullable=False),
        sa.Column("batch_id", sa.String(), nullable=True),
        sa.Column("first_failed_time", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_events_account_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhooks.id"], name=op.f("fk_events_webhook_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_events_batch",
        "events",
        ["batch_id"],
        unique=False,
        postgresql_where=sa.text("batch_id IS NOT NULL"),
        sqlite_where=sa.text("batch_id IS NOT NULL"),
    )
    op.create_index("ix_events_webhook", "events", ["webhook_id", "id"], unique=False)
    op.create_table(
        "list_fields",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("list_id", BIG, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("options", JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_list_fields_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["list_id"], ["lists.id"], name=op.f("fk_list_fields_list_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_list_fields")),
        sa.UniqueConstraint("list_id", "key", name=op.f("uq_list_fields_list_id_key")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_list_fields_order", "list_fields", ["list_id", "position"], unique=False)
    op.create_table(
        "recipients",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("send_id", BIG, nullable=False),
        sa.Column("group_id", BIG, nullable=False),
        sa.Column("message_id", BIG, nullable=True),
        sa.Column("list_id", BIG, nullable=True),
        sa.Column("contact_id", BIG, nullable=True),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=True),
        sa.Column("mobile", sa.String(), nullable=True),
        sa.Column("values", JSON, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.Column("due_time", MOMENT, nullable=False),
        sa.Column("lease_time", MOMENT, nullable=True),
        sa.Column("worker", sa.String(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("sent_time", MOMENT, nullable=True),
        sa.Column("first_open_time", MOMENT, nullable=True),
        sa.Column("last_open_time", MOMENT, nullable=True),
        sa.Column("open_type", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_recipients_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["send_id"], ["sends.id"], name=op.f("fk_recipients_send_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recipients")),
        sa.UniqueConstraint("uuid", name=op.f("uq_recipients_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_recipients_due",
        "recipients",
        ["account_id", "due_time", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_recipients_lease",
        "recipients",
        ["lease_time"],
        unique=False,
        postgresql_where=sa.text("state = 'sending'"),
        sqlite_where=sa.text("state = 'sending'"),
    )
    op.create_index("ix_recipients_send", "recipients", ["send_id"], unique=False)
    op.create_index(
        "ix_recipients_sent_contacts",
        "recipients",
        ["message_id", "sent_time", "contact_id"],
        unique=False,
        postgresql_where=sa.text("message_id IS NOT NULL AND sent_time IS NOT NULL"),
        sqlite_where=sa.text("message_id IS NOT NULL AND sent_time IS NOT NULL"),
    )
    op.create_table(
        "sms_senders",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("list_id", BIG, nullable=True),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_sms_senders_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["list_id"], ["lists.id"], name=op.f("fk_sms_senders_list_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sms_senders")),
        sa.UniqueConstraint("account_id", "address", name=op.f("uq_sms_senders_account_id_address")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "unsubscribers",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("list_id", BIG, nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_unsubscribers_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["list_id"], ["lists.id"], name=op.f("fk_unsubscribers_list_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unsubscribers")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_unsubscribers_account",
        "unsubscribers",
        ["account_id", "kind", "address"],
        unique=True,
        postgresql_where=sa.text("list_id IS NULL"),
        sqlite_where=sa.text("list_id IS NULL"),
    )
    op.create_index(
        "uq_unsubscribers_list",
        "unsubscribers",
        ["account_id", "kind", "address", "list_id"],
        unique=True,
        postgresql_where=sa.text("list_id IS NOT NULL"),
        sqlite_where=sa.text("list_id IS NOT NULL"),
    )
    op.create_table(
        "webhook_attempts",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("webhook_id", BIG, nullable=False),
        sa.Column("batch_id", sa.String(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=True),
        sa.Column("milliseconds", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_webhook_attempts_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_attempts_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_attempts")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhook_attempts_time", "webhook_attempts", ["time"], unique=False)
    op.create_index("ix_webhook_attempts_webhook", "webhook_attempts", ["webhook_id", "id"], unique=False)
    op.create_table(
        "webhook_secrets",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("webhook_id", BIG, nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("creation_time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_webhook_secrets_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_secrets_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_secrets")),
        sa.UniqueConstraint("webhook_id", "key_id", name=op.f("uq_webhook_secrets_webhook_id_key_id")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "recipient_steps",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("recipient_id", BIG, nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_recipient_steps_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["recipient_id"], ["recipients.id"], name=op.f("fk_recipient_steps_recipient_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recipient_steps")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_recipient_steps_recipient", "recipient_steps", ["recipient_id", "id"], unique=False)


def downgrade() -> None:
    """Back to the previous revision."""
    for table in reversed(TABLES):
        op.drop_table(table)
