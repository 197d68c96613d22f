"""`flask contacts`: the people in a list."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.client import not_found
from tests.support.tenants import Tenant

IN_LIST = ("--list", "Customers")
HEAD = "email,mobile,First Name,plan,spend,subscribed.email,is_active\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "contacts.csv"


def contacts(cli: Cli) -> list[dict[str, Any]]:
    """The contacts of the list, the oldest first."""
    contacts_in_list: list[dict[str, Any]] = cli.json("contacts", "list", *IN_LIST)
    return sorted(contacts_in_list, key=lambda contact: contact["id"])


def test_contacts_are_created_updated_and_deleted(cli: Cli, tenant: Tenant, customers: int) -> None:
    made = cli.json(
        *("contacts", "create", "email=Ann@example.com", "First Name=Ann", "spend=12.5", "score=3"),
        *("subscribed.email=no", "double_opt_in=yes", *IN_LIST),
    )
    path = f"/v1/lists/{customers}/contacts/{made['id']}"
    api_contact = tenant.api.get(path).get_json()
    api_contact.pop("_links")
    assert made == api_contact
    assert (made["first_name"], made["spend"], made["score"]) == ("Ann", 12.5, 3)
    assert (made["subscribed"], made["double_opt_in"]) == ({"email": False, "mobile": True}, True)
    for name in (str(made["id"]), "ANN@example.com"):
        assert cli.json("contacts", "show", name, *IN_LIST) == made
    changed = cli.json("contacts", "update", "ann@example.com", "first_name=", "mobile=61411111111", *IN_LIST)
    assert (changed["first_name"], changed["mobile"], changed["spend"]) == (None, "61411111111", 12.5)
    assert "subscribed.email:   no" in cli.text("contacts", "show", "61411111111", *IN_LIST)
    assert cli.text("contacts", "delete", "61411111111", *IN_LIST) == f"deleted contact {made['id']}\n"
    not_found(tenant.api.get(path))
    assert cli.refused("contacts", "show", "ann@example.com", *IN_LIST) == ("the list has no contact 'ann@example.com'")


def test_contacts_are_listed_by_the_filters_of_the_api(cli: Cli, tenant: Tenant, customers: int) -> None:
    for number, plan in enumerate(("free", "gold", "gold")):
        tenant.new_contact(customers, email=f"p{number}@example.com", plan=plan, score=number)

    def emails(*filters: str) -> list[str]:
        return [contact["email"] for contact in cli.json("contacts", "list", *filters, *IN_LIST)]

    assert emails() == ["p2@example.com", "p1@example.com", "p0@example.com"]
    assert emails("plan=gold", "score:in=..2") == ["p1@example.com"]
    assert emails("--limit", "1") == ["p2@example.com"]
    assert cli.refused("contacts", "list", "plam=gold", *IN_LIST).startswith(
        "plam is not a query parameter of contact."
    )
    table = cli.text("contacts", "list", *IN_LIST).splitlines()
    assert table[0].split()[:3] == ["ID", "EMAIL", "MOBILE"]
    assert len(table) == 4


@each(
    ("values", "error"),
    [
        (["email=nobody"], "email must be an email address of at most 254 characters"),
        (["plan=silver"], "plan must be one of the field's options: free, gold."),
        *[
            ([f"spend={text}"], "spend must be a number.")
            for text in ("much", "1_000", "+5", " 5", "5 ", "٥", "nan", "1e")
        ],
        (["mobile=12345678"], "mobile must be 8 to 15 digits"),
        ([f"email={'x' * 65}@example.com"], "email must be an email address"),
        (["is_active=maybe"], "is_active: The value must be true or false."),
        (["email"], "'email' must be KEY=VALUE with a key of the list's contacts, such as email"),
        (["fax=7"], "'fax=7' must be KEY=VALUE with a key of the list's contacts, such as email"),
    ],
)
def test_invalid_values_are_reported(cli: Cli, customers: int, values: list[str], error: str) -> None:
    assert cli.refused("contacts", "create", *values, *IN_LIST).startswith(error)
    assert contacts(cli) == []


def test_a_conflicting_address_is_reported(cli: Cli, tenant: Tenant, customers: int) -> None:
    holder = tenant.new_contact(customers, email="ann@example.com")["id"]
    assert cli.refused("contacts", "create", "email=ANN@example.com", *IN_LIST) == (
        f"email: contact {holder} of this list already has it."
    )


def test_system_lists_belong_to_the_operator(cli: Cli, tenant: Tenant) -> None:
    tenant.add_list("Customers", system=True)
    cli.text("contacts", "create", "email=ann@example.com", *IN_LIST)
    cli.text("contacts", "update", "ann@example.com", "first_name=Ann", *IN_LIST)
    assert [contact["first_name"] for contact in contacts(cli)] == ["Ann"]
    assert cli.json("contacts", "delete", "ann@example.com", *IN_LIST)["deleted"] is True
    assert contacts(cli) == []


# --------------------------------------------------------------------------------------- import and export


def test_an_import_creates_and_updates(cli: Cli, tenant: Tenant, customers: int, file: Path) -> None:
    ann = tenant.new_contact(customers, email="ann@example.com", first_name="Ann", plan="free", spend=5)
    tenant.new_contact(customers, email="same@example.com", plan="gold")
    file.write_text(
        f"{HEAD}ANN@example.com,61411111111,,gold,,,\n"
        "bob@example.com,,Bob,free,7.25,no,true\n\n"
        "same@example.com,,,gold,,,\n"
    )
    done = cli.json("contacts", "import", str(file), *IN_LIST)
    assert done == {"created": 1, "updated": 1, "unchanged": 1, "rejected": 0, "dry_run": False}
    first, _, third = contacts(cli)
    assert (first["id"], first["first_name"], first["plan"], first["spend"]) == (ann["id"], "Ann", "gold", 5)
    assert (first["email"], first["mobile"]) == ("ANN@example.com", "61411111111")
    assert (third["email"], third["first_name"], third["spend"]) == ("bob@example.com", "Bob", 7.25)
    assert third["subscribed"] == {"email": False, "mobile": True}
    assert cli.text("contacts", "import", str(file), *IN_LIST) == "0 created, 0 updated, 3 unchanged\n"


def test_numbers_of_a_file_are_read_as_in_json(cli: Cli, customers: int, file: Path) -> None:
    texts = ["0", "-12", "007", "2.50", "1e3", "-1.5E-2", str(2**63 - 1)]
    file.write_text("email,score\n" + "".join(f"a{row}@example.com,{text}\n" for row, text in enumerate(texts)))
    cli.text("contacts", "import", str(file), *IN_LIST)
    assert [contact["score"] for contact in contacts(cli)] == [0, -12, 7, 2.5, 1000, -0.015, 2**63 - 1]


@each(
    ("text", "error"),
    [
        ("", "the file is empty; its first line names the columns"),
        ("email,fax\n", "line 1: column 'fax' is not among id, email, mobile, first_name,"),
        ("email,First Name,first_name\n", "line 1: two columns are first_name"),
        ("email,plan\na@example.com,gold\nb@example.com,silver\n", "line 3: plan must be one of the field's options"),
    ],
)
def test_an_invalid_import_changes_nothing(cli: Cli, customers: int, file: Path, text: str, error: str) -> None:
    file.write_text(text)
    assert cli.refused("contacts", "import", str(file), *IN_LIST).startswith(error)
    assert contacts(cli) == []


def test_invalid_lines_are_reported_by_kind_with_three_examples(cli: Cli, customers: int, file: Path) -> None:
    file.write_text("email,plan\ngood@example.com,\nfirst@example.com,silver\n" + "bad\x1b,\n" * 23)
    lines = cli.run("contacts", "import", str(file), *IN_LIST).stderr.splitlines()
    assert lines == [
        "Error: nothing was imported, 24 of 25 rows are faulty:",
        "  23 rows: email must be an email address of at most 254 characters, such as ann@example.com.",
        *(f"    line {line}: 'bad\\x1b'" for line in (4, 5, 6)),
        "  1 row: plan must be one of the field's options: free, gold.",
        "    line 3: 'silver'",
    ]
    assert contacts(cli) == []


def test_a_file_of_a_spreadsheet_can_be_imported(cli: Cli, customers: int, file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfemail,first_name\r\na@example.com,Ren\xc3\xa9\r\n")
    cli.text("contacts", "import", str(file), *IN_LIST)
    assert [contact["first_name"] for contact in contacts(cli)] == ["René"]


def test_an_export_can_be_imported_again(cli: Cli, tenant: Tenant, customers: int, file: Path) -> None:
    tenant.new_contact(
        customers,
        email="ann@example.com",
        mobile="61411111111",
        first_name='Ann "A", the\nfirst',
        interests="tea,cake",
        spend=12.5,
        score=7,
        born="1985-12-10",
        subscribed={"mobile": False},
        double_opt_in=True,
    )
    tenant.new_contact(customers, email="bob@example.com", is_active=False)
    cli.text("suppressions", "block", "bob@example.com")
    before = contacts(cli)
    assert cli.json("contacts", "export", str(file), *IN_LIST) == {"exported": 2}
    with file.open(newline="") as source:
        rows = list(csv.DictReader(source))
    assert [row["email"] for row in rows] == ["ann@example.com", "bob@example.com"]
    times = ("creation_time", "last_modified_time", "double_opt_in_time")
    assert [[row[name] or None for name in times] for row in rows] == [
        [contact[name] for name in times] for contact in before
    ]
    ann, bob = rows
    assert (ann["first_name"], ann["spend"], ann["score"]) == ('Ann "A", the\nfirst', "12.5", "7")
    assert (ann["subscribed.mobile"], ann["plan"], bob["blocked.email"], bob["is_active"]) == (
        "false",
        "",
        "true",
        "false",
    )
    assert cli.text("contacts", "import", str(file), *IN_LIST) == "0 created, 0 updated, 2 unchanged\n"
    assert contacts(cli) == before
