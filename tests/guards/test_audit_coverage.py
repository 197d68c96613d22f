"""Nothing that people do is missing in the audit log by oversight: every table and column, every command and every
route is either audited or listed here with the reason why not (docs/audit.md#actions)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from flask import Flask

from app import create_app
from app.audit.audited import AUDITED_TABLES, shown_columns
from app.audit.record import ACTIONS, ACTIONS_BY_OBJECT
from app.cli import COMMANDS, LazyCommands
from app.db.models import Base, table_of
from app.http.context import EXTENSION
from tests.conftest import test_settings
from tests.support.management import ROUTES as MANAGEMENT_ROUTES
from tests.support.sources import sources

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text("utf-8")

NOT_AUDITED_TABLES = {
    **dict.fromkeys(("automation_versions", "automation_steps"), "follow from the version of their automation"),
    "message_versions": "follow from the changes of their message",
    "account_hosts": "follow from the hosts of domains",
    **dict.fromkeys(("automation_runs", "automation_passed_steps", "trigger_firings"), "what automations do"),
    **dict.fromkeys(
        (
            *("sends", "recipients", "recipient_labels", "recipient_steps", "send_queue", "send_links", "attachments"),
            "transactional_groups",
        ),
        "traffic",
    ),
    **dict.fromkeys(("contacts", "unsubscribers", "blocked_addresses", "soft_bounces"), "recorded by their acts"),
    **dict.fromkeys(("events", "event_rotation", "webhook_attempts", "idempotency_records"), "follow from traffic"),
    **dict.fromkeys(
        ("inbound_records", "reply_parts", "hook_tokens", "domain_reports", "domain_backoffs", "captured_messages"),
        "what others send",
    ),
    **dict.fromkeys(
        ("relay_refusals",),
        "what relays answer",
    ),
    **dict.fromkeys(
        ("group_counts", "hourly_counts", "tag_counts", "contact_counts", "automation_step_counts"),
        "count what is elsewhere",
    ),
    **dict.fromkeys(
        (
            "contact_imports",
            "processes",
            "schema_state",
            "routing_version",
            "purge_positions",
            "delayed_purges",
            "digest_key",
            "installation_key",
            "network_checks",
            "remains",
        ),
        "the service's own",
    ),
    **dict.fromkeys(("audit_entries", "audit_seals"), "the log itself"),
    **dict.fromkeys(("bulk_actions", "console_links", "console_sessions"), "recorded by their acts"),
    **dict.fromkeys(("console_people", "console_sign_ins"), "recorded by the sessions that follow"),
}

CORE_WRITES = {
    ("app.accounts.auth", "ApiKey"): "when a key was used",
    ("app.contacts.delete", "List"): "records list.deleted itself",
    ("app.contacts.delete", "SendPause"): "follows from list.deleted",
    ("app.events.batches", "Webhook"): "records webhook.deleted itself",
    ("app.events.holds", "Webhook"): "the commands record webhook.released and webhook.dropped",
    ("app.events.registration", "Webhook"): "whether the host was looked up, which the log says",
    ("app.events.rotation", "Webhook"): "positions",
    ("app.events.batch_contents", "Webhook"): "leases and positions",
    ("app.maintenance.account_deletion", "Account"): "records account.deleted or test_account.deleted itself",
    ("app.maintenance.account_deletion", "ApiKey"): "follows from the deletion",
    ("app.maintenance.account_deletion", "SendPause"): "follows from the deletion",
    ("app.maintenance.account_deletion", "Webhook"): "follows from the deletion",
    ("app.privacy.addressed", "Account"): "whether suppressions are kept under digests",
    ("app.runs.define", "List"): "whether automations listen to a list",
    ("app.runs.delete", "Automation"): "how far the ending of runs has come",
    ("app.runs.delete", "List"): "whether automations listen to a list",
    ("app.sends.pauses.pause", "SendPause"): "records pause.ended itself",
    ("app.sends.pauses.release", "SendPause"): "follows from pause.ended",
}
"""Module and audited table -> what it writes past the ORM, where changes are not noticed."""
WRITING = {"insert", "update", "delete", "upsert", "insert_new_rows", "insert_rows", "Part"}

AUDITED_COMMANDS = {
    "accounts": ("create", "update", "delete"),
    "keys": ("create", "update", "rotate", "revoke", "restore"),
    "domains": ("add", "verify", "update", "rotate", "import-key", "remove-key", "delete"),
    "senders": ("create", "update", "delete"),
    "lists": ("create", "update", "delete", "add-field"),
    "contacts": ("create", "update", "delete", "import", "export", "forget", "export-person"),
    "messages": ("create", "update", "delete", "restore"),
    "webhooks": ("create", "update", "rotate", "remove-secret", "delete", "test", "redeliver", "replay"),
    "suppressions": ("unsubscribe", "resubscribe", "block", "unblock", "export"),
    "sends": ("retry", "cancel", "export", "bulk-actions cancel", "pause", "resume"),
    "history": ("drop-month",),
    "holds": (
        *("release messages", "release runs", "release events"),
        *("drop messages", "drop runs", "drop events"),
    ),
    "automations": ("create", "update", "rename", "delete", "pause", "resume", "run cancel"),
    "transports": (
        *("create", "update", "delete", "test"),
        *("routes create", "routes update", "routes delete"),
    ),
    "test-account": ("refresh", "delete"),
    "console": ("login", "sign-out", "forget"),
    "secrets": ("rotate", "retire", "adopt"),
    "db": ("upgrade", "downgrade"),
    "": ("init", "seed", "backup", "restore"),
}
READING = ("list", "show", "stats", "status", "top", "plan", "current")
"""Commands of these names change nothing."""
NOT_AUDITED_COMMANDS = {
    **dict.fromkeys(
        ("lists index-field", "lists indexes", "lists drop-index"), "an index changes how soon answers come, not which"
    ),
    "lists recount": "repairs counts, and changes no contact",
    **dict.fromkeys(("webhooks deliveries", "webhooks delivery"), "show"),
    **dict.fromkeys(("domains reports", "contacts same-address"), "shows"),
    **dict.fromkeys(("messages history", "messages difference", "sends explain", "sends pauses"), "show"),
    "inbox wait": "shows",
    **dict.fromkeys(("automations firings", "automations runs", "automations simulate"), "show"),
    **dict.fromkeys(
        ("inbound sms", "inbound email", "inbound receipt"), "traffic, from a pipe of a mail server or a gateway"
    ),
    "inbound kannel-url": "shows",
    **dict.fromkeys(("audit export", "audit verify"), "reads the log"),
    **dict.fromkeys(("console sessions", "console people", "console provider"), "shows"),
    "db compact": "removes nothing that anybody could still ask for",
    "db generate": "writes a file for developers",
    "reload": "runs other code; the log of the processes says so",
}

AUDITED_ROUTES = {
    "POST /console/sign-in",
    "POST /console/login/<token>",
    "POST /console/sign-out",
    "POST /console/roles",
    "POST /console/accounts",
    "POST /console/accounts/<account_id>",
    "POST /console/accounts/<account_id>/refresh",
    "POST /console/automations/<automation_id>/pause",
    "POST /console/automations/<automation_id>/resume",
    "POST /console/automations/<automation_id>/runs/<run_id>/cancel",
    "POST /console/bulk-actions",
    "POST /console/bulk-actions/<action_id>/cancel",
    "POST /console/holds",
    "POST /console/domains",
    *(f"POST /console/domains/<domain_id>/{action}" for action in ("check", "delete", "hosts", "rotate")),
    "POST /console/senders",
    "POST /console/senders/<sender_id>/delete",
    "POST /console/keys",
    "POST /console/keys/networks",
    "POST /console/keys/<key_id>/list",
    "POST /console/keys/<key_id>/restore",
    "POST /console/keys/<key_id>/revoke",
    "POST /console/keys/<key_id>/rotate",
    "POST /console/lists",
    "POST /console/lists/<list_id>",
    "POST /console/lists/<list_id>/delete",
    "POST /console/lists/<list_id>/fields",
    "POST /console/lists/<list_id>/contacts",
    "POST /console/lists/<list_id>/contacts/<contact_id>",
    "POST /console/lists/<list_id>/contacts/<contact_id>/delete",
    "POST /console/lists/<list_id>/contacts/<contact_id>/subscription",
    "POST /console/lists/<list_id>/import",
    "POST /console/cancellations",
    "POST /console/messages/<uuid>/cancel",
    "POST /console/messages/<uuid>/resubscribe",
    "POST /console/messages/<uuid>/retry",
    "POST /console/messages/<uuid>/unblock",
    "POST /console/people/export",
    "POST /console/people/forget",
    "POST /console/queues/pauses",
    "POST /console/queues/pauses/<pause_id>/end",
    "POST /console/queues/transports/<transport_name>",
    "POST /console/stored-messages",
    "POST /console/stored-messages/<message_id>",
    "POST /console/stored-messages/<message_id>/delete",
    "POST /console/stored-messages/<message_id>/versions/<version_number>/restore",
    "POST /console/suppressions",
    "POST /console/suppressions/import",
    "POST /console/suppressions/unblock",
    "POST /console/suppressions/<state>/<suppression_id>/remove",
    "POST /console/webhooks",
    "POST /console/webhooks/<webhook_id>/deliveries/<delivery_id>/redeliver",
    *(
        f"POST /console/webhooks/<webhook_id>/{action}"
        for action in ("choice", "delete", "remove-secret", "replay", "rotate", "test")
    ),
    "DELETE /v1/lists/<list_id>/contacts",
    "DELETE /v1/lists/<list_id>/contacts/<contact_id>",
    *(f"{method} {rule}" for method, rule in MANAGEMENT_ROUTES if method != "GET" and not rule.endswith("/preview")),
    "POST /v1/automations/<automation_id>/pause",
    "POST /v1/automations/<automation_id>/resume",
    "DELETE /v1/suppressions",
    "POST /v1/suppressions",
}
NOT_AUDITED_ROUTES = {
    "POST /console/sign-in/attempts": "leads to the provider; the session that follows is recorded",
    "POST /console/webhooks/<webhook_id>/check": "looks up again where its host leads",
    "POST /console/people/held": "shows numbers, and stores nothing",
    "POST /console/lists/<list_id>/import/preview": "stores nothing",
    **{f"POST /console/stored-messages/<message_id>/{action}": "stores nothing" for action in ("html", "preview")},
    "POST /console/stored-messages/<message_id>/test": "traffic",
    "POST /v1/management/messages/<message_id>/preview": "stores nothing",
    "POST /console/suppressions/preview": "stores nothing",
    "POST /v1/transactional-sends": "traffic",
    "POST /v1/transactional-sends/cancel": "traffic, which is in the timelines",
    "POST /v1/transactional-sends/<uuid>/cancel": "traffic, which is in the timeline",
    "POST /v1/lists/<list_id>/contacts": "traffic: an application keeps its contacts, and each has its events",
    "PATCH /v1/lists/<list_id>/contacts": "the same",
    "PATCH /v1/lists/<list_id>/contacts/<contact_id>": "the same",
    "POST /v1/automations/validate": "stores nothing",
    "POST /u/<token>": "what a recipient does, which is in the timeline",
    "POST /u/<token>/undo": "what a recipient does, which is in the timeline",
    "POST /p/<token>": "what a recipient does, which is in the timeline",
    "POST /inbound/<name>": "what a relay reports",
    "POST /inbound/<name>/<secret>": "what a relay reports",
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Flask]:
    made = create_app(test_settings(tmp_path_factory.mktemp("data"), REDIS_URL=redis_url))
    yield made
    made.extensions[EXTENSION].redis.close()


def test_every_table_is_audited_or_says_why_not() -> None:
    audited = {model.__tablename__ for model in AUDITED_TABLES}
    assert audited.isdisjoint(NOT_AUDITED_TABLES)
    assert audited | NOT_AUDITED_TABLES.keys() == set(Base.metadata.tables)


COLUMNS_OF_ENTRIES = {
    "accounts": (
        "name owner_confirmed allowed_networks rate_limit track_opens track_clicks machine_events email_priority "
        "sms_priority brand_name brand_colour time_zone retain_content retain_recipients retain_captured retain_logs "
        "retain_audit test_of"
    ),
    "api_keys": "name access_level expiry_time list_id valid_until",
    "domains": "name verified_time trusted tracking_host return_path_host",
    "dkim_keys": "algorithm state",
    "sms_senders": "kind list_id messages_per_second note",
    "lists": "name system allow_duplicates stop_words offered offered_name offered_description",
    "list_fields": "type options",
    "messages": "name type",
    "webhooks": "chosen_events chosen_lists",
    "transports": "name type enabled connections messages_per_second any_account",
    "routes": "name type position account_id sender_domain priority country_prefixes transports",
    "send_pauses": "kind list_id domain",
    "automations": "name kind list_id action state version",
}
NAMED = {
    "accounts": "owner_email default_from_name default_from_address",
    "api_keys": "token_hash",
    "dkim_keys": "private_key",
    "sms_senders": "address",
    "messages": "subject from_name from_address reply_to thumbnail_url body_html body_text",
    "webhooks": "url",
    "webhook_secrets": "secret",
    "transports": "url",
    "send_pauses": "reason",
}
"""Table -> the columns of which an entry shows the values, and those that it only names. The others are unrecorded."""


@pytest.mark.parametrize("model", AUDITED_TABLES, ids=lambda model: model.__tablename__)
def test_every_column_is_shown_named_or_unrecorded(model: type[Base]) -> None:
    """What to do if this fails: mark a new column in its model, or say in `app.audit.audited` why it is unrecorded.
    Then say in this module what an entry says of it."""
    names = {column.name for column in table_of(model).columns}
    recorded, columns_shown = names - AUDITED_TABLES[model].unrecorded, shown_columns(model)
    assert AUDITED_TABLES[model].unrecorded <= names
    assert columns_shown == {*COLUMNS_OF_ENTRIES.get(table_of(model).name, "").split()}
    assert recorded - columns_shown == {*NAMED.get(table_of(model).name, "").split()}


def test_what_is_written_past_the_orm_is_known() -> None:
    models = {model.__name__ for model in AUDITED_TABLES}
    writes = {
        (source.name, model)
        for source in sources()
        if not source.name.startswith("app.db.")
        for model in written_past_orm(source.tree) & models
    }
    assert writes == set(CORE_WRITES)


def written_past_orm(tree: ast.Module) -> set[str]:
    """The models that statements of a module write, by themselves or as their tables."""
    tables = {
        target.id: model
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and (model := model_of(node.value, {}))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in WRITING]
    return {model for call in calls for argument in call.args[:2] if (model := model_of(argument, tables))}


def model_of(node: ast.expr, tables: Mapping[str, str]) -> str | None:
    """The model that an expression names: `Model`, `table_of(Model)`, or a variable with its table."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "table_of":
        node = node.args[0]
    return tables.get(node.id, node.id) if isinstance(node, ast.Name) else None


def commands(group: click.Group, prefix: str = "") -> Iterator[str]:
    """All commands below a group, as they are typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def test_every_command_is_audited_or_says_why_not() -> None:
    audited = {f"{noun} {name}".strip() for noun, names in AUDITED_COMMANDS.items() for name in names}
    others = {
        command
        for command in commands(LazyCommands())
        if command.rpartition(" ")[2] not in READING or command in audited
    }
    assert audited.isdisjoint(NOT_AUDITED_COMMANDS)
    assert others == audited | NOT_AUDITED_COMMANDS.keys()
    assert set(COMMANDS) <= others | set(READING)


def test_every_route_that_writes_is_audited_or_says_why_not(app: Flask) -> None:
    writing = {
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}
    }
    assert AUDITED_ROUTES.isdisjoint(NOT_AUDITED_ROUTES)
    assert writing == AUDITED_ROUTES | NOT_AUDITED_ROUTES.keys()


def test_the_page_names_all_actions_and_no_others() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE, re.MULTILINE)
    documented = {kind: tuple(re.findall(r"`(\w+)`", verbs)) for kind, verbs in rows if kind in ACTIONS_BY_OBJECT}
    assert documented == ACTIONS_BY_OBJECT


def test_every_action_can_happen() -> None:
    """Each is written out where it is recorded, or is what the ORM's changes of an audited table are called."""
    texts = {node.value for source in sources() for node in ast.walk(source.tree) if isinstance(node, ast.Constant)}
    kinds = {audited.kind for audited in AUDITED_TABLES.values()}
    noticed = {f"{kind}.{verb}" for kind in kinds for verb in ("created", "updated", "deleted")}
    verbs = {"key.rotated", "key.revoked", "key.restored", "domain.verified", "automation.paused", "automation.resumed"}
    assert [action for action in ACTIONS if action not in texts | noticed | verbs] == []


def test_every_action_is_expected_by_a_test() -> None:
    """Which does it, and looks for its entry."""
    never_done = {"key.deleted"}
    folders = (Path(__file__).parents[1] / name for name in ("api", "cli", "databases", "jobs", "restore"))
    texts = "\n".join(path.read_text("utf-8") for folder in folders for path in folder.rglob("test_*.py"))
    assert {action for action in ACTIONS if not re.search(rf"\b{re.escape(action)}\b", texts)} == never_done


def test_only_the_retention_deletes_entries_and_nothing_updates_them() -> None:
    naming = [
        source.name
        for source in sources()
        if re.search(r"\bAuditEntry\b|audit_entries", source.path.read_text("utf-8"))
    ]
    assert [name for name in naming if not name.startswith("app.db.migrations")] == [
        "app.audit.read",
        "app.audit.record",
        "app.audit.seals",
        "app.cli.audit",
        "app.db.models",
        "app.db.models.audit",
        "app.db.planner_statistics",
        "app.maintenance.audit_seals",
        "app.maintenance.sweeps",
    ]
