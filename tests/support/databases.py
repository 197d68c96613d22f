"""Which tests run over one of the two databases (docs/development.md#suites).

The fixture `settings` runs a test over SQLite and over PostgreSQL. What the files below prove asks nothing of the
database: what a request, a command or a page says, and what becomes of a message outside of it. Their tests run over
SQLite; one of eight also runs over PostgreSQL, so that a file which does not belong here is noticed.
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
            *("answers", "auth_and_order", "bodies", "docs", "dry_run", "errors", "field_vocabulary", "hosts"),
            *("kannel", "openapi", "openapi_clients", "openapi_empty", "pages", "proxies", "rate_limit", "redis_away"),
            *("relay_hooks", "root", "sendgrid", "sends_rules", "sends_sms"),
        )
    ),
    *(
        f"tests/api/test_console_{name}.py"
        for name in (
            *("accounts", "automations", "contact_import", "contacts", "content", "domains", "held_messages", "inbox"),
            *("keys", "lists", "message_versions", "pauses", "signing", "stored_messages", "webhooks"),
        )
    ),
    *(
        f"tests/cli/test_{name}.py"
        for name in (
            *("accounts", "audit_repeats", "automation_runs", "automations", "base", "console", "contacts"),
            *("documentation", "domain_reports", "domains", "explain", "inbound_email", "inbound_sms", "inbox", "keys"),
            *("lists", "message_versions", "messages", "refusing_relays", "seed", "sends", "simulate", "strangers"),
            *("suppressions", "tms", "transports", "webhooks"),
        )
    ),
    *(
        f"tests/jobs/delivery/test_{name}.py"
        for name in (
            *("bounds", "building_ahead", "content", "copies", "failover", "feedback_channels", "hostile_answers"),
            *("journal_trouble", "listener", "long_replies", "magic_story", "mail_reports", "plugin_transport"),
            *("requirements", "routes", "sender_hosts", "signing", "sms_gateway", "tracking", "transport_metrics"),
        )
    ),
    *(
        f"tests/jobs/test_{name}.py"
        for name in (
            *("contact_wildcards", "dry_run_equals_send", "explained", "magic", "metrics", "network_checks"),
            *("secret_values", "skipping", "traces", "webhook_choices", "webhook_registration"),
        )
    ),
    "tests/unit/seed/",
)
"""Files of tests, and folders of such files."""
SAMPLE = 8
"""One of so many tests of `ONE_DATABASE` runs over both databases."""
VARIABLE = "BOTH_DATABASES"


def backend(item: pytest.Item) -> str | None:
    """The database that a test runs over, if it asks for one."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params["settings"] if isinstance(params.get("settings"), str) else None


def spared(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The tests that do not run, because they prove the same as those over the other database."""
    if os.environ.get(VARIABLE):
        return set()
    return {item for item in items if backend(item) == "postgresql" and _asks_nothing(item)}


def _asks_nothing(item: pytest.Item) -> bool:
    return item.nodeid.startswith(ONE_DATABASE) and crc32(item.nodeid.encode()) % SAMPLE != 0
