"""Which tests run over one of the two databases (docs/development.md#suites).

The fixture `settings` runs a test over SQLite and over PostgreSQL. What the files below prove asks nothing of the
database that other tests do not ask: what a request, a command or a page says, what becomes of a message outside of
the database, and what is decided in Python. Their tests run over SQLite; one of sixteen also runs over PostgreSQL, so
that a file which does not belong here is noticed.
`BOTH_DATABASES=on make test` runs every test over both, as `make verify` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from zlib import crc32

import pytest

ONE_DATABASE = (
    *(
        f"tests/api/test_{name}.py"
        for name in (
            *("additions", "answers", "auth_and_order", "automations", "bodies", "contacts_create"),
            *("contacts_delete", "contacts_events", "contacts_subscriptions", "contacts_update", "docs", "dry_run"),
            *("errors", "field_vocabulary", "health", "home", "hosts", "idempotency_header", "inbox", "isolation"),
            *("kannel", "key_uses", "lists", "mail_headers", "management", "openapi", "openapi_clients"),
            *("openapi_empty", "pages", "preferences", "proxies", "rate_limit", "readiness", "redis_away"),
            *("relay_hooks", "root", "routes", "sendgrid", "sends_email", "sends_rules", "sends_sms", "tracking"),
            *("unsubscribe",),
        )
    ),
    *(
        f"tests/api/test_console_{name}.py"
        for name in (
            *("accounts", "automations", "bulk_actions", "contact_import", "contacts", "content", "domains"),
            *("every_page", "groups", "held_messages", "inbox", "keys", "lists", "message_versions", "messages"),
            *("names", "navigation", "notices", "overview", "pauses", "people", "provider", "questions", "queues"),
            *("signing", "stored_messages", "webhooks"),
        )
    ),
    *(
        f"tests/cli/test_{name}.py"
        for name in (
            *("accounts", "audit_repeats", "automation_runs", "automations", "base", "console", "contact_counts"),
            *("contact_import", "contacts", "documentation", "domain_reports", "domains", "explain", "forget", "holds"),
            *("inbound_email", "inbound_sms", "inbox", "keys", "lists", "message_versions", "messages", "pauses"),
            *("refusing_relays", "seed", "sends", "simulate", "status", "strangers", "suppressions", "tms"),
            *("transports", "webhooks"),
        )
    ),
    *(
        f"tests/jobs/delivery/test_{name}.py"
        for name in (
            *("bounds", "building_ahead", "causes_of_suppressions", "content", "copies", "domain_backoff"),
            *("draining", "failover", "fairness", "feedback_channels", "hostile_answers", "journal_trouble"),
            *("listener", "long_replies", "magic_story", "mail_reports", "outcomes", "pauses", "plugin_transport"),
            *("preferences_story", "priority", "proven", "rate", "refusing_relays", "requirements", "routes"),
            *("sender_hosts", "signing", "skips", "sms_gateway", "suppressions_story", "tracking"),
            *("transport_metrics", "uncertain"),
        )
    ),
    *(
        f"tests/jobs/test_{name}.py"
        for name in (
            *("contact_wildcards", "copied_ids", "dry_run_equals_send", "explained", "host_metrics", "magic"),
            *("metrics", "network_checks", "one_address", "secret_values", "skipping", "tags", "test_keys", "traces"),
            *("webhook_choices", "webhook_registration", "webhooks"),
        )
    ),
    *(
        f"tests/jobs/automations/test_{name}.py"
        for name in ("advanced", "changes", "entry", "examples", "operations", "pauses", "story", "time")
    ),
    *(f"tests/databases/test_{name}.py" for name in ("audit_seals", "bulk_actions", "figures")),
    *(f"tests/jobs/submission/test_{name}.py" for name in ("again", "login", "mails", "refused")),
    "tests/imports/",
    "tests/unit/seed/",
)
"""Files of tests, and folders of such files."""
SAMPLE = 16
"""One of so many tests of `ONE_DATABASE` runs over both databases."""
VARIABLE = "BOTH_DATABASES"


BACKENDS = ("sqlite", "postgresql")


def backend(item: pytest.Item) -> str | None:
    """The database that a test asks for, by `settings` or by a fixture of its own: PostgreSQL if it asks for both."""
    params = list(item.callspec.params.values()) if hasattr(item, "callspec") else []
    return next((name for name in reversed(BACKENDS) if name in params), None)


def spared(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The tests that do not run, because they prove the same as those over the other database."""
    return {item for item in items if is_spared(item.nodeid, backend(item))}


def is_spared(nodeid: str, database: str | None) -> bool:
    """Whether the test of that name does not run over that database."""
    if database != "postgresql" or os.environ.get(VARIABLE):
        return False
    return nodeid.startswith(ONE_DATABASE) and crc32(nodeid.encode()) % SAMPLE != 0
