"""`flask keys create --test` and `flask inbox`: test keys, and what they have sent (docs/testing.md)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import update

from app.accounts.find import find_account
from app.db.models import Account, ApiKey
from app.distribution import COMMAND_LINE
from app.sends.delivery.drain import drain
from tests.cli.conftest import Cli
from tests.support.client import Client
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, unique


@pytest.fixture
def key(cli: Cli, tenant: Tenant) -> dict[str, Any]:
    """A test key of an account with a list."""
    assert tenant.add_list("Customers")
    new_key: dict[str, Any] = cli.json("keys", "create", unique("key"), "--level", "standard", "--test")
    return new_key


def send(tenant: Tenant, key: dict[str, Any], *addresses: str, **changes: Any) -> list[str]:
    """Sends with the test key, and delivers; returns the uuids."""
    client = Client(tenant.app, key["token"])
    (customers,) = client.get("/v1/lists").get_json()["_embedded"]["lists"]
    recipients = [{"email": address} for address in addresses]
    body = SendsApi(tenant).email(list_id=customers["id"], recipients=recipients, **changes)
    answer = client.post("/v1/transactional-sends", body)
    assert answer.status_code == 202, answer.text
    drain(tenant.services)
    return [recipient["uuid"] for recipient in answer.get_json()["_embedded"]["recipients"]]


def test_a_test_key_belongs_to_the_test_account(cli: Cli, bare: Cli, tenant: Tenant, key: dict[str, Any]) -> None:
    assert key["token"].startswith("tms_")
    assert (key["account"], key["test"]) == (f"{tenant.name} (test)", True)
    (listed,) = bare.json("keys", "list", "--account", key["account"])
    assert (listed["name"], listed["access_level"]) == (key["name"], "standard")
    assert key["name"] not in {row["name"] for row in cli.json("keys", "list")}
    assert bare.json("accounts", "show", key["account"])["test_of"] == tenant.id
    further = bare.json("keys", "create", "further", "--level", "report", "--test", "--account", key["account"])
    assert further["account"] == key["account"]
    live = cli.json("keys", "create", "live", "--level", "report")
    assert live.keys() == {"id", "name", "access_level", "token"}


def test_the_test_account_is_shown_refreshed_and_deleted(
    cli: Cli, bare: Cli, tenant: Tenant, key: dict[str, Any]
) -> None:
    send(tenant, key, new_email())
    tenant.add_list("Further")
    test_account = cli.json("test-account", "show")
    assert (test_account["name"], test_account["account"], test_account["keys"], test_account["lists"]) == (
        key["account"],
        tenant.name,
        1,
        1,
    )
    assert cli.json("test-account", "refresh")["lists"] == 3
    assert key["account"] in [row["name"] for row in bare.json("test-account", "list")]
    assert bare.json("test-account", "show", "--account", key["account"])["captured_messages"] == 1
    assert "captured messages:  1" in cli.text("test-account", "show")
    assert cli.run("test-account", "delete", input="n").exit_code == 1
    deleted = cli.text("test-account", "delete", "--yes")
    assert deleted.startswith(f"deleted {key['account']}: 1 key, 1 recipient, 1 send, 1 captured message, ")
    without = f"`{COMMAND_LINE} keys create NAME --level LEVEL --test` creates the first one"
    for command in (("inbox", "list"), ("test-account", "show"), ("test-account", "delete", "--yes")):
        assert cli.refused(*command).endswith(without)
    assert bare.json("accounts", "show", tenant.name)["id"] == tenant.id


def test_a_webhook_of_tests_belongs_to_the_test_account(cli: Cli, bare: Cli, key: dict[str, Any]) -> None:
    made = cli.json("webhooks", "create", "https://hooks.example/in", "--test")
    assert [row["id"] for row in bare.json("webhooks", "list", "--account", key["account"])] == [made["id"]]
    assert cli.json("webhooks", "list") == []


def test_deleting_tells_programs_what_it_has_deleted(cli: Cli, key: dict[str, Any]) -> None:
    deleted = cli.json("test-account", "delete", "--yes")
    assert (deleted["name"], deleted["deleted"], deleted["rows"]["keys"]) == (key["account"], True, 1)


def test_deleting_the_test_account_by_its_name_deletes_it_too(cli: Cli, bare: Cli, key: dict[str, Any]) -> None:
    bare.text("accounts", "delete", key["account"], "--yes")
    assert cli.refused("inbox", "list").endswith("keys create NAME --level LEVEL --test` creates the first one")


def test_accounts_and_keys_of_tests_are_marked(cli: Cli, bare: Cli, tenant: Tenant, key: dict[str, Any]) -> None:
    cli.text("keys", "create", "live", "--level", "report")
    marks = {row["name"]: row["test"] for row in bare.json("keys", "list") if row["name"] in (key["name"], "live")}
    assert marks == {key["name"]: True, "live": False}
    assert bare.json("keys", "show", key["name"], "--account", key["account"])["test"] is True
    lines = bare.text("accounts", "list").splitlines()
    tests_by_name = {
        name: line.split()[-1] for name in (tenant.name, key["account"]) for line in lines if f" {name}  " in line
    }
    assert (lines[0].split()[-1], tests_by_name) == ("TEST", {tenant.name: "no", key["account"]: "yes"})


def test_lists_and_messages_of_tests_have_the_ids_of_the_originals_on_the_command_line(
    cli: Cli, bare: Cli, tenant: Tenant, key: dict[str, Any]
) -> None:
    message_id, list_id = tenant.add_message(name="Welcome"), cli.json("lists", "show", "Customers")["id"]
    cli.text("test-account", "refresh")
    account = ("--account", key["account"])
    assert [row["id"] for row in bare.json("lists", "list", *account)] == [list_id]
    assert bare.json("lists", "show", str(list_id), *account)["id"] == list_id
    assert bare.json("messages", "show", str(message_id), *account)["id"] == message_id
    address = new_email()
    facts = bare.json("suppressions", "unsubscribe", address, "--list", str(list_id), *account)
    assert facts["list_id"] == list_id
    assert [row["list_id"] for row in bare.json("suppressions", "list", *account)] == [list_id]
    made = bare.json("webhooks", "create", "https://hooks.example/in", "--list", "Customers", *account)
    assert bare.json("webhooks", "show", str(made["id"]), *account)["lists"] == [list_id]


def test_deleting_an_account_deletes_its_test_account(bare: Cli, tenant: Tenant, key: dict[str, Any]) -> None:
    bare.text("accounts", "delete", tenant.name, "--yes")
    assert bare.refused("accounts", "show", key["account"]) == f"there is no account {key['account']!r}"
    with tenant.services.database.read() as session:
        assert session.get(ApiKey, key["id"]) is None


def test_the_inbox_lists_what_test_keys_have_sent(cli: Cli, bare: Cli, tenant: Tenant, key: dict[str, Any]) -> None:
    ann, bob = new_email("Ann"), new_email("bob")
    assert cli.json("inbox", "list") == []
    uuids = [uuid for address in (ann, bob) for uuid in send(tenant, key, address, subject="Hello %%email%%")]
    listed = cli.json("inbox", "list")
    assert [row["uuid"] for row in listed] == uuids[::-1]
    assert (listed[1]["address"], listed[1]["subject"], listed[1]["type"]) == (ann.lower(), f"Hello {ann}", "email")
    assert cli.json("inbox", "list", "--to", ann) == listed[1:]
    assert cli.json("inbox", "list", "--after", str(listed[1]["id"])) == listed[:1]
    assert cli.json("inbox", "list", "--limit", "1") == listed[:1]
    assert bare.json("inbox", "list", "--account", key["account"]) == listed


def test_a_captured_message_is_shown_whole(cli: Cli, tenant: Tenant, key: dict[str, Any]) -> None:
    send(tenant, key, new_email(), body_text="A body to read")
    (row,) = cli.json("inbox", "list")
    message = cli.json("inbox", "show", str(row["id"]))
    assert {**message, "content": None} == {**row, "content": None}
    assert message["content"].startswith("Message-ID: <")
    assert "A body to read" in message["content"]
    assert "A body to read" in cli.text("inbox", "show", str(row["id"]))
    missing = str(row["id"] + 10**6)
    assert cli.refused("inbox", "show", missing) == f"id: the inbox has no message {missing}"


def test_waiting_ends_with_the_first_message_that_matches(cli: Cli, tenant: Tenant, key: dict[str, Any]) -> None:
    ann = new_email("ann")
    (first,) = send(tenant, key, ann)
    assert cli.json("inbox", "wait", "--to", ann)["uuid"] == first
    after, sent = str(cli.json("inbox", "list")[0]["id"]), list[str]()
    sender = threading.Thread(target=lambda: sent.extend(send(tenant, key, new_email(), ann)))
    sender.start()
    waited = cli.json("inbox", "wait", "--to", ann, "--after", after, "--timeout", "60")
    sender.join()
    assert waited["uuid"] == sent[1]


def test_waiting_in_vain_ends_with_one(cli: Cli, key: dict[str, Any]) -> None:
    assert key["test"]
    result = cli.run("inbox", "wait", "--to", "ann@example.com", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: no message to ann@example.com within 0 seconds\n"


def test_an_account_without_test_keys_has_no_inbox(cli: Cli) -> None:
    for arguments in (["list"], ["show", "1"], ["wait"]):
        assert "has no test keys yet" in cli.refused("inbox", *arguments)


def test_the_test_account_is_never_taken_for_the_only_account(tenant: Tenant, key: dict[str, Any]) -> None:
    assert key["test"]
    with tenant.services.database.write() as transaction:
        # As if the others were test accounts, too.
        others = update(Account).where(Account.id != tenant.id, Account.test_of.is_(None))
        transaction.execute(others.values(test_of=-Account.id))
        assert find_account(transaction, None).id == tenant.id
        transaction.rollback()
