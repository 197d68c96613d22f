"""Which tests run over one of the two databases (docs/development.md#suites).

The fixture `settings` runs a test over SQLite and over PostgreSQL. What the files below prove asks nothing of the
database that other tests do not ask: what a request, a command or a page says, what becomes of a message outside of
the database, and what is decided in Python. Their tests run over SQLite; one of thirty-two also runs over PostgreSQL,
so that a file which does not belong here is noticed. Of the other files every test runs over both; a test with many
cases runs over PostgreSQL with every fourth of them, from the first. `BOTH_DATABASES=on make test` runs every test over
both, as `make verify` does.
Marks with a reason come before all this: `postgresql` and `sqlite` name the only database over which a test can prove
something, and a test with `both` runs over both.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from zlib import crc32

import pytest

ONE_DATABASE = (
    *(
        f"tests/api/test_{name}.py"
        for name in (
            *("additions", "answers", "auth_and_order", "automations", "contacts_create"),
            *("contacts_delete", "contacts_events", "contacts_subscriptions", "contacts_update", "docs"),
            *("dry_run", "endpoints_page", "errors", "field_vocabulary", "groups", "health", "home", "hosts"),
            *("idempotency_header", "inbox", "isolation", "kannel", "key_uses", "lists", "mail_headers"),
            *("management", "management_demo", "openapi", "openapi_clients", "openapi_empty", "pages"),
            *("preferences", "proxies", "rate_limit", "readiness", "recipients", "redis_away", "relay_hooks"),
            *("root", "routes", "sendgrid", "sends_email", "sends_rules", "sends_sms", "sent_contacts"),
            *("tracking", "unsubscribe"),
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
            *("contact_import", "contacts", "documentation", "domain_reports", "domains", "every_command", "explain"),
            *("forget", "holds", "inbound_email", "inbound_sms", "inbox", "keys", "lists", "message_versions"),
            *("messages", "pauses", "refusing_relays", "seed", "sends", "simulate", "status", "strangers"),
            *("suppressions", "tms", "transports", "webhooks"),
        )
    ),
    *(
        f"tests/jobs/delivery/test_{name}.py"
        for name in (
            *("bounds", "building_ahead", "causes_of_suppressions", "content", "copies", "domain_backoff", "draining"),
            *("failover", "fairness", "feedback_channels", "hostile_answers", "journal_trouble", "listener"),
            *("long_replies", "magic_story", "mail_reports", "outcomes", "pauses", "plugin_transport"),
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
        for name in (
            *("advanced", "against_model", "changes", "entry", "examples", "operations", "pauses", "story", "time"),
        )
    ),
    *(f"tests/databases/test_{name}.py" for name in ("audit_seals", "bulk_actions", "figures")),
    *(f"tests/jobs/submission/test_{name}.py" for name in ("again", "login", "mails", "refused")),
    "tests/imports/",
    "tests/unit/seed/",
)
"""Files of tests, and folders of such files."""
SAMPLE = 32
"""One of so many tests of `ONE_DATABASE` runs over both databases."""
CASES = 4
"""One of so many cases of the same test runs over both databases, if its file is none of `ONE_DATABASE`."""
VARIABLE = "BOTH_DATABASES"


BACKENDS = ("sqlite", "postgresql")


def backend(item: pytest.Item) -> str | None:
    """The database that a test asks for, by `settings` or by a fixture of its own: PostgreSQL if it asks for both."""
    params = list(item.callspec.params.values()) if hasattr(item, "callspec") else []
    return next((name for name in reversed(BACKENDS) if name in params), None)


def left_out(items: Iterable[pytest.Item]) -> set[str]:
    """The tests that do not run over the database that they ask for."""
    databases, barred = {}, set()
    for item in items:
        database = backend(item)
        if any(item.get_closest_marker(name) for name in BACKENDS if database not in (name, None)):
            barred.add(item.nodeid)
        elif not item.get_closest_marker("both"):
            databases[item.nodeid] = database
    return barred | spared(databases)


def spared(databases: Mapping[str, str | None]) -> set[str]:
    """The tests that do not run, because they prove the same as those over the other database. Each test of the run has
    its database here, if it asks for one."""
    if os.environ.get(VARIABLE):
        return set()
    cases: Counter[str] = Counter()
    names = set()
    for name, database in databases.items():
        if database == "postgresql" and name.replace("postgresql", "sqlite") in databases:
            test = name.partition("[")[0]
            if _is_spared(name, cases[test]):
                names.add(name)
            cases[test] += 1
    return names


def _is_spared(name: str, case: int) -> bool:
    if name.startswith(ONE_DATABASE):
        return crc32(name.encode()) % SAMPLE != 0
    return case % CASES != 0
