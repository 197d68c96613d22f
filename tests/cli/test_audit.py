"""The audit log (docs/audit.md)."""

from __future__ import annotations

import json
import os
import pwd
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError

from app.addresses import normalize_address
from app.audit.actor import command_actor
from app.audit.record import Act, record
from app.clock import now, this_second
from app.db.models import AuditEntry, Webhook
from app.events.batches import delete_gone
from app.infrastructure.digests import address_digest
from tests.cli.conftest import Cli
from tests.support.client import SENDS
from tests.support.definitions import ADVANCED
from tests.support.servers import wait_until
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_mobile, unique

USER = pwd.getpwuid(os.getuid()).pw_name
URL = "https://hooks.example.com/in?token=a-secret-of-the-receiver"
LAST_EVENT = 2**62
IN_LIST = ("--list", "Customers")


def entries(cli: Cli, *filters: str) -> list[dict[str, Any]]:
    """The entries of the account, the oldest first."""
    newest_first: list[dict[str, Any]] = cli.json("audit", "list", *filters)
    return newest_first[::-1]


def actions(cli: Cli, *filters: str) -> list[tuple[str, str]]:
    """What was done, and by which command or request."""
    return [(entry["action"], entry["via"]) for entry in entries(cli, *filters)]


def test_an_entry_says_who_changed_what_and_from_where(cli: Cli, tenant: Tenant, customers: int) -> None:
    cli.text("lists", "update", "Customers", "--name", "Clients", "--stop-word", "HALT")
    (entry,) = entries(cli)
    assert entry.pop("id") > 0
    assert entry.pop("time") <= now().strftime("%Y-%m-%dT%H:%M:%SZ")
    assert len(entry.pop("request_id")) == 32
    assert entry == {
        **{"account_id": tenant.id, "account": tenant.name, "action": "list.updated"},
        **{"object": "list", "object_id": str(customers), "object_name": "Customers", "address_digest": None},
        **{"actor_kind": "command", "actor": USER, "key_id": None},
        **{"source": socket.gethostname(), "via": "lists update", "counts": {}},
        "changes": [
            {"field": "name", "old": "Customers", "new": "Clients"},
            {"field": "stop_words", "old": ["STOP", "OPTOUT"], "new": ["HALT"]},
        ],
    }


def test_a_command_behind_sudo_names_who_typed_it() -> None:
    assert command_actor("keys list", {"SUDO_USER": "ann"}).name == f"{USER} (ann)"
    assert command_actor("keys list", {"SUDO_USER": USER}).name == USER
    assert command_actor("keys list", {"SUDO_USER": "a\nb"}).name == USER


def test_a_command_that_changes_nothing_or_fails_leaves_no_entry(cli: Cli, customers: int) -> None:
    cli.text("lists", "update", "Customers", "--name", "Customers")
    cli.text("lists", "show", "Customers")
    cli.refused("lists", "create", "Customers")
    cli.refused("webhooks", "create", "https://hooks.example.com/in", "--list", "no such list")
    assert entries(cli) == []


def test_what_is_set_up_has_one_entry_per_act(cli: Cli, tenant: Tenant, tmp_path: Path) -> None:
    body = tmp_path / "body.txt"
    body.write_text("Hello")
    cli.text("lists", "create", "Customers", "--field", "Email:Email", "--field", "Plan:Text Field")
    cli.text("lists", "add-field", "Customers", "Score", "Number")
    cli.text("messages", "create", "Welcome", "--type", "sms", "--text", str(body), "--from-address", "ACME")
    cli.text("messages", "update", "Welcome", "--name", "Hello")
    cli.text("messages", "delete", "Hello")
    cli.text("senders", "create", "ACME", "--kind", "alphanumeric")
    cli.text("senders", "update", "ACME", "--rate", "5")
    cli.text("senders", "delete", "ACME")
    cli.text("keys", "create", "backend", "--level", "standard")
    cli.text("keys", "rotate", "backend")
    cli.text("keys", "revoke", "backend")
    cli.text("webhooks", "create", URL, "--event", "recipient.sent")
    cli.text("webhooks", "rotate", URL)
    cli.text("webhooks", "remove-secret", URL, "k1")
    cli.text("webhooks", "delete", URL)
    cli.text("lists", "delete", "Customers", "--yes")
    assert actions(cli) == [
        ("list.created", "lists create"),
        ("list.updated", "lists add-field"),
        ("message.created", "messages create"),
        ("message.updated", "messages update"),
        ("message.deleted", "messages delete"),
        ("sender.created", "senders create"),
        ("sender.updated", "senders update"),
        ("sender.deleted", "senders delete"),
        ("key.created", "keys create"),
        ("key.rotated", "keys rotate"),
        ("key.created", "keys rotate"),
        ("key.revoked", "keys revoke"),
        ("key.revoked", "keys revoke"),
        ("webhook.created", "webhooks create"),
        ("webhook.updated", "webhooks rotate"),
        ("webhook.updated", "webhooks remove-secret"),
        ("webhook.deleted", "webhooks delete"),
        ("list.deleted", "lists delete"),
    ]
    created, added, *_ = (entry["changes"] for entry in entries(cli, "object=list"))
    assert created == [
        {"field": "name", "new": "Customers"},
        {"field": "fields", "new": "Email"},
        {"field": "fields", "new": "Plan"},
    ]
    assert added == [{"field": "fields", "new": "Score"}]
    webhooks = entries(cli, "object=webhook")
    assert [webhook["changes"] for webhook in webhooks] == [
        [{"field": "secrets", "new": "k1"}, {"field": "chosen_events", "old": None, "new": ["recipient.sent"]}],
        [{"field": "secrets", "new": "k2"}],
        [{"field": "secrets", "old": "k1"}],
        [],
    ]
    assert {webhook["object_name"] for webhook in webhooks} == {"hooks.example.com"}


def test_domains_with_their_keys_and_automations_are_in_the_log(cli: Cli, tenant: Tenant, tmp_path: Path) -> None:
    domain = f"{unique('d')}.example"
    cli.text("domains", "add", domain, "--trust", "--selector", "s1")
    cli.text("domains", "rotate", domain, "--selector", "s2")
    cli.text("domains", "remove-key", domain, "s2")
    cli.text("domains", "update", domain, "--tracking-host", f"links.{domain}")
    cli.text("domains", "delete", domain)
    for name in ("Welcome", "Thanks"):
        tenant.add_message(name=name, body_html='<a href="https://acme.example/">Acme</a>')
    tenant.add_list("Customers", (*FULL_FIELDS, ("Status", "Text Field"), ("Note", "Text Field")))
    file = tmp_path / "automation.yaml"
    file.write_text(yaml.safe_dump(dict(ADVANCED)), "utf-8")
    tenant.add(Webhook, url="https://hooks.acme.example/in", creation_time=this_second(), due_time=this_second())
    made = cli.json("automations", "create", str(file))
    name, path = made["name"], f"/v1/automations/{made['id']}"
    cli.text("automations", "pause", name)
    cli.text("automations", "resume", name)
    assert [tenant.api.post(f"{path}/{how}", {}).status_code for how in ("pause", "resume")] == [200, 200]
    cli.text("automations", "delete", name, "--yes")
    assert actions(cli) == [
        ("domain.created", "domains add"),
        ("domain.updated", "domains rotate"),
        ("domain.updated", "domains remove-key"),
        ("domain.updated", "domains update"),
        ("domain.deleted", "domains delete"),
        ("automation.created", "automations create"),
        ("automation.paused", "automations pause"),
        ("automation.resumed", "automations resume"),
        ("automation.paused", "POST /v1/automations/<automation_id>/pause"),
        ("automation.resumed", "POST /v1/automations/<automation_id>/resume"),
        ("automation.deleted", "automations delete"),
    ]
    rotated, removed = (entry["changes"] for entry in entries(cli, "via:in=domains rotate,domains remove-key"))
    assert rotated == [{"field": "dkim_keys", "new": "s2"}, {"field": "dkim_keys", "new": "s2-ed25519"}]
    assert removed == [{"field": "dkim_keys", "old": "s2"}]


def test_acts_on_addresses_are_found_by_the_address(cli: Cli, tenant: Tenant, customers: int) -> None:
    ann, mobile = new_email("ann"), new_mobile()
    cli.text("contacts", "create", f"email={ann}", "first_name=Ann", *IN_LIST)
    cli.text("contacts", "update", ann, "plan=gold", "score=5", *IN_LIST)
    cli.text("suppressions", "unsubscribe", ann.upper(), *IN_LIST)
    cli.text("suppressions", "resubscribe", ann, *IN_LIST)
    cli.text("suppressions", "block", mobile)
    cli.text("suppressions", "unblock", mobile)
    cli.text("suppressions", "unblock", mobile)
    cli.text("contacts", "delete", ann, *IN_LIST)
    entries_of_ann = cli.json("audit", "list", "--address", ann)[::-1]
    assert [entry["action"] for entry in entries_of_ann] == [
        *("contact.created", "contact.updated", "suppression.added", "suppression.removed", "contact.deleted"),
    ]
    digest = address_digest(tenant.services.settings.secret_key, normalize_address("email", ann))
    assert {entry["address_digest"] for entry in entries_of_ann} == {digest}
    assert entries_of_ann[1]["changes"] == [
        {"field": "list_id", "new": customers},
        {"field": "plan"},
        {"field": "score"},
    ]
    assert entries_of_ann[2]["changes"] == [
        {"field": "state", "new": "unsubscribed"},
        {"field": "list_id", "new": customers},
    ]
    assert [entry["action"] for entry in cli.json("audit", "list", "--address", mobile)] == [
        *("suppression.removed", "suppression.added"),
    ]


def test_no_entry_holds_an_address_a_secret_or_content(cli: Cli, bare: Cli, tenant: Tenant, tmp_path: Path) -> None:
    ann, mobile, word = new_email("ann"), new_mobile(), unique("secretword")
    body = tmp_path / "body.txt"
    body.write_text(f"Content with {word}")
    cli.text("lists", "create", f"Friends of {ann}", "--field", "Email:Email", "--stop-word", mobile)
    cli.text("contacts", "create", f"email={ann}", "--list", f"Friends of {ann}")
    cli.text("contacts", "export", str(tmp_path / "out.csv"), "--list", f"Friends of {ann}")
    cli.text("messages", "create", "M", "--type", "email", "--text", str(body), "--subject", word)
    cli.text("messages", "update", "M", "--from-address", ann, "--from-name", "Ann", "--subject", f"{word} 2")
    cli.text("senders", "create", mobile, "--kind", "number")
    cli.text("webhooks", "create", f"https://hooks.example.com/{word}", "--secret", f"{word} of 32 bytes or more!!")
    cli.text("suppressions", "block", ann, "--reason", word)
    token = cli.json("keys", "create", f"key of {mobile}", "--level", "report")["token"]
    bare.text("accounts", "update", tenant.name, "--owner-email", ann)
    transport = unique("t")
    bare.text("transports", "create", transport, "--type", "email", "--url", f"smtp://u:{word}@relay.example")
    exported = cli.text("audit", "export")
    everything = exported + bare.text("audit", "export", f"object_name={transport}")
    assert [secret for secret in (ann, mobile, word, token, "Content") if secret in everything] == []
    assert exported.count("(address)") >= 4
    (subject,) = (entry["changes"] for entry in entries(cli, "action=message.updated"))
    assert subject == [{"field": "from_address"}, {"field": "from_name"}, {"field": "subject"}]
    (owner,) = (entry["changes"] for entry in entries(cli, "action=account.updated"))
    assert owner == [{"field": "owner_email"}]
    bare.text("transports", "delete", transport)


def test_an_import_and_an_export_are_one_entry_each_with_their_number(
    cli: Cli, tenant: Tenant, customers: int, tmp_path: Path, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are read and written in several batches."""
    monkeypatch.setattr("app.imports.importer.BATCH_SIZE", 50)
    file = tmp_path / "contacts.csv"
    file.write_text("\n".join(["email", *(new_email() for _ in range(150))]))
    cli.text("contacts", "import", str(file), *IN_LIST)
    cli.text("contacts", "import", str(file), *IN_LIST, "--dry-run")
    cli.text("contacts", "export", str(tmp_path / "out.csv"), *IN_LIST)
    cli.text("suppressions", "export", str(tmp_path / "suppressions.csv"))
    cli.text("sends", "export", str(tmp_path / "sends.csv"))
    assert [(entry["action"], entry["object_id"], entry["counts"]) for entry in entries(cli)] == [
        ("list.imported", str(customers), {"rows": 150}),
        ("list.exported", str(customers), {"contacts": 150}),
        ("suppression.exported", None, {"suppressions": 0}),
        ("recipient.exported", None, {}),
    ]


def test_a_key_that_deletes_contacts_is_named_and_a_bulk_request_is_one_entry(
    cli: Cli, tenant: Tenant, customers: int
) -> None:
    path = f"/v1/lists/{customers}/contacts"
    first, *others = (tenant.new_contact(customers, email=new_email())["id"] for _ in range(11))
    answer = tenant.api.delete(f"{path}/{first}")
    tenant.api.delete(path, {"id:in": ",".join(map(str, others))})
    tenant.api.delete(path, {"id:in": ",".join(map(str, others))})
    assert tenant.api.delete(path).status_code == 422
    single, bulk = entries(cli)
    assert (single["action"], single["object"], single["object_id"]) == ("contact.deleted", "contact", str(first))
    assert single["via"] == "DELETE /v1/lists/<list_id>/contacts/<contact_id>"
    assert (single["actor_kind"], single["actor"].partition("-")[0]) == ("key", "standard")
    assert single["source"] == "127.0.0.1"
    assert single["request_id"] == answer.headers["X-Request-Id"]
    assert single["key_id"] == bulk["key_id"] is not None
    assert (bulk["object"], bulk["object_id"], bulk["counts"]) == ("list", str(customers), {"contacts": 10})


def test_traffic_is_not_in_the_log(cli: Cli, tenant: Tenant, customers: int) -> None:
    path = f"/v1/lists/{customers}/contacts"
    made = tenant.api.post(path, {"email": new_email()}).get_json()
    assert tenant.api.patch(f"{path}/{made['id']}", {"first_name": "Ann"}).status_code == 200
    assert tenant.api.patch(path, {"contacts": [{"id": made["id"], "plan": "gold"}]}).status_code == 204
    send = {"type": "email", "list_id": customers, "group_name": "Welcome", "subject": "Hi", "body_text": "Hello"}
    people = [{"email": new_email()}]
    answer = tenant.api.post(
        SENDS, {**send, "from_address": f"a@{tenant.domain}", "from_name": "A", "recipients": people}
    )
    assert answer.status_code == 202, answer.text
    assert entries(cli) == []


def test_a_webhook_whose_receiver_is_gone_is_deleted_by_the_service(cli: Cli, tenant: Tenant) -> None:
    class Gone:
        webhook_id = tenant.add(Webhook, url=URL, creation_time=now(), due_time=now(), worker="w", lease_time=now())
        lease_token, batch_id = "w", None

    delete_gone(tenant.services, Gone())  # type: ignore[arg-type]
    (entry,) = entries(cli)
    assert (entry["action"], entry["actor_kind"], entry["via"]) == ("webhook.deleted", "service", None)


def test_a_test_account_has_one_entry_for_all_its_copies(cli: Cli, bare: Cli, tenant: Tenant, customers: int) -> None:
    tenant.add_message()
    cli.text("keys", "create", "ci", "--level", "standard", "--test")
    tenant.add_message()
    cli.text("test-account", "refresh")
    cli.text("test-account", "refresh")
    refreshed = ("test_account.refreshed", "keys create"), ("test_account.refreshed", "test-account refresh")
    assert actions(cli) == list(refreshed)
    test = Cli(tenant.app, f"{tenant.name} (test)")
    assert actions(test) == [("account.created", "keys create"), ("key.created", "keys create")]
    cli.text("test-account", "delete", "--yes")
    (deleted,) = entries(cli, "action=test_account.deleted")
    assert deleted["counts"]["rows"] > 0


def test_entries_of_a_deleted_account_stay_and_its_id_finds_them(bare: Cli, tenant: Tenant) -> None:
    bare.text("accounts", "update", tenant.name, "--time-zone", "Australia/Brisbane")
    bare.text("accounts", "delete", tenant.name, "--yes")
    entries_of_account = bare.json("audit", "list", "--account", str(tenant.id))
    assert [(entry["action"], entry["object_name"], entry["account"]) for entry in entries_of_account] == [
        ("account.deleted", tenant.name, None),
        ("account.updated", tenant.name, None),
    ]
    assert bare.refused("audit", "list", "--account", tenant.name).endswith(f"'{tenant.name}'")


def test_filters_are_those_of_the_query_language(cli: Cli, customers: int) -> None:
    for name in ("A", "B", "C"):
        cli.text("lists", "create", name)
    cli.text("keys", "create", "backend", "--level", "report")
    first, *_, last = entries(cli)
    assert [entry["object_name"] for entry in entries(cli, "object_name:in=A,C")] == ["A", "C"]
    assert [entry["object_name"] for entry in entries(cli, "object:ne=list")] == ["backend"]
    assert [entry["object_name"] for entry in entries(cli, "action=list.created", f"id:in={first['id']}..")] == [
        "B",
        "C",
    ]
    assert [entry["object_name"] for entry in cli.json("audit", "list", "--limit", "2")] == ["backend", "C"]
    assert len(entries(cli, "time:in=2026-01-01..")) == 4
    assert entries(cli, f"time:in={last['time']}..") == []
    assert [entry["id"] for entry in cli.json("audit", "list", "--after", str(first["id"]))][-1] > first["id"]
    assert cli.refused("audit", "list", "action=list.painted").startswith("action: 'list.painted' is not one of ")
    assert cli.refused("audit", "list", "changes=x").startswith("changes")
    assert cli.refused("audit", "export", "colour=red").startswith("colour")


def test_an_entry_is_shown_with_its_changes(cli: Cli, bare: Cli, customers: int) -> None:
    cli.text("lists", "update", "Customers", "--name", "Clients")
    (entry,) = entries(cli)
    text = bare.text("audit", "show", str(entry["id"]))
    assert 'changed name: old "Customers", new "Clients"\n' in text
    assert bare.json("audit", "show", str(entry["id"])) == entry
    assert bare.refused("audit", "show", "999999999") == "there is no entry 999999999"


@pytest.fixture
def add_entries(tenant: Tenant) -> Callable[[int], None]:
    """Adds entries of the account."""

    def add(count: int) -> None:
        with tenant.services.database.write() as transaction:
            for number in range(count):
                record(transaction, Act("list.imported", tenant.id, number))

    return add


def lines(cli: Cli, *options: str) -> list[Mapping[str, Any]]:
    """The entries that an export writes."""
    return [json.loads(line) for line in cli.text("audit", "export", *options).splitlines()]


def test_an_export_writes_a_line_for_each_entry_in_their_order_and_goes_on(
    cli: Cli, add_entries: Callable[[int], None], count_statements: Callable[[], Any]
) -> None:
    with count_statements() as adding:
        add_entries(2500)
    with count_statements() as first_export:
        add_entries(1)
    assert adding.count == first_export.count
    exported = lines(cli)
    assert [entry["object_id"] for entry in exported] == [*map(str, range(2500)), "0"]
    assert [entry["id"] for entry in exported] == sorted(entry["id"] for entry in exported)
    assert set(exported[0]) == {*entries(cli, "object_id=7")[0]} - {"account"}
    add_entries(2)
    assert [entry["object_id"] for entry in lines(cli, "--after", str(exported[-1]["id"]))] == ["0", "1"]
    assert lines(cli, "action=key.created") == []


@pytest.mark.postgresql("SQLite has one writer at a time")
def test_an_export_waits_for_entries_that_are_being_committed(cli: Cli, tenant: Tenant) -> None:
    """If an export did not wait, an entry with a lower id could appear after the export has passed it."""
    database = tenant.services.database
    exported: list[Mapping[str, Any]] = []
    with database.write() as transaction:
        record(transaction, Act("list.imported", tenant.id, "first"))
        transaction.write_last()
        export = threading.Thread(target=lambda: exported.extend(lines(cli)))
        export.start()
        waiting = text(
            "SELECT count(*) FROM pg_locks WHERE relation = CAST('audit_entries' AS regclass) AND NOT granted"
        )

        def is_waiting() -> bool:
            with database.read() as session:
                return bool(session.execute(waiting).scalar())

        wait_until(is_waiting, "the export to wait")
    export.join()
    assert [entry["object_id"] for entry in exported] == ["first"]


def test_the_database_refuses_to_change_an_entry(tenant: Tenant, add_entries: Callable[[int], None]) -> None:
    add_entries(1)
    database = tenant.services.database
    with pytest.raises(DBAPIError, match="never changed"), database.write() as transaction:
        transaction.execute(update(AuditEntry).where(AuditEntry.account_id == tenant.id).values(actor="nobody"))
    with database.read() as session:
        (entry,) = session.scalars(select(AuditEntry).where(AuditEntry.account_id == tenant.id))
    assert entry.actor == "service"


def test_an_act_that_is_rolled_back_leaves_no_entry(cli: Cli, tenant: Tenant) -> None:
    with tenant.services.database.write() as transaction:
        record(transaction, Act("list.imported", tenant.id))
        transaction.write_last()
        transaction.rollback()
    assert entries(cli) == []


def test_what_is_done_to_events_of_a_webhook_is_counted(cli: Cli, tenant: Tenant, customers: int) -> None:
    cli.text("webhooks", "create", "https://hooks.example.com/in")
    (webhook,) = entries(cli)
    cli.text("webhooks", "test", "https://hooks.example.com/in")
    cli.text("webhooks", "replay", "https://hooks.example.com/in", "--last", "5")
    assert len(entries(cli)) == 2, "nothing was sent that could be sent again"
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Webhook).where(Webhook.account_id == tenant.id).values(position=LAST_EVENT))
    cli.text("webhooks", "replay", "https://hooks.example.com/in", "--last", "5")
    tested, replayed = entries(cli, "action:in=webhook.tested,webhook.replayed")
    assert tested["object_id"] == replayed["object_id"] == webhook["object_id"]
    assert replayed["counts"] == {"events": 1}
