"""The schema of the first release (docs/upgrade.md#migrations)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None

phase = "expand"
needs = "0074"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
BYTES = sa.LargeBinary()
FLAG = sa.Boolean()
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
NUMBER = sa.Integer()
REAL: sa.Double[float] = sa.Double()
SMALL = sa.SmallInteger()
TEXT = sa.String()
TIME = sa.DateTime(timezone=True)

METADATA = sa.MetaData(
    naming_convention={
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
FURTHER_ON_POSTGRESQL = (
    """
    CREATE TABLE events (
        id BIGSERIAL NOT NULL,
        slot SMALLINT NOT NULL,
        account_id BIGINT NOT NULL,
        webhook_id BIGINT NOT NULL,
        payload VARCHAR NOT NULL,
        CONSTRAINT fk_events_account_id FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
    ) PARTITION BY LIST (slot)
    """,
    *(
        f"CREATE TABLE events_{slot} PARTITION OF events FOR VALUES IN ({slot}) "
        "WITH (autovacuum_vacuum_insert_threshold = -1)"
        for slot in (0, 1)
    ),
    # Those of the partitions come first: that of the whole table takes them in under their names.
    *(f"CREATE INDEX ix_events_webhook_{slot} ON events_{slot} (webhook_id, id)" for slot in (0, 1)),
    "CREATE INDEX ix_events_webhook ON events (webhook_id, id)",
    """
    CREATE TABLE recipient_steps (
        id BIGSERIAL NOT NULL,
        account_id BIGINT NOT NULL,
        recipient_id BIGINT NOT NULL,
        time TIMESTAMP WITH TIME ZONE NOT NULL,
        step VARCHAR NOT NULL,
        detail VARCHAR,
        note VARCHAR,
        transport VARCHAR,
        country VARCHAR,
        CONSTRAINT fk_recipient_steps_account_id FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
    ) PARTITION BY RANGE (recipient_id)
    """,
    "CREATE INDEX ix_recipient_steps_recipient ON recipient_steps (recipient_id, id)",
    *(
        f"CREATE TABLE {name}_r{number} PARTITION OF {name} FOR VALUES FROM ({first}) TO ({number + 1}000000000)"
        for name in ("recipients", "recipient_steps")
        for number, first in enumerate(("MINVALUE", 1_000_000_000, 2_000_000_000, 3_000_000_000))
    ),
    "CREATE FUNCTION refuse_change_of_audit_entry() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'audit entries are never changed'; END $$",
    "CREATE TRIGGER audit_entries_unchanged BEFORE UPDATE ON audit_entries "
    "FOR EACH ROW EXECUTE FUNCTION refuse_change_of_audit_entry()",
)
FURTHER_ON_SQLITE = (
    "CREATE TRIGGER audit_entries_unchanged BEFORE UPDATE ON audit_entries "
    "BEGIN SELECT RAISE(ABORT, 'audit entries are never changed'); END",
    # REPLACE deletes the row that has the id, and no trigger on updates sees that.
    "CREATE TRIGGER audit_entries_not_replaced BEFORE INSERT ON audit_entries "
    "WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id = NEW.id) "
    "BEGIN SELECT RAISE(ABORT, 'audit entries are never changed'); END",
)
# The first rotation may happen at once: the other table is empty.
FIRST_ROTATION = (
    "INSERT INTO event_rotation (id, slot, since_id, since_time) VALUES (1, 0, 0, '2000-01-01 00:00:00.000000')"
)


def upgrade() -> None:
    """To this revision, from an empty database."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        made_apart = ("events", "recipient_steps")
        tables = [one for one in METADATA.sorted_tables if one.name not in made_apart]
        METADATA.create_all(connection, tables, checkfirst=False)
    else:
        METADATA.create_all(connection, checkfirst=False)
    further = FURTHER_ON_POSTGRESQL if connection.dialect.name == "postgresql" else FURTHER_ON_SQLITE
    for statement in (*further, FIRST_ROTATION):
        op.execute(statement)


def downgrade() -> None:
    """To an empty database."""
    connection = op.get_bind()
    METADATA.drop_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change_of_audit_entry()")


def table(name: str, first: sa.Column[Any], *parts: Any, **options: Any) -> None:
    """With the column of `identity`, no id is ever reused, on SQLite either."""
    sa.Table(name, METADATA, first, *parts, sqlite_autoincrement=first.autoincrement is True, **options)


def identity() -> sa.Column[int]:
    """The column `id`, whose values the database gives."""
    return sa.Column("id", BIG, primary_key=True, autoincrement=True)


def key(name: str, type_: Any) -> sa.Column[int]:
    """A primary key whose values are given to the database."""
    return sa.Column(name, type_, primary_key=True, autoincrement=False)


def required(type_: Any, *names: str, default: Any = None) -> list[sa.Column[Any]]:
    """Columns that are never null."""
    return [sa.Column(name, type_, nullable=False, server_default=default) for name in names]


def optional(type_: Any, *names: str) -> list[sa.Column[Any]]:
    """Columns that may be null."""
    return [sa.Column(name, type_, nullable=True) for name in names]


def reference(name: str, target: str, *, ondelete: str = "CASCADE", nullable: bool = False) -> sa.Column[int]:
    """A column with a foreign key."""
    return sa.Column(name, BIG, sa.ForeignKey(target, ondelete=ondelete), nullable=nullable)


def account_id() -> sa.Column[int]:
    """The account that the row belongs to."""
    return reference("account_id", "accounts.id")


def index(name: str, *columns: Any, where: str | None = None, sqlite: str | None = None, **options: Any) -> sa.Index:
    """An index, of the rows that meet the condition; `sqlite` is the condition as it is written there."""
    if where is not None:
        options |= {"postgresql_where": sa.text(where), "sqlite_where": sa.text(sqlite or where)}
    return sa.Index(name, *columns, **options)


table(
    "accounts",
    identity(),
    *required(TEXT, "name"),
    *optional(TEXT, "owner_email"),
    *required(FLAG, "owner_confirmed"),
    *required(JSON, "allowed_networks"),
    *optional(TEXT, "default_from_name", "default_from_address", "rate_limit"),
    *required(TIME, "creation_time", "last_modified_time"),
    *required(FLAG, "track_opens", "track_clicks", default=sa.true()),
    *required(TEXT, "time_zone", default="UTC"),
    *required(TEXT, "email_priority", "sms_priority", default="normal"),
    *required(FLAG, "machine_events", default=sa.false()),
    *optional(BIG, "test_of"),
    *optional(TEXT, "retain_content", "retain_recipients"),
    *required(FLAG, "has_digests", default=sa.false()),
    *optional(TEXT, "retain_captured", "retain_logs", "retain_audit", "brand_name", "brand_colour"),
    sa.UniqueConstraint("name"),
    index("ix_accounts_test_of", "test_of", unique=True),
)
table(
    "audit_entries",
    identity(),
    *required(TIME, "time"),
    *optional(BIG, "account_id"),
    *required(TEXT, "action", "object"),
    *optional(TEXT, "object_id", "object_name", "address_digest"),
    *required(TEXT, "actor_kind", "actor"),
    *optional(BIG, "key_id"),
    *optional(TEXT, "source", "via", "request_id"),
    *required(JSON, "changes", "counts"),
    index("ix_audit_entries_account", "account_id", "time", "id"),
    index("ix_audit_entries_action", "action", "time", "id"),
    index("ix_audit_entries_actor", "actor", "time", "id"),
    index("ix_audit_entries_address", "address_digest", "time", "id", where="address_digest IS NOT NULL"),
    index("ix_audit_entries_object", "object", "object_id", "time", "id"),
    index("ix_audit_entries_page", "time", "id"),
    index("ix_audit_entries_request_id", "request_id", "time", "id"),
)
table(
    "audit_seals",
    key("number", BIG),
    *required(BIG, "first_number", "entry_id"),
    *required(TIME, "time"),
    *required(SMALL, "key_id"),
    *required(TEXT, "digest", "hash"),
    *optional(TIME, "purged_time"),
    *optional(TEXT, "purged_mark"),
    sa.UniqueConstraint("entry_id"),
    sa.UniqueConstraint("first_number"),
)
table(
    "digest_key",
    key("id", SMALL),
    *required(TEXT, "key"),
)
table(
    "event_rotation",
    key("id", SMALL),
    *required(SMALL, "slot"),
    *required(BIG, "since_id"),
    *required(TIME, "since_time"),
)
table(
    "processes",
    *required(TEXT, "name", "roles", "host", "version"),
    *required(TIME, "start_time", "seen_time"),
    *optional(TEXT, "secret_keys"),
    sa.PrimaryKeyConstraint("name"),
)
table(
    "remains",
    key("id", SMALL),
    *required(TIME, "since_time"),
)
table(
    "routing_version",
    key("id", SMALL),
    *required(TEXT, "version"),
)
table(
    "schema_state",
    key("id", SMALL),
    *required(TEXT, "oldest_code", "code_in_use"),
)
table(
    "transports",
    identity(),
    *required(TEXT, "name", "type"),
    *required(TIME, "creation_time", "last_modified_time"),
    *required(TEXT, "url"),
    *required(FLAG, "enabled"),
    *optional(NUMBER, "connections"),
    *optional(REAL, "messages_per_second"),
    *required(FLAG, "any_account"),
    sa.UniqueConstraint("name"),
)
table(
    "account_hosts",
    identity(),
    account_id(),
    *required(TEXT, "host", "proof"),
    *required(TIME, "creation_time"),
    *optional(TIME, "released_time"),
    sa.UniqueConstraint("account_id", "host"),
    index("ix_account_hosts_held", "host", unique=True, where="released_time IS NULL"),
    index("ix_account_hosts_host", "host"),
)
table(
    "api_keys",
    identity(),
    account_id(),
    *required(TEXT, "name", "token_hash", "token_hint", "access_level"),
    *required(TIME, "creation_time"),
    *optional(TIME, "expiry_time", "revoked_time", "last_used_time"),
    *optional(TEXT, "former_name"),
    *optional(TIME, "valid_until"),
    sa.UniqueConstraint("account_id", "name"),
    sa.UniqueConstraint("token_hash"),
)
table(
    "automation_step_counts",
    *required(BIG, "step_id"),
    *required(TEXT, "result"),
    *required(SMALL, "slot"),
    account_id(),
    *required(BIG, "passed"),
    sa.PrimaryKeyConstraint("step_id", "result", "slot"),
)
table(
    "blocked_addresses",
    identity(),
    account_id(),
    *required(TEXT, "kind", "address", "reason"),
    *required(TIME, "creation_time"),
    *optional(TEXT, "reply"),
    sa.UniqueConstraint("account_id", "kind", "address"),
    index(
        "ix_blocked_addresses_non_ascii",
        "id",
        where="octet_length(address) <> char_length(address)",
        sqlite="length(CAST(address AS BLOB)) <> length(address)",
    ),
    index("ix_blocked_addresses_page", "account_id", "creation_time", "id"),
)
table(
    "bulk_actions",
    identity(),
    account_id(),
    *required(TEXT, "action", "query", "asked_by", "state"),
    *required(TIME, "creation_time", "due_time"),
    *optional(TIME, "end_time"),
    *required(BIG, "messages"),
    *required(TIME, "newest_time"),
    *required(BIG, "newest_id"),
    *optional(TIME, "last_time"),
    *optional(BIG, "last_id"),
    *required(BIG, "done"),
    *required(JSON, "left_out"),
    index("ix_bulk_actions_due", "due_time", "id", where="end_time IS NULL"),
    index("ix_bulk_actions_end_time", "end_time"),
    index("ix_bulk_actions_open", "account_id", where="end_time IS NULL"),
    index("ix_bulk_actions_page", "account_id", "creation_time", "id"),
)
table(
    "captured_messages",
    identity(),
    account_id(),
    *required(BIG, "recipient_id"),
    *required(FLAG, "is_copy"),
    *required(TEXT, "uuid", "type", "sender", "address"),
    *optional(TEXT, "subject"),
    *required(BYTES, "content"),
    *required(TIME, "captured_time"),
    *optional(TEXT, "simulates"),
    *optional(TIME, "simulate_time"),
    sa.UniqueConstraint("recipient_id", "is_copy"),
    index("ix_captured_messages_account", "account_id", "id"),
    index("ix_captured_messages_address", "account_id", "address", "id"),
    index("ix_captured_messages_page", "account_id", "captured_time", "id"),
    index("ix_captured_messages_simulate", "simulate_time", where="simulate_time IS NOT NULL"),
    index("ix_captured_messages_time", "captured_time"),
)
table(
    "console_links",
    identity(),
    *required(TEXT, "token_hash"),
    reference("account_id", "accounts.id", nullable=True),
    *required(TEXT, "made_by"),
    *required(TIME, "end_time"),
    sa.UniqueConstraint("token_hash"),
    index("ix_console_links_end_time", "end_time"),
)
table(
    "contact_counts",
    *required(BIG, "list_id"),
    *required(SMALL, "slot"),
    account_id(),
    *required(BIG, "contacts"),
    sa.PrimaryKeyConstraint("list_id", "slot"),
)
table(
    "domain_backoffs",
    identity(),
    account_id(),
    *required(TEXT, "sender_domain", "domain"),
    *required(NUMBER, "failures"),
    *required(TIME, "until_time"),
    sa.UniqueConstraint("account_id", "sender_domain", "domain"),
    index("ix_domain_backoffs_until_time", "until_time"),
)
table(
    "domains",
    identity(),
    account_id(),
    *required(TEXT, "name"),
    *required(TIME, "creation_time"),
    *optional(TIME, "verified_time"),
    *required(FLAG, "trusted", default=sa.false()),
    *optional(TIME, "checked_time"),
    *optional(JSON, "findings"),
    *optional(TEXT, "tracking_host"),
    *required(FLAG, "tracking_host_ready", default=sa.false()),
    *optional(TEXT, "return_path_host"),
    *required(FLAG, "return_path_host_ready", default=sa.false()),
    sa.UniqueConstraint("account_id", "name"),
)
table(
    "group_counts",
    *required(BIG, "group_id"),
    *required(SMALL, "slot"),
    account_id(),
    *optional(TIME, "last_sent_time"),
    *required(BIG, "sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed"),
    sa.PrimaryKeyConstraint("group_id", "slot"),
)
table(
    "hook_tokens",
    *required(TEXT, "token"),
    account_id(),
    *required(TEXT, "fingerprint"),
    *required(TIME, "time"),
    sa.PrimaryKeyConstraint("token"),
    index("ix_hook_tokens_time", "time"),
)
table(
    "hourly_counts",
    *required(BIG, "group_id"),
    *required(TIME, "hour"),
    *required(SMALL, "slot"),
    account_id(),
    *required(BIG, "sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed"),
    sa.PrimaryKeyConstraint("group_id", "hour", "slot"),
    index("ix_hourly_counts_account", "account_id", "hour"),
    index("ix_hourly_counts_hour", "hour"),
)
table(
    "idempotency_records",
    identity(),
    account_id(),
    *required(TEXT, "key", "fingerprint"),
    *required(TIME, "creation_time"),
    *optional(NUMBER, "status"),
    *optional(TEXT, "body", "holder"),
    *optional(TIME, "lease_time"),
    sa.UniqueConstraint("account_id", "key"),
    index("ix_idempotency_records_time", "creation_time"),
)
table(
    "inbound_records",
    identity(),
    account_id(),
    *required(TEXT, "fingerprint", "kind"),
    *required(TIME, "time"),
    sa.UniqueConstraint("account_id", "fingerprint"),
    index("ix_inbound_records_time", "time"),
)
table(
    "lists",
    identity(),
    account_id(),
    *optional(TEXT, "name"),
    *required(FLAG, "system", "allow_duplicates"),
    *required(JSON, "stop_words"),
    *required(TIME, "creation_time", "last_modified_time"),
    *required(FLAG, "has_automations", default=sa.false()),
    *optional(BIG, "copy_of"),
    index("ix_lists_copy_of", "account_id", "copy_of", unique=True, where="copy_of IS NOT NULL"),
    index("ix_lists_page", "account_id", "creation_time", "id"),
)
table(
    "messages",
    identity(),
    account_id(),
    *required(TEXT, "name", "type"),
    *optional(TEXT, "subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_html", "body_text"),
    *required(TIME, "creation_time", "last_modified_time"),
    *optional(BIG, "copy_of"),
    index("ix_messages_copy_of", "account_id", "copy_of", unique=True, where="copy_of IS NOT NULL"),
    index("ix_messages_page", "account_id", "creation_time", "id"),
)
table(
    "network_checks",
    identity(),
    account_id(),
    *required(TEXT, "kind"),
    *required(BIG, "object_id"),
    *required(TEXT, "asked_by"),
    *required(TIME, "creation_time"),
    *optional(TIME, "lease_time"),
    sa.UniqueConstraint("account_id", "kind", "object_id"),
)
table(
    "purge_positions",
    account_id(),
    *required(TEXT, "stage"),
    *required(BIG, "send_id"),
    sa.PrimaryKeyConstraint("account_id", "stage"),
)
table(
    "relay_refusals",
    identity(),
    account_id(),
    *required(TEXT, "transport"),
    *required(JSON, "domains"),
    *required(TEXT, "reply"),
    *required(TIME, "first_time", "last_time"),
    *optional(TIME, "noticed_time", "until_time"),
    *required(NUMBER, "bounced", "failures"),
    *optional(BIG, "probe_id"),
    *optional(TIME, "ended_time"),
    index("ix_relay_refusals_last_time", "last_time"),
    index("ix_relay_refusals_open", "account_id", "transport", unique=True, where="ended_time IS NULL"),
)
table(
    "reply_parts",
    identity(),
    account_id(),
    *required(TEXT, "number", "mobile"),
    *required(NUMBER, "reference", "total", "position", "coding"),
    *required(BYTES, "body"),
    *required(TIME, "time"),
    *required(FLAG, "recorded"),
    sa.UniqueConstraint(
        "account_id", "number", "mobile", "reference", "total", "position", name="uq_reply_parts_position"
    ),
    index("ix_reply_parts_time", "time"),
)
table(
    "routes",
    identity(),
    *required(TEXT, "name", "type"),
    *required(TIME, "creation_time", "last_modified_time"),
    *required(NUMBER, "position"),
    reference("account_id", "accounts.id", nullable=True),
    *optional(TEXT, "sender_domain", "priority"),
    *required(JSON, "country_prefixes", "transports"),
    sa.UniqueConstraint("name"),
)
table(
    "send_queue",
    key("recipient_id", BIG),
    account_id(),
    *required(TEXT, "priority", "state"),
    *required(TIME, "due_time"),
    *optional(TIME, "lease_time"),
    *optional(TEXT, "worker"),
    *required(NUMBER, "attempts"),
    *optional(NUMBER, "rendered_bytes"),
    *required(TIME, "ready_time"),
    *optional(TEXT, "held_state", "type", "secret_values"),
    *optional(BIG, "pause_id"),
    index("ix_send_queue_due", "account_id", "priority", "due_time", "recipient_id", where="state = 'queued'"),
    index("ix_send_queue_held", "recipient_id", where="state = 'held'"),
    index("ix_send_queue_lease", "lease_time", where="state = 'sending'"),
    index("ix_send_queue_paused", "pause_id", "recipient_id", where="state = 'paused'"),
    index("ix_send_queue_ready", "ready_time", where="state = 'queued' AND attempts >= 0"),
    index("ix_send_queue_uncertain", "due_time", where="state = 'uncertain'"),
    postgresql_with={
        "fillfactor": 50,
        "autovacuum_vacuum_scale_factor": 0,
        "autovacuum_vacuum_threshold": 1000,
        "autovacuum_vacuum_insert_threshold": -1,
        "autovacuum_vacuum_cost_delay": 0,
        "autovacuum_analyze_scale_factor": 0,
        "autovacuum_analyze_threshold": 5000,
        "vacuum_truncate": "false",
    },
)
table(
    "sends",
    identity(),
    account_id(),
    *required(TEXT, "request_id"),
    *required(TIME, "creation_time"),
    *required(TEXT, "type"),
    *optional(BIG, "list_id"),
    *required(BIG, "group_id"),
    *required(TEXT, "group_name"),
    *optional(BIG, "message_id"),
    *optional(TEXT, "unsubscribe_type", "subject", "from_name"),
    *required(TEXT, "from_address"),
    *optional(TEXT, "reply_to", "bcc_address", "body_html", "body_text"),
    *required(FLAG, "include_unsubscribed", "recipient_data_html_encoded"),
    *required(FLAG, "track_opens", "track_clicks", "track_secrets", default=sa.false()),
    *required(TEXT, "priority", default="normal"),
    *optional(BIG, "automation_id", "step_id"),
    *optional(TEXT, "transport"),
    *optional(TIME, "content_purged_time"),
    index("ix_sends_account", "account_id", "id"),
    index("ix_sends_bcc_address", "account_id", sa.text("lower(bcc_address)"), "id", where="bcc_address IS NOT NULL"),
    index("ix_sends_reply_to", "account_id", sa.text("lower(reply_to)"), "id", where="reply_to IS NOT NULL"),
    postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 20000},
)
table(
    "soft_bounces",
    identity(),
    account_id(),
    *required(TEXT, "kind", "address"),
    *required(NUMBER, "bounces"),
    *optional(BIG, "reset_by"),
    sa.UniqueConstraint("account_id", "kind", "address"),
    index(
        "ix_soft_bounces_non_ascii",
        "id",
        where="octet_length(address) <> char_length(address)",
        sqlite="length(CAST(address AS BLOB)) <> length(address)",
    ),
)
table(
    "transactional_groups",
    identity(),
    account_id(),
    *required(TEXT, "type", "name"),
    *required(TIME, "creation_time", "last_sent_time"),
    *required(BIG, "sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed"),
    sa.UniqueConstraint("account_id", "name"),
    index("ix_transactional_groups_page", "account_id", "creation_time", "id"),
)
table(
    "transport_accounts",
    reference("transport_id", "transports.id"),
    account_id(),
    sa.PrimaryKeyConstraint("transport_id", "account_id"),
)
table(
    "trigger_firings",
    identity(),
    account_id(),
    *required(BIG, "list_id", "contact_id"),
    *required(TEXT, "action"),
    *required(TIME, "time"),
    index("ix_trigger_firings_account", "account_id", "id"),
    index("ix_trigger_firings_time", "time"),
)
table(
    "webhooks",
    identity(),
    account_id(),
    *required(TEXT, "url"),
    *required(TIME, "creation_time", "due_time"),
    *optional(TIME, "lease_time"),
    *optional(TEXT, "worker"),
    *required(NUMBER, "failures"),
    *optional(TEXT, "batch_id"),
    *required(NUMBER, "dropped_events"),
    *optional(TIME, "first_failed_time"),
    *required(BIG, "position", default="0"),
    *optional(BIG, "batch_end"),
    *required(BIG, "complete_to", default="0"),
    *optional(JSON, "chosen_events", "chosen_lists"),
    *optional(TIME, "failing_since", "outage_reported_time"),
    *optional(BIG, "held_to"),
    *optional(TEXT, "barred"),
    sa.UniqueConstraint("account_id", "url"),
)
table(
    "attachments",
    identity(),
    account_id(),
    reference("send_id", "sends.id"),
    *optional(BIG, "recipient_id"),
    *required(NUMBER, "position"),
    *required(TEXT, "name", "mime_type", "content_id"),
    *required(BYTES, "content"),
    index("ix_attachments_send", "send_id"),
)
table(
    "automations",
    identity(),
    account_id(),
    *required(TEXT, "name", "kind"),
    reference("list_id", "lists.id"),
    *required(TEXT, "action", "state"),
    *required(NUMBER, "version"),
    *optional(TIME, "paused_time"),
    *optional(TEXT, "release"),
    *required(BIG, "shifted_seconds"),
    *required(TIME, "creation_time", "last_modified_time"),
    sa.UniqueConstraint("account_id", "name"),
    index("ix_automations_list", "list_id"),
    index("ix_automations_page", "account_id", "creation_time", "id"),
    index("ix_automations_release", "id", where="release IS NOT NULL"),
)
table(
    "console_sessions",
    identity(),
    *required(TEXT, "token_hash"),
    reference("account_id", "accounts.id", nullable=True),
    reference("key_id", "api_keys.id", nullable=True),
    *required(TEXT, "name"),
    *required(TIME, "creation_time", "end_time"),
    sa.UniqueConstraint("token_hash"),
    index("ix_console_sessions_end_time", "end_time"),
    index("ix_console_sessions_key_id", "key_id"),
)
table(
    "contact_imports",
    identity(),
    account_id(),
    reference("list_id", "lists.id"),
    *required(TEXT, "digest", "options"),
    *required(BIG, "rows_done", "created", "updated"),
    *optional(TIME, "end_time"),
    *required(TIME, "creation_time", "last_modified_time"),
    *required(BIG, "left_out", default="0"),
    sa.UniqueConstraint("list_id", "digest"),
    index("ix_contact_imports_time", "last_modified_time"),
)
table(
    "contacts",
    identity(),
    account_id(),
    reference("list_id", "lists.id"),
    *optional(TEXT, "email", "email_key", "mobile", "identifier"),
    *required(FLAG, "subscribed_email", "subscribed_mobile", "is_active", "double_opt_in"),
    *optional(TIME, "double_opt_in_time"),
    *required(JSON, "values"),
    *required(TIME, "creation_time", "last_modified_time"),
    sa.UniqueConstraint("list_id", "identifier"),
    index("ix_contacts_account_email", "account_id", "email_key"),
    index("ix_contacts_account_mobile", "account_id", "mobile"),
    index(
        "ix_contacts_double_opt_in", "list_id", "creation_time", "id", where="double_opt_in", sqlite="double_opt_in = 1"
    ),
    index(
        "ix_contacts_double_opt_in_time", "list_id", "double_opt_in_time", "id", where="double_opt_in_time IS NOT NULL"
    ),
    index("ix_contacts_email", "list_id", "email_key"),
    index("ix_contacts_inactive", "list_id", "creation_time", "id", where="NOT is_active", sqlite="is_active = 0"),
    index("ix_contacts_mobile", "list_id", "mobile"),
    index("ix_contacts_modified", "list_id", "last_modified_time", "id", where="last_modified_time <> creation_time"),
    index(
        "ix_contacts_non_ascii",
        "id",
        where="octet_length(email_key) <> char_length(email_key)",
        sqlite="length(CAST(email_key AS BLOB)) <> length(email_key)",
    ),
    index("ix_contacts_other_identifier", "account_id", "id", where="identifier <> email_key"),
    index("ix_contacts_page", "list_id", "creation_time", "id"),
    index(
        "ix_contacts_unsubscribed",
        "list_id",
        "creation_time",
        "id",
        where="NOT subscribed_email OR NOT subscribed_mobile",
        sqlite="subscribed_email = 0 OR subscribed_mobile = 0",
    ),
    index(
        "ix_contacts_unsubscribed_email",
        "list_id",
        "creation_time",
        "id",
        where="NOT subscribed_email",
        sqlite="subscribed_email = 0",
    ),
    index(
        "ix_contacts_unsubscribed_mobile",
        "list_id",
        "creation_time",
        "id",
        where="NOT subscribed_mobile",
        sqlite="subscribed_mobile = 0",
    ),
    index("ix_contacts_values", "values", postgresql_using="gin", postgresql_ops={"values": "jsonb_path_ops"}).ddl_if(
        dialect="postgresql"
    ),
)
table(
    "delayed_purges",
    reference("send_id", "sends.id"),
    *required(TEXT, "stage"),
    account_id(),
    *required(TIME, "since"),
    sa.PrimaryKeyConstraint("send_id", "stage"),
    index("ix_delayed_purges_since", "account_id", "stage", "since"),
)
table(
    "dkim_keys",
    identity(),
    account_id(),
    reference("domain_id", "domains.id"),
    *required(TEXT, "selector", "algorithm", "private_key", "public_key"),
    *required(TIME, "creation_time"),
    *required(TEXT, "state", default="active"),
    *optional(TIME, "retired_time"),
    sa.UniqueConstraint("domain_id", "selector"),
)
table(
    "domain_reports",
    identity(),
    account_id(),
    reference("domain_id", "domains.id"),
    *required(TEXT, "kind", "reporter", "report_id"),
    *required(TIME, "begin_time", "end_time", "time"),
    *required(BIG, "passed", "failed"),
    *required(JSON, "content"),
    *required(NUMBER, "size", default="0"),
    sa.UniqueConstraint("domain_id", "kind", "reporter", "report_id"),
    index("ix_domain_reports_domain_id_time", "domain_id", "time"),
    index("ix_domain_reports_time", "time"),
)
table(
    "list_fields",
    identity(),
    account_id(),
    reference("list_id", "lists.id"),
    *required(NUMBER, "position"),
    *required(TEXT, "name", "key", "type"),
    *required(JSON, "options"),
    sa.UniqueConstraint("list_id", "key"),
    index("ix_list_fields_order", "list_id", "position"),
)
table(
    "message_versions",
    identity(),
    account_id(),
    reference("message_id", "messages.id"),
    *required(NUMBER, "number"),
    *required(TIME, "time"),
    *optional(TEXT, "actor_kind", "actor", "via"),
    *required(JSON, "changed"),
    *required(TEXT, "name"),
    *optional(TEXT, "subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_html", "body_text"),
    sa.UniqueConstraint("message_id", "number"),
)
table(
    "recipients",
    identity(),
    *required(TEXT, "uuid"),
    account_id(),
    reference("send_id", "sends.id"),
    *required(BIG, "group_id"),
    *optional(BIG, "message_id", "list_id", "contact_id"),
    *required(TEXT, "type"),
    *optional(TEXT, "email", "mobile"),
    *required(JSON, "values"),
    *required(TEXT, "state"),
    *optional(TEXT, "reason"),
    *required(TIME, "creation_time"),
    *required(NUMBER, "attempts"),
    *optional(TIME, "sent_time", "first_open_time", "last_open_time"),
    *required(TEXT, "open_type"),
    *optional(TIME, "first_click_time", "complaint_time"),
    *optional(NUMBER, "segments"),
    *optional(TEXT, "gateway_id"),
    *required(NUMBER, "further_visits", default=sa.text("0")),
    *optional(NUMBER, "rendered_bytes"),
    sa.UniqueConstraint("uuid").ddl_if(dialect="sqlite"),
    index(
        "ix_recipients_by_contact", "account_id", "contact_id", "creation_time", "id", where="contact_id IS NOT NULL"
    ),
    index(
        "ix_recipients_by_email",
        "account_id",
        sa.text("lower(email)"),
        "creation_time",
        "id",
        where="email IS NOT NULL",
    ),
    index("ix_recipients_by_group", "account_id", "group_id", "creation_time", "id"),
    index("ix_recipients_by_list", "account_id", "list_id", "creation_time", "id", where="list_id IS NOT NULL"),
    index(
        "ix_recipients_by_message", "account_id", "message_id", "creation_time", "id", where="message_id IS NOT NULL"
    ),
    index("ix_recipients_by_mobile", "account_id", "mobile", "creation_time", "id", where="mobile IS NOT NULL"),
    index("ix_recipients_by_outcome", "account_id", "state", "creation_time", "id", where="state <> 'queued'"),
    index("ix_recipients_by_send_time", "account_id", "sent_time", "id", where="sent_time IS NOT NULL"),
    index("ix_recipients_gateway_id", "gateway_id", where="gateway_id IS NOT NULL"),
    index("ix_recipients_last_sms", "mobile", "sent_time", where="type = 'sms' AND sent_time IS NOT NULL"),
    index("ix_recipients_page", "account_id", "creation_time", "id"),
    index("ix_recipients_send", "send_id"),
    index(
        "ix_recipients_sent_by_contact",
        "message_id",
        "contact_id",
        "sent_time",
        "id",
        where="message_id IS NOT NULL AND sent_time IS NOT NULL",
    ),
    index(
        "ix_recipients_sent_by_group",
        "message_id",
        "group_id",
        "sent_time",
        "contact_id",
        "id",
        where="message_id IS NOT NULL AND sent_time IS NOT NULL",
    ),
    index(
        "ix_recipients_sent_by_list",
        "message_id",
        "list_id",
        "sent_time",
        "contact_id",
        "id",
        where="message_id IS NOT NULL AND sent_time IS NOT NULL",
    ),
    index(
        "ix_recipients_sent_by_open_type",
        "message_id",
        "open_type",
        "sent_time",
        "contact_id",
        "id",
        where="message_id IS NOT NULL AND sent_time IS NOT NULL",
    ),
    index(
        "ix_recipients_sent_by_opening",
        "message_id",
        "first_open_time",
        "id",
        where="message_id IS NOT NULL AND sent_time IS NOT NULL AND first_open_time IS NOT NULL",
    ),
    index(
        "ix_recipients_sent_contacts",
        "message_id",
        "sent_time",
        "contact_id",
        where="message_id IS NOT NULL AND sent_time IS NOT NULL",
    ),
    index("ix_recipients_uuid", "uuid").ddl_if(dialect="postgresql"),
    postgresql_partition_by="RANGE (id)",
)
table(
    "send_links",
    identity(),
    account_id(),
    reference("send_id", "sends.id"),
    *required(TEXT, "link_type", "url"),
    sa.UniqueConstraint("send_id", "link_type", "url"),
)
table(
    "send_pauses",
    identity(),
    reference("account_id", "accounts.id", nullable=True),
    *required(TEXT, "kind"),
    reference("list_id", "lists.id", ondelete="SET NULL", nullable=True),
    *optional(TEXT, "domain", "reason"),
    *required(TEXT, "paused_by"),
    *required(TIME, "creation_time"),
    *optional(TIME, "resumed_time"),
    index("ix_send_pauses_account", "account_id", "id"),
    index("ix_send_pauses_everywhere", "domain", unique=True, where="account_id IS NULL AND resumed_time IS NULL"),
    index("ix_send_pauses_list_id", "list_id", where="list_id IS NOT NULL"),
    index("ix_send_pauses_resumed", "id", where="resumed_time IS NOT NULL"),
)
table(
    "sms_senders",
    identity(),
    account_id(),
    *required(TEXT, "address", "kind"),
    reference("list_id", "lists.id", ondelete="SET NULL", nullable=True),
    *required(TIME, "creation_time"),
    *optional(REAL, "messages_per_second"),
    sa.UniqueConstraint("account_id", "address"),
)
table(
    "unsubscribers",
    identity(),
    account_id(),
    reference("list_id", "lists.id", nullable=True),
    *required(TEXT, "kind", "address"),
    *required(TIME, "creation_time"),
    index("ix_unsubscribers_address", "account_id", "kind", "address"),
    index(
        "ix_unsubscribers_non_ascii",
        "id",
        where="octet_length(address) <> char_length(address)",
        sqlite="length(CAST(address AS BLOB)) <> length(address)",
    ),
    index("ix_unsubscribers_page", "account_id", "creation_time", "id"),
    index("uq_unsubscribers_account", "account_id", "kind", "address", unique=True, where="list_id IS NULL"),
    index(
        "uq_unsubscribers_list", "account_id", "kind", "address", "list_id", unique=True, where="list_id IS NOT NULL"
    ),
)
table(
    "webhook_attempts",
    identity(),
    account_id(),
    reference("webhook_id", "webhooks.id"),
    *required(TEXT, "batch_id"),
    *required(TIME, "time"),
    *required(NUMBER, "events"),
    *optional(NUMBER, "status"),
    *required(TEXT, "outcome"),
    *optional(TEXT, "detail"),
    *required(NUMBER, "milliseconds"),
    *optional(BIG, "after_event", "last_event"),
    *optional(TEXT, "answer"),
    index("ix_webhook_attempts_time", "time"),
    index("ix_webhook_attempts_webhook", "webhook_id", "id"),
)
table(
    "webhook_secrets",
    identity(),
    account_id(),
    reference("webhook_id", "webhooks.id"),
    *required(TEXT, "key_id", "secret"),
    *required(TIME, "creation_time"),
    sa.UniqueConstraint("webhook_id", "key_id"),
)
table(
    "automation_steps",
    key("id", BIG),
    account_id(),
    reference("automation_id", "automations.id"),
    *required(TEXT, "name", "kind"),
    sa.UniqueConstraint("automation_id", "name"),
)
table(
    "automation_versions",
    identity(),
    account_id(),
    reference("automation_id", "automations.id"),
    *required(NUMBER, "number"),
    *required(JSON, "definition"),
    *required(TIME, "creation_time"),
    sa.UniqueConstraint("automation_id", "number"),
)
table(
    "automation_runs",
    identity(),
    account_id(),
    reference("automation_id", "automations.id"),
    reference("version_id", "automation_versions.id"),
    *required(BIG, "list_id", "contact_id", "entry_key"),
    *required(TIME, "trigger_time"),
    *required(TEXT, "state"),
    *optional(TEXT, "reason", "step"),
    *optional(TIME, "step_time"),
    *required(TIME, "due_time"),
    *required(NUMBER, "attempts"),
    *required(FLAG, "skips_next"),
    *required(BIG, "shifted_seconds"),
    *optional(BIG, "watched_step"),
    *optional(TEXT, "watched_event"),
    *optional(TIME, "end_time"),
    sa.UniqueConstraint("automation_id", "contact_id", "entry_key"),
    index("ix_automation_runs_contact", "contact_id", where="state <> 'ended'"),
    index("ix_automation_runs_due", "account_id", "due_time", "id", where="state = 'waiting'"),
    index("ix_automation_runs_ended", "end_time", where="state = 'ended' AND entry_key <> 0"),
    index("ix_automation_runs_live", "automation_id", "state", "step", where="state <> 'ended'"),
    index("ix_automation_runs_next", "due_time", where="state = 'waiting'"),
    index("ix_automation_runs_page", "automation_id", "trigger_time", "id"),
)
table(
    "automation_passed_steps",
    identity(),
    account_id(),
    reference("run_id", "automation_runs.id"),
    *required(BIG, "step_id"),
    *required(TIME, "time"),
    *required(TEXT, "result"),
    *optional(TEXT, "detail"),
    *optional(BIG, "recipient_id"),
    sa.UniqueConstraint("run_id", "step_id"),
    index("ix_automation_passed_steps_recipient", "recipient_id", where="recipient_id IS NOT NULL"),
)
table(
    "events",
    identity(),
    *required(SMALL, "slot"),
    account_id(),
    *required(BIG, "webhook_id"),
    *required(TEXT, "payload"),
    index("ix_events_webhook", "webhook_id", "id"),
)
table(
    "recipient_steps",
    identity(),
    account_id(),
    *required(BIG, "recipient_id"),
    *required(TIME, "time"),
    *required(TEXT, "step"),
    *optional(TEXT, "detail", "note", "transport", "country"),
    sa.ForeignKeyConstraint(["recipient_id"], ["recipients.id"], ondelete="CASCADE").ddl_if(dialect="sqlite"),
    index("ix_recipient_steps_recipient", "recipient_id", "id"),
)
