"""`flask lists`."""

from __future__ import annotations

import pytest

from app.lists.fields import FIELD_TYPES
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.contacts import add_webhook, events
from tests.support.tenants import Tenant, unique


def test_lists_are_created_updated_and_deleted(cli: Cli, tenant: Tenant) -> None:
    made = cli.json(
        *("lists", "create", "Readers", "--field", "Email:Email", "--field", "First Name:First Name"),
        *("--stop-word", "STOP", "--stop-word", "ENOUGH", "--allow-duplicates"),
    )
    assert (made["name"], made["system"], made["allow_duplicates"]) == ("Readers", False, True)
    assert (made["stop_words"], made["contacts"]) == (["STOP", "ENOUGH"], 0)
    assert made["fields"] == [
        {"name": "Email", "key": "email", "type": "Email", "options": []},
        {"name": "First Name", "key": "first_name", "type": "First Name", "options": []},
    ]
    assert tenant.api.get(f"/v1/lists/{made['id']}").get_json()["name"] == "Readers"
    assert [list_["name"] for list_ in cli.json("lists", "list")] == ["Readers"]
    cli.text("contacts", "create", "email=ann@example.com", "--list", "Readers")
    changed = cli.json("lists", "update", "Readers", "--name", "Fans", "--no-duplicates", "--stop-word", "HALT")
    assert (changed["name"], changed["allow_duplicates"], changed["stop_words"]) == ("Fans", False, ["HALT"])
    assert changed["contacts"] == 1
    assert cli.json("lists", "show", str(made["id"])) == changed
    assert cli.text("lists", "show", "Fans").splitlines()[-3:] == [
        "NAME        KEY         TYPE        OPTIONS",
        "Email       email       Email       -",
        "First Name  first_name  First Name  -",
    ]
    assert cli.json("lists", "update", "Fans", "--stop-word", "")["stop_words"] == []
    assert cli.text("lists", "delete", "Fans", "--yes") == "deleted list Fans\n"
    assert cli.refused("lists", "show", "Fans") == "the account has no list 'Fans'"


def test_deleting_a_list_causes_events_of_its_contacts(
    cli: Cli, tenant: Tenant, customers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted contacts have events, whatever deleted them (docs/contacts.md#events-and-triggers)."""
    monkeypatch.setattr("app.contacts.delete.BATCH_SIZE", 2)
    ids = [tenant.new_contact(customers)["id"] for _ in range(5)]
    other = tenant.new_contact(tenant.add_list("Others"))["id"]
    tenant.add_list("Empty")
    add_webhook(tenant)
    deleted = cli.json("lists", "delete", "Customers", "--yes")
    assert deleted == {"id": customers, "name": "Customers", "contacts": 5, "deleted": True}
    cli.text("lists", "delete", "Empty", "--yes")
    assert events(tenant) == [("deleted", customers, contact_id) for contact_id in ids]
    assert [contact["id"] for contact in cli.json("contacts", "list")] == [other]


@each("type_", FIELD_TYPES)
def test_a_field_of_every_type_can_be_added(cli: Cli, type_: str) -> None:
    readers = unique("Readers")
    cli.text("lists", "create", readers)
    options = ["--option", "one", "--option", "two"] if type_ in ("Dropdown", "Radio Buttons", "Checkbox") else []
    list_in_json = cli.json("lists", "add-field", readers, "The Field", type_, *options)
    assert list_in_json["fields"] == [
        {"name": "The Field", "key": "the_field", "type": type_, "options": options[1::2]}
    ]


def test_a_new_field_can_be_written(cli: Cli, tenant: Tenant, customers: int) -> None:
    cli.text("lists", "add-field", "Customers", "Shoe Size", "Number")
    assert tenant.new_contact(customers, shoe_size=44)["shoe_size"] == 44


def test_invalid_lists_and_fields_are_reported(cli: Cli, customers: int) -> None:
    assert cli.refused("lists", "create", "Customers") == "name: the account already has a list 'Customers'"
    assert cli.refused("lists", "create", "A", "--field", "Odd").startswith(
        "type: 'Odd' is not one of Email, Mobile Phone"
    )
    assert cli.refused("lists", "show", "A") == "the account has no list 'A'"
    add = ("lists", "add-field", "Customers")
    assert cli.refused(*add, "Size", "No Such Type").startswith(
        "type: 'No Such Type' is not one of Email, Mobile Phone,"
    )
    assert cli.refused(*add, "Other Mail", "Email") == (
        "a list can have only one field of the type Email, and 'Email' has this type"
    )
    assert cli.refused(*add, "first-name", "State") == (
        "'first-name' has the key first_name, which is also the key of the field 'First Name'"
    )
    assert cli.refused(*add, "Size", "State", "--option", "S") == "a field of the type State has no options"
    control = cli.refused(*add, "Size", "Dropdown", "--option", "S", "--option", "a\x1b[31mb")
    assert control == "options.1: contains a control character"
    assert cli.refused(*add, "Size", "Dropdown", "--option", "S", "--option", "S") == "options.1: 'S' is named twice"
    options = [text for number in range(251) for text in ("--option", f"{number:0>1000}")]
    too_long = "fields: all options together have more than 250,000 characters"
    assert cli.refused(*add, "Size", "Dropdown", *options) == too_long


def test_a_list_is_offered_with_a_name_and_a_sentence(cli: Cli) -> None:
    """An empty text takes them away (docs/preferences.md#offering-a-list)."""
    keys = ("offered", "offered_name", "offered_description")
    made = cli.json("lists", "create", "newsletter_2026", "--offered", "--offered-name", "Newsletter")
    assert [made[key] for key in keys] == [True, "Newsletter", None]
    changed = cli.json("lists", "update", "newsletter_2026", "--offered-description", "Once a month: what is new.")
    assert [changed[key] for key in keys] == [True, "Newsletter", "Once a month: what is new."]
    assert cli.json("lists", "show", "newsletter_2026") == changed
    ended = cli.json("lists", "update", "newsletter_2026", "--not-offered", "--offered-name", "")
    assert [ended[key] for key in keys] == [False, None, "Once a month: what is new."]
    plain = cli.json("lists", "create", "Plain")
    assert [plain[key] for key in keys] == [False, None, None]


@each(
    ("option", "said"),
    [
        (("--offered-name", " "), "must not be empty"),
        (("--offered-name", "x" * 101), "has more than 100 characters"),
        (("--offered-name", "a\x1b[31mb"), "contains a control character"),
        (("--offered-description", "x" * 501), "has more than 500 characters"),
        (("--offered-description", "a\nb"), "contains a control character"),
    ],
)
def test_the_texts_of_an_offered_list_are_bounded_lines(cli: Cli, option: tuple[str, str], said: str) -> None:
    assert cli.refused("lists", "create", "Readers", *option).endswith(said)
    assert cli.json("lists", "list") == []


def test_an_account_offers_at_most_fifty_lists(cli: Cli, tenant: Tenant) -> None:
    for number in range(50):
        tenant.add_list(f"List {number}", offered=True)
    said = "offered: the account already offers 50 lists, which is the maximum"
    assert cli.refused("lists", "create", "Another", "--offered") == said
    cli.text("lists", "create", "Another")
    assert cli.refused("lists", "update", "Another", "--offered") == said
    cli.text("lists", "update", "List 0", "--offered", "--offered-name", "The first")
    cli.text("lists", "update", "List 1", "--not-offered")
    cli.text("lists", "update", "Another", "--offered")


def test_duplicates_cannot_be_forbidden_while_there_are_some(cli: Cli) -> None:
    cli.text("lists", "create", "Readers", "--field", "Email:Email", "--allow-duplicates")
    for _ in range(2):
        cli.text("contacts", "create", "email=ann@example.com", "--list", "Readers")
    assert cli.refused("lists", "update", "Readers", "--no-duplicates") == (
        "allow_duplicates: the list has ann@example.com more than once"
    )
