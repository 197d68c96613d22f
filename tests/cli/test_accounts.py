"""`flask accounts`, `keys`, `domains` and `senders`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.client import Client, check_error
from tests.support.tenants import Tenant, new_mobile, unique

SHOWN_ALWAYS = {"creation_time", "last_modified_time", "id"}


def test_accounts_are_created_updated_and_deleted(bare: Cli) -> None:
    name = unique("made")
    made = bare.json(
        *("accounts", "create", name, "--owner-email", "o@acme.example", "--owner-confirmed"),
        *("--default-from-name", "Acme", "--default-from-address", "hello@acme.example"),
        *("--allow-network", "10.0.0.0/8", "--allow-network", "::1/128", "--rate-limit", "5/second"),
        *(
            "--machine-events",
            "on",
            "--track-opens",
            "off",
            "--time-zone",
            "Australia/Brisbane",
            "--sms-priority",
            "high",
            "--retain-content",
            "30D",
        ),
    )
    expected = {
        "name": name,
        "owner_email": "o@acme.example",
        "owner_confirmed": True,
        "allowed_networks": ["10.0.0.0/8", "::1/128"],
        "default_from_name": "Acme",
        "default_from_address": "hello@acme.example",
        "time_zone": "Australia/Brisbane",
        "rate_limit": "5/second",
        "track_opens": False,
        "track_clicks": True,
        "machine_events": True,
        "email_priority": "normal",
        "sms_priority": "high",
        "retain_content": "30d",
        "retain_recipients": None,
        "retain_captured": None,
        "retain_logs": None,
        "retain_audit": None,
        "brand_name": None,
        "brand_colour": None,
        "test_of": None,
    }
    assert {key: value for key, value in made.items() if key not in SHOWN_ALWAYS} == expected
    assert bare.json("accounts", "show", name) == made
    assert made in bare.json("accounts", "list")
    changed = bare.json(
        *("accounts", "update", name, "--name", f"{name}-2", "--owner-unconfirmed", "--any-network"),
        *("--default-from-name", "", "--rate-limit", "", "--track-opens", "on", "--track-clicks", "off"),
        *("--machine-events", "off"),
        *("--time-zone", "", "--email-priority", "high", "--sms-priority", ""),
        *("--retain-content", "", "--retain-recipients", "off"),
        *("--retain-captured", "12H", "--retain-logs", "4w", "--retain-audit", "off"),
        *("--brand-name", "Acme Energy", "--brand-colour", "#0A66C2"),
    )
    expected |= {"name": f"{name}-2", "owner_confirmed": False, "allowed_networks": []}
    expected |= {
        "default_from_name": None,
        "rate_limit": None,
        "track_opens": True,
        "track_clicks": False,
        "machine_events": False,
        "time_zone": "UTC",
        "email_priority": "high",
        "sms_priority": "normal",
        "retain_content": None,
        "retain_recipients": "off",
        "retain_captured": "12h",
        "retain_logs": "4w",
        "retain_audit": "off",
        "brand_name": "Acme Energy",
        "brand_colour": "#0a66c2",
    }
    assert {key: value for key, value in changed.items() if key not in SHOWN_ALWAYS} == expected
    assert bare.text("accounts", "delete", f"{name}-2", "--yes") == f"deleted account {name}-2\n"
    assert bare.refused("accounts", "show", f"{name}-2") == f"there is no account '{name}-2'"


def test_a_new_account_is_in_utc_by_default(bare: Cli, tenant: Tenant) -> None:
    assert bare.json("accounts", "show", tenant.name)["time_zone"] == "UTC"
    bare.text("accounts", "update", tenant.name, "--time-zone", "Europe/Berlin")
    assert "Europe/Berlin" in bare.text("accounts", "list")
    assert "time zone:            Europe/Berlin\n" in bare.text("accounts", "show", tenant.name)
    moment = tenant.api.get("/v1/").get_json()["access_token_creation_time"]
    assert moment.endswith("Z")


def test_deleting_an_account_asks_for_confirmation(bare: Cli, tenant: Tenant) -> None:
    result = bare.run("accounts", "delete", tenant.name, input="n\n")
    assert result.exit_code == 1
    assert bare.json("accounts", "show", tenant.name)["id"] == tenant.id


def test_an_account_with_everything_in_it_can_be_deleted(bare: Cli, tenant: Tenant, customers: int) -> None:
    tenant.new_contact(customers, email="ann@example.com", subscribed={"email": False})
    tenant.add_message()
    tenant.add_sender("61400000001", list_id=customers)
    bare.text("accounts", "delete", tenant.name, "--yes")
    check_error(tenant.api.get("/v1/"), 401, "api_key_invalid")


@each(
    ("options", "error"),
    [
        (["--owner-email", "nobody"], "owner_email: 'nobody' is not an email address"),
        (["--allow-network", "ten"], "allowed_networks.0: 'ten' does not appear to be an IPv4 or IPv6 network; write"),
        (["--rate-limit", "fast"], "rate_limit: 'fast' must be N/second, N/minute, N/hour or off"),
        (["--name", ""], "name: must not be empty"),
        (["--email-priority", "urgent"], "email_priority: 'urgent' is not one of high, normal"),
        (["--sms-priority", "High"], "sms_priority: 'High' is not one of high, normal"),
        (["--brand-name", "  "], "brand_name: must not be empty"),
        (["--brand-name", "x" * 101], "brand_name: has more than 100 characters"),
        (["--brand-name", "Ac\u2028me"], "brand_name: contains a control character"),
        (["--brand-colour", "blue"], "brand_colour: 'blue' is not a colour such as #0a66c2"),
        (["--brand-colour", "#0a66c2;"], "brand_colour: '#0a66c2;' is not a colour such as #0a66c2"),
        *(
            (["--time-zone", name], f"time_zone: {name!r} is not the name of an IANA time zone, such as Australia/Bris")
            for name in ("Mars", "utc", "+1000", "../etc/passwd", "Europe/Berlin ", "EST5EDT4")
        ),
    ],
)
def test_invalid_attributes_of_an_account_are_reported(
    bare: Cli, tenant: Tenant, options: list[str], error: str
) -> None:
    assert bare.refused("accounts", "update", tenant.name, *options).startswith(error)


def test_names_of_accounts_are_unique(bare: Cli, tenant: Tenant, other_tenant: Tenant) -> None:
    error = f"name: there is already an account '{tenant.name}'"
    assert bare.refused("accounts", "create", tenant.name) == error
    assert bare.refused("accounts", "update", other_tenant.name, "--name", tenant.name) == error


def test_a_key_is_shown_once_and_works_until_it_is_revoked(cli: Cli, tenant: Tenant) -> None:
    made = cli.json("keys", "create", "backend", "--level", "limited")
    client = Client(tenant.app, made["token"])
    assert client.get("/v1/messages").status_code == 200
    check_error(client.get("/v1/lists"), 403, "permission_denied")
    key = cli.json("keys", "show", "backend")
    assert (key["name"], key["access_level"], key["scopes"]) == (
        "backend",
        "limited",
        ["report.view", "message.view"],
    )
    assert made["token"] not in cli.text("keys", "show", "backend") + cli.text("keys", "list")
    assert made["token"].startswith(key["begins_with"])
    assert cli.text("keys", "revoke", "backend") == "revoked key backend\n"
    check_error(client.get("/v1/messages"), 401, "api_key_invalid")
    assert cli.text("keys", "revoke", "backend") == "key backend was already revoked\n"
    assert cli.json("keys", "show", "backend")["revoked_time"] is not None


def test_names_of_keys_are_unique(cli: Cli) -> None:
    cli.text("keys", "create", "backend", "--level", "report")
    assert cli.refused("keys", "create", "backend", "--level", "report") == (
        "name: the account already has a key 'backend'"
    )


def test_a_domain_counts_after_it_is_trusted(cli: Cli) -> None:
    result = cli.run("domains", "add", "Mail.Acme.example", "--json")
    assert result.stderr.startswith("Not verified: sends from this domain are refused.")
    assert cli.json("domains", "show", "mail.acme.example")["verified"] is False
    made = cli.json("domains", "add", "mail.acme.example", "--trust")
    assert (made["name"], made["verified"]) == ("mail.acme.example", True)
    assert cli.json("domains", "add", "mail.acme.example") == cli.json("domains", "show", "mail.acme.example") == made
    assert made in cli.json("domains", "list")
    assert cli.text("domains", "delete", "mail.acme.example") == "deleted domain mail.acme.example\n"
    assert cli.refused("domains", "show", "mail.acme.example") == "the account has no domain 'mail.acme.example'"


@each("name", ["localhost", "acme..example", "-a.example", "a_b.example", "a" * 64 + ".example"])
def test_an_invalid_domain_is_refused(cli: Cli, name: str) -> None:
    error = f"'{name}' is not a domain name such as mail.example.com"
    assert cli.refused("domains", "add", "--", name) == error


def test_international_domains_are_stored_in_ascii(cli: Cli) -> None:
    assert cli.json("domains", "add", "Bücher.example", "--trust")["name"] == "xn--bcher-kva.example"
    assert cli.json("domains", "show", "bücher.example")["name"] == "xn--bcher-kva.example"


def test_senders_are_added_updated_and_deleted(cli: Cli, customers: int) -> None:
    number = new_mobile()
    made = cli.json("senders", "create", number, "--kind", "virtual_number", "--list", "Customers")
    assert (made["address"], made["kind"], made["list"], made["list_id"]) == (
        number,
        "virtual_number",
        "Customers",
        customers,
    )
    assert cli.json("senders", "list") == [made]
    assert cli.json("senders", "update", number, "--kind", "number")["list_id"] == customers
    assert cli.json("senders", "update", number, "--list", "") == {
        **made,
        "kind": "number",
        "list": None,
        "list_id": None,
    }
    assert cli.text("senders", "delete", number) == f"sender {number}: The approval was withdrawn.\n"
    assert cli.refused("senders", "show", number) == f"address: the account has no sender '{number}'"


def test_senders_are_listed_by_as_many_statements_for_many_as_for_one(
    cli: Cli, bare: Cli, tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    """Statements are counted for the senders of one account and for those of all accounts."""

    def statements() -> int:
        with count_statements() as counted:
            for caller in (cli, bare):
                caller.json("senders", "list")
        return sum(statement.startswith("SELECT") for statement in counted.statements)

    tenant.add_sender(new_mobile())
    few = statements()
    for _ in range(5):
        tenant.add_sender(new_mobile(), list_id=tenant.add_list())
    assert statements() == few


def test_a_sender_may_have_a_rate_limit(cli: Cli) -> None:
    number = new_mobile()
    made = cli.json("senders", "create", number, "--kind", "number", "--rate", "2.5")
    assert made["messages_per_second"] == 2.5
    assert cli.json("senders", "update", number, "--kind", "number") == made
    assert cli.json("senders", "update", number, "--rate", "10")["messages_per_second"] == 10
    assert cli.json("senders", "update", number, "--rate", "0")["messages_per_second"] is None
    error = cli.refused("senders", "update", number, "--rate", "-1")
    assert error == "messages_per_second: must be 0.01 to 10000"


def test_a_sender_may_have_a_note(cli: Cli) -> None:
    number, note = new_mobile(), "Registered for Acme, reference 17"
    create = ("senders", "create", number, "--kind", "number")
    assert cli.refused(*create, "--note", "x" * 501) == "note: has more than 500 characters"
    assert cli.refused(*create, "--note", "one\ntwo") == "note: contains a control character"
    assert cli.json(*create, "--note", note)["note"] == note
    assert cli.json("senders", "update", number, "--rate", "1")["note"] == note
    assert note in cli.text("senders", "list")
    assert cli.json("senders", "update", number, "--note", "")["note"] is None


def test_a_number_belongs_to_one_account_unless_it_is_approved_as_shared(cli: Cli, other_tenant: Tenant) -> None:
    """Replies to a number are read by the account that has it. A name is no address: several accounts may have it."""
    number, other = new_mobile(), Cli(cli.app, other_tenant.name)
    cli.text("senders", "create", number, "--kind", "virtual_number")
    for kind in ("virtual_number", "number"):
        error = other.refused("senders", "create", number, "--kind", kind)
        assert error.startswith(f"address: the number {number} belongs to the account '")
    assert other.json("senders", "create", number, "--kind", "virtual_number", "--shared")["address"] == number
    for caller in (cli, other):
        caller.text("senders", "create", "SHOP", "--kind", "alphanumeric")
    cli.text("senders", "delete", number)
    assert "belongs to the account" in cli.refused("senders", "create", number, "--kind", "number")


def test_invalid_senders_are_reported(cli: Cli) -> None:
    create = ("senders", "create")
    assert cli.refused(*create, "ACMECOMPANY1", "--kind", "alphanumeric").startswith("address: 'ACMECOMPANY1' is not 1")
    assert cli.refused(*create, "+614", "--kind", "number").startswith("address: '+614' is not 3 to 15 digits")
    assert cli.refused(*create, "ACME", "--kind", "fax").startswith("Invalid value for '--kind'")
    assert cli.refused(*create, "ACME", "--kind", "alphanumeric", "--list", "L") == "the account has no list 'L'"
    cli.text(*create, "ACME", "--kind", "alphanumeric")
    assert cli.refused(*create, "ACME", "--kind", "alphanumeric") == "address: the account already has a sender 'ACME'"
