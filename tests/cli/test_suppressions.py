"""`flask suppressions`: unsubscribed and blocked addresses."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

from sqlalchemy import select

from app.addresses import AccountAddress
from app.bulk_actions.run import run_due
from app.contacts.blocked import PERMANENT_BOUNCE, Block, block_addresses
from app.db.models import Event
from app.distribution import COMMAND_LINE
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.tenants import Tenant

COMMAND = "flask --app wsgi suppressions"


def account(tenant: Tenant) -> str:
    """The options that name the account in a suggested command."""
    return shlex.join(["--account", tenant.name])


def flags(tenant: Tenant, list_id: int, name: str) -> list[dict[str, bool]]:
    """The flags of the list's contacts, the oldest first."""
    contacts = tenant.api.get(f"/v1/lists/{list_id}/contacts").get_json()["_embedded"]["contacts"]
    return [contact[name] for contact in sorted(contacts, key=lambda contact: int(contact["id"]))]


def test_unsubscribing_and_resubscribing_changes_contacts(cli: Cli, tenant: Tenant, customers: int) -> None:
    cli.text("webhooks", "create", "https://hooks.example.com/in")
    others = tenant.add_list("Others")
    for list_id in (customers, others):
        tenant.new_contact(list_id, email="ann@example.com", mobile="61411111111")
    on, off = {"email": True, "mobile": True}, {"email": False, "mobile": True}

    printed = cli.text("suppressions", "unsubscribe", "Ann@example.com", "--list", "Customers")
    assert printed == "Ann@example.com is unsubscribed in Customers; contacts changed: 1\n"
    assert (flags(tenant, customers, "subscribed"), flags(tenant, others, "subscribed")) == ([off], [on])
    cli.text("suppressions", "unsubscribe", "ann@example.com")
    assert (flags(tenant, customers, "subscribed"), flags(tenant, others, "subscribed")) == ([off], [off])
    printed = cli.text("suppressions", "resubscribe", "ann@example.com")
    assert printed.splitlines() == [
        "ann@example.com is no longer unsubscribed account-wide; contacts changed: 1",
        f"still unsubscribed in Customers: {COMMAND} resubscribe ann@example.com --list Customers {account(tenant)}",
    ]
    assert (flags(tenant, customers, "subscribed"), flags(tenant, others, "subscribed")) == ([off], [on])
    cli.text("suppressions", "resubscribe", "ann@example.com", "--list", "Customers")
    assert flags(tenant, customers, "subscribed") == [on]
    cli.text("suppressions", "unsubscribe", "61411111111")
    assert flags(tenant, customers, "subscribed") == [{"email": True, "mobile": False}]
    with tenant.services.database.read() as session:
        payloads = session.scalars(select(Event.payload).where(Event.account_id == tenant.id)).all()
    assert len([payload for payload in payloads if '"event":"updated"' in payload]) == 6


def test_blocking_shows_in_contacts(cli: Cli, tenant: Tenant, customers: int) -> None:
    tenant.new_contact(customers, email="ann@example.com", mobile="61411111111")
    assert cli.text("suppressions", "block", "ANN@example.com") == "ANN@example.com is blocked\n"
    assert flags(tenant, customers, "blocked") == [{"email": True, "mobile": False}]
    assert cli.text("suppressions", "unblock", "ann@example.com") == "ann@example.com is no longer blocked\n"
    assert flags(tenant, customers, "blocked") == [{"email": False, "mobile": False}]
    assert cli.text("suppressions", "unblock", "ann@example.com") == "ann@example.com was not blocked\n"


def test_suppressed_addresses_are_listed(cli: Cli, customers: int) -> None:
    cli.text("suppressions", "unsubscribe", "a@example.com", "--list", str(customers))
    cli.text("suppressions", "unsubscribe", "61411111111")
    cli.text("suppressions", "block", "b@example.com", "--reason", "asked by phone")
    rows = cli.json("suppressions", "list")
    assert [
        (suppression["state"], suppression["kind"], suppression["address"], suppression["list"], suppression["reason"])
        for suppression in rows
    ] == [
        ("blocked", "email", "b@example.com", None, "asked by phone"),
        ("unsubscribed", "mobile", "61411111111", None, None),
        ("unsubscribed", "email", "a@example.com", "Customers", None),
    ]
    assert cli.json("suppressions", "list", "--state", "blocked") == rows[:1]
    assert cli.json("suppressions", "list", "--state", "unsubscribed", "--limit", "1") == rows[1:2]
    assert cli.json("suppressions", "list", "--limit", "2") == rows[:2]
    assert "b@example.com" in cli.text("suppressions", "list")


def test_what_suppresses_one_address_is_shown(cli: Cli, customers: int) -> None:
    cli.text("suppressions", "unsubscribe", "Ann@example.com", "--list", str(customers))
    cli.text("suppressions", "unsubscribe", "ann@example.com")
    cli.text("suppressions", "block", "ann@example.com")
    cli.text("suppressions", "block", "bob@example.com")
    suppressions = cli.json("suppressions", "show", "ANN@example.com")
    assert [(suppression["state"], suppression["address"], suppression["list"]) for suppression in suppressions] == [
        ("blocked", "ann@example.com", None),
        ("unsubscribed", "ann@example.com", None),
        ("unsubscribed", "ann@example.com", "Customers"),
    ]
    assert cli.text("suppressions", "show", "61411111111") == "none\n"


def test_json_output_contains_the_changes(cli: Cli, tenant: Tenant, customers: int) -> None:
    tenant.new_contact(customers, email="ann@example.com")
    assert cli.json("suppressions", "unsubscribe", "ann@example.com", "--list", "Customers") == {
        "address": "ann@example.com",
        "list_id": customers,
        "unsubscribed": True,
        "contacts_changed": 1,
    }
    facts = cli.json("suppressions", "resubscribe", "ann@example.com")
    assert [suppression["list_id"] for suppression in facts.pop("left")] == [customers]
    assert facts == {
        "address": "ann@example.com",
        "list_id": None,
        "unsubscribed": False,
        "contacts_changed": 0,
    }
    assert cli.json("suppressions", "block", "61411111111") == {"address": "61411111111", "blocked": True}
    lifted = {"address": "61411111111", "blocked": False}
    assert cli.json("suppressions", "unblock", "61411111111") == {**lifted, "was_blocked": True}
    assert cli.json("suppressions", "unblock", "61411111111") == {**lifted, "was_blocked": False}


def test_all_that_one_reply_has_blocked_is_unblocked_as_a_bulk_action(cli: Cli, bare: Cli, tenant: Tenant) -> None:
    """A preview comes first. It shows the number of addresses and the newest of them."""
    blocks = {
        AccountAddress.of(tenant.id, "email", address): Block(
            PERMANENT_BOUNCE, f"554 5.7.1 <{address}>: Relay access denied"
        )
        for address in ("p0@example.com", "p1@example.com", "p2@example.com")
    }
    tenant.services.database.transact(lambda transaction: block_addresses(transaction, blocks))
    cli.text("suppressions", "block", "hand@example.com")
    unblock = ("suppressions", "unblock", "reply=relay access denied", "creation_time:in=2020-01-01..2100-01-01")
    preview = cli.json(*unblock, "--dry-run")
    assert (preview["addresses"], len(preview["newest"])) == (3, 3)
    newest = preview["newest"][0]
    assert (newest["address"], newest["reason"], newest["reply"]) == (
        "p2@example.com",
        "permanent bounce",
        "554 5.7.1 <[address]>: Relay access denied",
    )
    assert cli.text(*unblock, "--dry-run").startswith(f"3 addresses of {tenant.name} would be unblocked\n")
    assert len(cli.json("suppressions", "list", "--state", "blocked")) == 4
    said = cli.text(*unblock, "--yes")
    assert said.startswith("3 addresses will be unblocked, starting in 30 seconds; `")
    assert f"`{COMMAND_LINE} sends bulk-actions cancel " in said
    tenant.make_bulk_actions_due()
    run_due(tenant.services, time_slice=60)
    assert [suppression["address"] for suppression in cli.json("suppressions", "list")] == ["hand@example.com"]
    account = ("--account", tenant.name)
    assert bare.acts(*account, "object=bulk_action") == [
        ("bulk_action.asked", "suppressions unblock"),
        ("bulk_action.ended", None),
    ]
    nothing = "No matching address is blocked for a reason other than a complaint."
    assert cli.refused(*unblock) == nothing
    assert cli.refused("suppressions", "unblock", "email=p1@example.com") == (
        "email: a bulk action cannot select a single address; unblock it on its own."
    )
    assert cli.refused("suppressions", "unblock", "hand@example.com", "--dry-run").startswith("--dry-run counts")


def test_a_blocked_address_shows_the_reply_that_has_blocked_it(cli: Cli, tenant: Tenant, tmp_path: Path) -> None:
    address = AccountAddress.of(tenant.id, "email", "ann@example.com")
    block = Block(PERMANENT_BOUNCE, "550 5.1.1 <Ann@Example.com>: user unknown")
    tenant.services.database.transact(lambda transaction: block_addresses(transaction, {address: block}))
    reply = "550 5.1.1 <[address]>: user unknown"
    assert [suppression["reply"] for suppression in cli.json("suppressions", "show", "ann@example.com")] == [reply]
    assert [suppression["reply"] for suppression in cli.json("suppressions", "list")] == [reply]
    cli.text("suppressions", "export", str(tmp_path / "all.csv"))
    with (tmp_path / "all.csv").open() as file:
        assert [suppression["reply"] for suppression in csv.DictReader(file)] == [reply]


@each("command", ["show", "unsubscribe", "resubscribe", "block", "unblock"])
@each("address", ["nobody", "a@b", "0400111222", "61411"])
def test_invalid_addresses_are_reported(cli: Cli, command: str, address: str) -> None:
    error = f"'{address}' is neither an email address nor a mobile number such as 61411111111"
    assert cli.refused("suppressions", command, address) == error


def test_subscribing_reports_remaining_entries_and_how_to_remove_them(cli: Cli, tenant: Tenant) -> None:
    tenant.add_list("Two words")
    cli.text("suppressions", "unsubscribe", "b@example.com", "--list", "Two words")
    cli.text("suppressions", "unsubscribe", "b@example.com")
    cli.text("suppressions", "block", "b@example.com", "--reason", "asked")
    assert cli.text("suppressions", "resubscribe", "B@example.com").splitlines() == [
        "B@example.com is no longer unsubscribed account-wide; contacts changed: 0",
        f"still blocked (asked): {COMMAND} unblock B@example.com {account(tenant)}",
        f"still unsubscribed in Two words: {COMMAND} resubscribe B@example.com --list 'Two words' {account(tenant)}",
    ]
    left = cli.json("suppressions", "resubscribe", "b@example.com")["left"]
    assert [(suppression["state"], suppression["list"]) for suppression in left] == [
        ("blocked", None),
        ("unsubscribed", "Two words"),
    ]
    cli.text("suppressions", "unblock", "b@example.com")
    printed = cli.text("suppressions", "resubscribe", "b@example.com", "--list", "Two words")
    assert printed == "b@example.com is subscribed in Two words; contacts changed: 0\n"
    assert cli.json("suppressions", "resubscribe", "b@example.com")["left"] == []


def test_suppressed_addresses_are_exported(cli: Cli, tenant: Tenant, customers: int, tmp_path: Path) -> None:
    for number in range(3):
        cli.text("suppressions", "unsubscribe", f"p{number}@example.com", "--list", "Customers")
    cli.text("suppressions", "unsubscribe", "p1@example.com")
    cli.text("suppressions", "block", "61411111111", "--reason", "=1+1")
    file = tmp_path / "suppressed.csv"
    assert cli.text("suppressions", "export", str(file), "--delimiter", "semicolon") == f"5 exported to {file}\n"
    with file.open(newline="") as source:
        rows = list(csv.DictReader(source, delimiter=";"))
    listed = {
        (suppression["state"], suppression["address"], suppression["list"] or ""): suppression
        for suppression in cli.json("suppressions", "list")
    }
    assert {(row["state"], row["address"], row["list"]) for row in rows} == {
        *(("unsubscribed", f"p{number}@example.com", "Customers") for number in range(3)),
        ("unsubscribed", "p1@example.com", ""),
        ("blocked", "61411111111", ""),
    }
    assert [row["creation_time"] for row in rows] == sorted((row["creation_time"] for row in rows), reverse=True)
    for row in rows:
        assert row["creation_time"] == listed[row["state"], row["address"], row["list"]]["creation_time"]
    assert [(row["kind"], row["reason"]) for row in rows if row["state"] == "blocked"] == [("mobile", "'=1+1")]
    assert cli.run("suppressions", "export", "-", "--state", "blocked").stdout.count("\n") == 2
