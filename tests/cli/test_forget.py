"""`flask contacts forget` and `export-person` (docs/privacy.md), and what a forgotten address meets when it comes
back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from app.db.models import Contact, QueueEntry, Recipient, Remains, Unsubscriber
from app.sends.delivery.drain import drain
from tests.cli.conftest import Cli
from tests.databases.running import alone
from tests.support.contacts import contacts_path
from tests.support.databases import BACKENDS
from tests.support.seeds import write_seed
from tests.support.sends import SendsApi, rows_of
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_mobile


@pytest.fixture
def sends(tenant: Tenant) -> SendsApi:
    """The account of the commands."""
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(QueueEntry))
    return SendsApi(tenant)


def forgotten(cli: Cli, address: str, state: str) -> None:
    """Unsubscribes or blocks the address, and forgets it."""
    cli.text("suppressions", state, address)
    cli.text("contacts", "forget", address, "--yes", "--no-compact")


def test_it_asks_and_says_what_was_removed(cli: Cli, tenant: Tenant, customers: int) -> None:
    email, mobile = new_email("Ann"), new_mobile()
    tenant.new_contact(customers, email=email, mobile=mobile)
    cli.text("suppressions", "unsubscribe", email, "--list", "Customers")
    assert cli.text("contacts", "forget", email, "--dry-run") == "held: 1 contact, 1 suppression\n"
    refused = cli.run("contacts", "forget", email, input="n\n")
    assert (refused.exit_code, len(rows_of(tenant, Contact))) == (1, 1)
    printed = cli.text("contacts", "forget", email.upper(), "--yes", "--no-compact").splitlines()
    assert printed[:2] == ["removed: 1 contact", "kept as keyed hashes: 1 unsubscribed"]
    command = f"contacts forget {mobile} --account {tenant.name}"
    assert printed[-1] == f"the contacts also had another address; to forget it, run: flask --app wsgi {command}"
    assert rows_of(tenant, Contact) == []
    assert cli.json("contacts", "forget", email, "--yes", "--no-compact")["removed"] == {}
    assert "is neither" in cli.refused("contacts", "forget", "ann")
    assert cli.acts("--address", email, "object=person") == [("person.forgotten", "contacts forget")] * 2


@pytest.fixture(params=BACKENDS)
def only_tenant(request: pytest.FixtureRequest) -> Iterator[Tenant]:
    """An account without others beside it, so that forgetting a person in all accounts looks through few."""
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as parts:
        yield parts.tenant


def test_forgetting_is_one_entry_that_says_what_was_forgotten(only_tenant: Tenant) -> None:
    """The person has contacts in three lists, suppressions, messages and a test account. Handing out their data is one
    entry as well."""
    tenant, email, sends = only_tenant, new_email("Ann"), SendsApi(only_tenant)
    cli, bare = Cli(tenant.app, tenant.name), Cli(tenant.app)
    cli.text("keys", "create", "ci", "--level", "standard", "--test")
    for list_id in (tenant.add_list("Customers", FULL_FIELDS), tenant.add_list("Others")):
        tenant.new_contact(list_id, email=email)
    cli.text("suppressions", "unsubscribe", email)
    sends.send(sends.email(recipients=[{"email": email}, {"email": new_email()}]))
    before = bare.json("audit", "list", "--limit", "1")[0]["id"]
    cli.text("contacts", "export-person", email)
    cli.text("contacts", "forget", email, "--yes")
    bare.text("contacts", "forget", email, "--yes", "--all-accounts")
    handed_out, forgotten, everywhere = reversed(bare.json("audit", "list", "--after", str(before)))
    assert (handed_out["action"], handed_out["account_id"]) == ("person.exported", tenant.id)
    assert (forgotten["action"], forgotten["account_id"]) == ("person.forgotten", tenant.id)
    assert handed_out["counts"] == forgotten["counts"] == {"contacts": 3, "messages": 1, "suppressions": 1}
    assert (everywhere["action"], everywhere["account_id"]) == ("person.forgotten", None)
    assert everywhere["counts"] == {"contacts": 0, "messages": 0, "suppressions": 0}


def test_files_are_cleaned_at_once_on_request_and_by_the_maintenance_otherwise(
    cli: Cli, bare: Cli, tenant: Tenant
) -> None:
    address = new_email("Ann")
    tenant.new_contact(tenant.add_list(), email=address)
    assert cli.json("contacts", "forget", address, "--yes")["compacted"] is None
    assert rows_of_remains(tenant) == 1
    assert bare.json("db", "compact") == {"compacted": True}
    assert rows_of_remains(tenant) == 0
    assert cli.json("contacts", "forget", address, "--yes", "--compact")["compacted"]


def rows_of_remains(tenant: Tenant) -> int:
    """Whether anything waits to be cleaned."""
    with tenant.services.database.read() as session:
        return len(session.scalars(select(Remains)).all())


def test_it_says_what_is_left_to_wait_for(cli: Cli, sends: SendsApi) -> None:
    email = new_email()
    (row,) = sends.send(sends.email(recipients=[{"email": email}])).recipients
    with sends.tenant.services.database.write() as transaction:
        entry = transaction.get_one(QueueEntry, row.id)
        entry.state, entry.worker, entry.lease_time = "sending", "another:1:x", entry.due_time.replace(year=2100)
    result = cli.run("contacts", "forget", email, "--yes", "--no-compact", "--wait", "0")
    assert result.exit_code == 1
    assert f"still being sent: {row.uuid}; repeat the command" in result.stdout


def test_a_person_is_handed_out_as_one_object(cli: Cli, sends: SendsApi) -> None:
    email = new_email("Ann")
    sends.send(sends.email(recipients=[{"email": email, "code": "1234"}]))
    person = cli.json("contacts", "export-person", email)
    assert (person["address"], person["kind"]) == (email, "email")
    places = person["accounts"][sends.tenant.name]
    assert [contact["email"] for contact in places["contacts"]] == [email]
    (message,) = places["recipients"]
    assert (message["values"], message["subject"], message["timeline"]) == ({"code": "1234"}, "A subject", [])
    assert cli.text("contacts", "export-person", email).split()[:3] == ["ACCOUNT", "PLACE", "HELD"]
    assert cli.acts("--address", email) == [("person.exported", "contacts export-person")] * 2
    nobody = cli.run("contacts", "export-person", new_email())
    assert (nobody.exit_code, nobody.stdout) == (1, "")
    assert "nothing is held about" in nobody.stderr


@pytest.mark.parametrize(("state", "reason"), [("unsubscribe", "unsubscribed"), ("block", "blocked")])
def test_nothing_is_sent_to_a_forgotten_address(cli: Cli, sends: SendsApi, state: str, reason: str) -> None:
    """Whether the send makes a contact, or there is none."""
    email, mobile = new_email(), new_mobile()
    forgotten(cli, email, state)
    forgotten(cli, mobile, state)
    sends.send(sends.email(recipients=[{"email": email}]))
    without_list = sends.sms(list_id=None, recipients=[{"mobile": mobile}])
    sends.send(without_list)
    drain(sends.tenant.services)
    assert [(row.state, row.reason) for row in rows_of(sends.tenant, Recipient)] == [("failed", reason)] * 2


def test_an_import_does_not_bring_them_back(cli: Cli, tenant: Tenant, customers: int) -> None:
    """The file may say anything about the subscription. Other people are imported, and so are those who were forgotten
    without a suppression."""
    unsubscribed, blocked, plain = new_email(), new_email(), new_email()
    forgotten(cli, unsubscribed, "unsubscribe")
    forgotten(cli, blocked, "block")
    tenant.new_contact(customers, email=plain)
    cli.text("contacts", "forget", plain, "--yes", "--no-compact")
    rows = "".join(f"{address},yes\n" for address in (unsubscribed, blocked.upper(), plain))
    for further in (("--dry-run",), ()):
        arguments = "contacts", "import", "-", "--list", "Customers", *further
        printed = cli.text(*arguments, input=f"email,subscribed.email\n{rows}")
        assert "1 created, 0 updated, 0 unchanged, 2 left out, because they were forgotten" in printed
    assert [row.email for row in rows_of(tenant, Contact)] == [plain]


def test_a_seed_file_does_not_bring_them_back(
    cli: Cli, bare: Cli, tenant: Tenant, customers: int, tmp_path: Path
) -> None:
    email, plain = new_email(), new_email()
    forgotten(cli, email, "unsubscribe")
    contacts = [{"email": email}, {"email": plain}]
    account = {"name": tenant.name, "lists": [{"name": "Customers", "contacts": contacts}]}
    printed = bare.text("seed", str(write_seed(tmp_path / "seed.yaml", account)))
    assert "  list Customers: contacts left out, because they were forgotten: 1\n" in printed
    assert [row.email for row in rows_of(tenant, Contact)] == [plain]


def test_a_contact_of_the_api_is_suppressed_as_before(cli: Cli, tenant: Tenant, customers: int) -> None:
    """The contact subscribes again if the API says so. Nothing is left of the digest then."""
    email, other = new_email("Ann"), new_email()
    forgotten(cli, email, "unsubscribe")
    forgotten(cli, email, "block")
    forgotten(cli, other, "unsubscribe")
    addresses = [suppression["address"] for suppression in cli.json("suppressions", "show", email)]
    assert addresses == ["forgotten", "forgotten"]
    left_out = tenant.api.post(f"{contacts_path(customers)}?remove_unsubscribers=any", {"email": email})
    assert left_out.get_json()["code"] == "no_subscribed_addresses"
    made = tenant.new_contact(customers, email=email)
    assert (made["subscribed"]["email"], made["blocked"]["email"]) == (False, True)
    assert {suppression["address"] for suppression in cli.json("suppressions", "show", email)} == {email.lower()}
    assert tenant.new_contact(customers, email=other, subscribed={"email": True})["subscribed"]["email"]
    assert cli.json("suppressions", "show", other) == []


def test_a_forgotten_address_is_resubscribed_by_its_name(cli: Cli, tenant: Tenant) -> None:
    email = new_email()
    forgotten(cli, email, "unsubscribe")
    exported = cli.text("suppressions", "export", "-")
    assert "forgotten" not in exported
    cli.text("suppressions", "resubscribe", email)
    assert rows_of(tenant, Unsubscriber) == []
    forgotten(cli, email, "block")
    facts: dict[str, Any] = json.loads(cli.text("suppressions", "unblock", email, "--json"))
    assert facts["was_blocked"]
