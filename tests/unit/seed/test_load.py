"""Loading a seed file creates what is missing, updates what differs and deletes nothing (docs/seed.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import select, update

import app.demo
from app.accounts.auth import hash_token
from app.db.models import (
    Account,
    ApiKey,
    Base,
    BlockedAddress,
    Contact,
    DkimKey,
    Domain,
    List,
    ListField,
    Message,
    SmsSender,
    Unsubscriber,
    Webhook,
    WebhookSecret,
)
from app.events.webhooks import list_secrets
from app.secret_keys import decrypt
from app.seed.errors import SeedError
from app.seed.load import load_seed
from app.services import Services
from tests.support.cases import each
from tests.support.seeds import FIELDS, SECRET, customers, load, rows, token_of, write_seed
from tests.support.tenants import new_mobile

MANY_OPTIONS = [f"{number:0>1000}" for number in range(251)]


def everything(name: str) -> dict[str, Any]:
    """An account with every noun and nearly every attribute."""
    return {
        "name": name,
        "owner_email": "owner@acme.example",
        "owner_confirmed": True,
        "allowed_networks": ["192.0.2.0/24", "2001:db8::/32"],
        "default_from": {"name": "Acme", "address": "hello@acme.example"},
        "rate_limit": "100/minute",
        "track_opens": False,
        "track_clicks": True,
        "sms_priority": "high",
        "keys": [
            {"name": "backend", "access_level": "standard", "token": token_of(name)},
            {"name": "reports", "access_level": "report"},
            {"name": "old", "access_level": "limited", "expires": date(2027, 1, 1)},
        ],
        "domains": ["Acme.example", "bücher.example"],
        "sms_senders": [
            {"address": "61400000001", "kind": "virtual_number", "list": "Customers", "shared": True},
            {"address": "ACME", "kind": "alphanumeric", "note": "Our shop"},
        ],
        "unsubscribers": [{"email": "Gone@example.com"}, {"mobile": "61411111111", "list": "Customers"}],
        "blocked": [{"email": "dead@example.com", "reason": "no mailbox"}, {"mobile": "61422222222"}],
        "lists": [
            customers(
                stop_words=["STOP", "OPTOUT"],
                offered=True,
                offered_name="Our customers",
                offered_description="News for customers.",
                contacts=[
                    {
                        "email": "Ann@example.com",
                        "mobile": "61411111111",
                        "first_name": "Ann",
                        "plan": "gold",
                        "spend": 12.5,
                        "born": date(1985, 12, 10),
                        "visit": datetime.fromisoformat("2026-03-04T05:06:07"),
                        "is_active": False,
                        "double_opt_in": True,
                        "subscribed": {"email": False},
                    },
                    {"email": "gone@example.com", "visit": "2026-03-04"},
                ],
            ),
            {"name": "System", "system": True, "allow_duplicates": True, "fields": FIELDS[:1]},
        ],
        "messages": [
            {
                "name": "Welcome",
                "type": "email",
                "subject": "Hi",
                "from_name": "Acme",
                "from_address": "hello@acme.example",
                "reply_to": "help@acme.example",
                "thumbnail_url": "https://acme.example/w.png",
                "body_html": "<p>Hi</p>",
                "body_text": "Hi",
            },
            {"name": "Alert", "type": "sms", "from_address": "ACME", "body_text": "Alert. STOP"},
        ],
        "webhooks": [
            {"url": "https://hooks.acme.example/in", "secrets": [{"id": "k1", "secret": SECRET}]},
            {"url": "https://hooks.acme.example/two"},
        ],
    }


def snapshot(services: Services, name: str) -> dict[str, Any]:
    """All rows of an account."""
    nouns = (ApiKey, Domain, SmsSender, Unsubscriber, BlockedAddress, List, ListField, Contact, Message, Webhook)
    models: Sequence[type[Base]] = (*nouns, WebhookSecret)
    stored: dict[str, Any] = {
        model.__tablename__: rows(services, model, name, *model.__table__.columns.keys()) for model in models
    }
    with services.database.read() as session:
        stored["account"] = session.execute(select(Account.__table__).where(Account.name == name)).one()
    return stored


def test_everything_in_the_file_is_created(services: Services, file: Path, name: str) -> None:
    load(services, file, everything(name))
    with services.database.read() as session:
        account = session.scalars(select(Account).where(Account.name == name)).one()
    assert (account.owner_email, account.owner_confirmed) == ("owner@acme.example", True)
    assert account.allowed_networks == ["192.0.2.0/24", "2001:db8::/32"]
    assert (account.default_from_name, account.default_from_address) == ("Acme", "hello@acme.example")
    assert account.rate_limit == "100/minute"
    assert (account.track_opens, account.track_clicks) == (False, True)
    assert (account.email_priority, account.sms_priority) == ("normal", "high")
    keys = rows(services, ApiKey, name, "name", "access_level", "expiry_time", "token_hash")
    assert [key[:3] for key in keys] == [
        ("backend", "standard", None),
        ("reports", "report", None),
        ("old", "limited", datetime(2027, 1, 1, tzinfo=UTC)),
    ]
    assert keys[0][3] == hash_token(token_of(name))
    domains = rows(services, Domain, name, "name", "verified_time")
    assert [domain for domain, verified in domains if verified] == ["acme.example", "xn--bcher-kva.example"]
    lists = rows(services, List, name, "id", "name", "system", "allow_duplicates", "stop_words")
    assert [list_[1:] for list_ in lists] == [
        ("Customers", False, False, ["STOP", "OPTOUT"]),
        ("System", True, True, []),
    ]
    assert rows(services, List, name, "offered", "offered_name", "offered_description") == [
        (True, "Our customers", "News for customers."),
        (False, None, None),
    ]
    assert rows(services, SmsSender, name, "address", "kind", "list_id", "note") == [
        ("61400000001", "virtual_number", lists[0][0], None),
        ("ACME", "alphanumeric", None, "Our shop"),
    ]
    assert sorted(rows(services, Unsubscriber, name, "kind", "address", "list_id"), key=str) == [
        ("email", "ann@example.com", lists[0][0]),
        ("email", "gone@example.com", None),
        ("mobile", "61411111111", lists[0][0]),
    ]
    assert rows(services, BlockedAddress, name, "kind", "address", "reason") == [
        ("email", "dead@example.com", "no mailbox"),
        ("mobile", "61422222222", "seed file"),
    ]
    fields = rows(services, ListField, name, "list_id", "position", "key", "type", "options")
    assert fields[3] == (lists[0][0], 3, "plan", "Dropdown", ["free", "gold"])
    assert len(fields) == len(FIELDS) + 1


def test_contacts_and_messages_are_created(services: Services, file: Path, name: str) -> None:
    load(services, file, everything(name))
    flags = ("subscribed_email", "subscribed_mobile", "is_active", "double_opt_in")
    assert rows(services, Contact, name, "email", "mobile", *flags, "values") == [
        (
            *("Ann@example.com", "61411111111", False, False, False, True),
            {
                "first_name": "Ann",
                "plan": "gold",
                "spend": 12.5,
                "born": "1985-12-10",
                "visit": "2026-03-04T05:06:07",
            },
        ),
        ("gone@example.com", None, False, True, True, False, {"visit": "2026-03-04"}),
    ]
    attributes = ("name", "type", "subject", "from_name", "from_address", "reply_to", "thumbnail_url")
    assert rows(services, Message, name, *attributes, "body_html", "body_text") == [
        (
            *("Welcome", "email", "Hi", "Acme", "hello@acme.example", "help@acme.example"),
            *("https://acme.example/w.png", "<p>Hi</p>", "Hi"),
        ),
        ("Alert", "sms", None, None, "ACME", None, None, None, "Alert. STOP"),
    ]


def test_secrets_are_stored_encrypted_and_generated_ones_shown_once(services: Services, file: Path, name: str) -> None:
    first = load(services, file, everything(name)).as_json()["accounts"][0]
    (given, generated) = first["webhooks"]
    assert given == {"id": given["id"], "url": "https://hooks.acme.example/in"}
    with services.database.read() as session:
        stored = [
            [
                (secret.key_id, decrypt(services.settings.secret_keys, secret.secret))
                for secret in list_secrets(session, webhook)
            ]
            for webhook in (session.get_one(Webhook, given["id"]), session.get_one(Webhook, generated["id"]))
        ]
    assert stored == [[("k1", SECRET)], [(secret["id"], secret["secret"]) for secret in generated["secrets"]]]
    again = load_seed(services, file).as_json()["accounts"][0]
    assert "secrets" not in again["webhooks"][1]


def test_a_second_load_writes_nothing(
    services: Services, file: Path, name: str, count_statements: Callable[[], Any]
) -> None:
    load(services, file, everything(name))
    before = snapshot(services, name)
    with count_statements() as counted:
        report = load_seed(services, file)
    assert report.changes == 0
    assert [statement for statement in counted.statements if not statement.startswith(("SELECT", "BEGIN"))] == []
    assert snapshot(services, name) == before
    assert report.as_lines()[0].endswith("nothing to change")


def test_rows_that_are_no_longer_in_the_file_stay(services: Services, file: Path, name: str) -> None:
    load(services, file, everything(name))
    before = snapshot(services, name)
    load(services, file, {"name": name, "lists": [{"name": "Customers"}]})
    assert snapshot(services, name) == before


def test_differing_rows_are_updated_and_the_others_stay(services: Services, file: Path, name: str) -> None:
    load(services, file, everything(name))
    hashes = rows(services, ApiKey, name, "token_hash")
    report = load(
        services,
        file,
        {
            "name": name,
            "owner_confirmed": False,
            "default_from": None,
            "keys": [{"name": "reports", "access_level": "limited"}, {"name": "old", "expires": None}],
            "sms_senders": [{"address": "61400000001", "kind": "number", "list": None}],
            "blocked": [{"email": "DEAD@example.com", "reason": "gone"}],
            "lists": [
                {
                    "name": "Customers",
                    "allow_duplicates": True,
                    "fields": [{"name": "Plan", "type": "Dropdown", "options": ["free", "silver", "gold"]}],
                    "contacts": [{"email": "ANN@example.com", "plan": "silver", "spend": None, "mobile": None}],
                }
            ],
            "messages": [{"name": "Welcome", "type": "email", "subject": "Hello", "body_text": None}],
            "webhooks": [
                {
                    "url": "https://hooks.acme.example/in",
                    "secrets": [{"id": "k1", "secret": SECRET[::-1]}, {"id": "k2", "secret": SECRET}],
                }
            ],
        },
    )
    (changed,) = report.accounts
    assert +changed.created == {}
    assert dict(+changed.updated) == {
        **{"account": 1, "key": 2, "sender": 1, "blocked address": 1, "list": 1},
        **{"contact": 1, "message": 1, "webhook": 1},
    }
    assert rows(services, ApiKey, name, "access_level", "expiry_time") == [
        ("standard", None),
        ("limited", None),
        ("limited", None),
    ]
    assert rows(services, ApiKey, name, "token_hash") == hashes
    assert rows(services, SmsSender, name, "kind", "list_id")[0] == ("number", None)
    assert rows(services, BlockedAddress, name, "reason")[0] == ("gone",)
    assert rows(services, ListField, name, "options")[3] == (["free", "silver", "gold"],)
    contact = rows(services, Contact, name, "email", "mobile", "identifier", "values")[0]
    values = {"first_name": "Ann", "plan": "silver", "born": "1985-12-10", "visit": "2026-03-04T05:06:07"}
    assert contact == ("ANN@example.com", None, None, values)
    assert rows(services, Message, name, "subject", "body_text")[0] == ("Hello", None)
    assert rows(services, WebhookSecret, name, "key_id") == [("k1",), ("k1",), ("k2",)]
    with services.database.read() as session:
        account = session.scalars(select(Account).where(Account.name == name)).one()
    assert (account.owner_confirmed, account.owner_email) == (False, "owner@acme.example")
    assert (account.default_from_name, account.default_from_address) == (None, None)


def test_an_invalid_file_changes_nothing(services: Services, file: Path, name: str) -> None:
    good, bad = everything(name), everything(name + " two")
    bad["keys"][0]["token"] = token_of(name + " two")
    bad["webhooks"][1]["url"] = "ftp://hooks.acme.example/"
    with pytest.raises(SeedError, match=r"^accounts\[1\]\.webhooks\[1\]\.url: must begin with https://"):
        load(services, file, good, bad)
    with services.database.read() as session:
        assert session.scalars(select(Account).where(Account.name.in_([name, name + " two"]))).all() == []


def with_contact(**attributes: Any) -> dict[str, Any]:
    return {"lists": [customers(contacts=[{"email": "a@example.com"}, {"email": "b@example.com", **attributes}])]}


CONTACT = r"lists[0].contacts[1]"


@each(
    ("account", "error"),
    [
        ({"name": " "}, "name: must not be empty"),
        ({"name": "x" * 256}, "name: has more than 255 characters"),
        ({"name": "a\nb"}, "name: contains a control character"),
        ({"owner_email": "nobody"}, "owner_email: 'nobody' is not an email address"),
        ({"default_from": {"address": "nobody"}}, "default_from.address: 'nobody' is not an email address"),
        ({"allowed_networks": ["10.0.0.0/8", "10.0.0.1/8"]}, "allowed_networks[1]: 10.0.0.1/8 has host bits set"),
        ({"time_zone": "Mars"}, "time_zone: 'Mars' is not the name of an IANA time zone"),
        ({"rate_limit": "fast"}, "rate_limit: 'fast' must be N/second, N/minute, N/hour or off"),
        ({"keys": [{"name": "k"}]}, "keys[0].access_level: is required"),
        (
            {"keys": [{"name": "k", "access_level": "root"}]},
            "keys[0].access_level: 'root' is not one of report, limited",
        ),
        (
            {"keys": [{"name": "k", "access_level": "report", "token": "tms_x"}]},
            "keys[0].token: a token is tms_ and at",
        ),
        ({"domains": ["acme.example", "localhost"]}, "domains[1]: 'localhost' is not a domain name"),
        (
            {"sms_senders": [{"address": "ACME", "kind": "name"}]},
            "sms_senders[0].kind: 'name' is not one of virtual_number",
        ),
        (
            {"sms_senders": [{"address": "0400", "kind": "number"}]},
            "sms_senders[0].address: '0400' is not 3 to 15 digits",
        ),
        (
            {"sms_senders": [{"address": "6140", "kind": "alphanumeric"}]},
            "sms_senders[0].address: '6140' is not 1 to 11",
        ),
        (
            {"sms_senders": [{"address": "ACME", "kind": "alphanumeric", "list": "L"}]},
            "sms_senders[0].list: the account has no list 'L'",
        ),
        (
            {"sms_senders": [{"address": "ACME", "kind": "alphanumeric", "messages_per_second": 0}]},
            "sms_senders[0].messages_per_second: must be 0.01 to 10000",
        ),
        (
            {"sms_senders": [{"address": "ACME", "kind": "alphanumeric", "note": "x" * 501}]},
            "sms_senders[0].note: has more than 500 characters",
        ),
        (
            {"sms_senders": [{"address": "ACME", "kind": "alphanumeric", "messages_per_second": "fast"}]},
            "sms_senders[0].messages_per_second: must be a number, not text",
        ),
        ({"unsubscribers": [{"email": "a@b"}]}, "unsubscribers[0].email: 'a@b' is not an email address"),
        ({"unsubscribers": [{"mobile": "0400"}]}, "unsubscribers[0].mobile: '0400' is not a mobile number"),
        (
            {"unsubscribers": [{"email": "a@b.example", "list": "L"}]},
            "unsubscribers[0].list: the account has no list 'L'",
        ),
        ({"blocked": [{"email": "a@b"}]}, "blocked[0].email: 'a@b' is not an email address"),
        ({"lists": [{"name": "L"}, {"name": ""}]}, "lists[1].name: must not be empty"),
        (
            {"lists": [{"name": "L", "stop_words": ["A", " "]}]},
            "lists[0].stop_words[1]: a stop word has 1 to 50 printable",
        ),
        (
            {"lists": [{"name": "L", "offered": "yes"}]},
            "lists[0].offered: must be true or false, not text",
        ),
        (
            {"lists": [{"name": "L", "offered_name": ""}]},
            "lists[0].offered_name: must not be empty",
        ),
        (
            {"lists": [{"name": "L", "offered": True, "offered_description": "x" * 501}]},
            "lists[0].offered_description: has more than 500 characters",
        ),
        (
            {"lists": [{"name": "L", "fields": [{"name": "Odd", "type": "No Such"}]}]},
            "lists[0].fields[0].type: 'No Such' is not one of Email,",
        ),
        (
            {"lists": [{"name": "L", "fields": [{"name": "!!", "type": "State"}]}]},
            "lists[0].fields[0].name: '!!' has no letter or digit",
        ),
        (
            {"lists": [{"name": "L", "fields": [FIELDS[0], {"name": "Mail", "type": "Email"}]}]},
            "lists[0].fields[1].type: a list can have only one field of the type Email",
        ),
        (
            {"lists": [{"name": "L", "fields": [{"name": "A b", "type": "State"}, {"name": "a-b", "type": "State"}]}]},
            "lists[0].fields[1].name: 'a-b' has the key a_b, which is also the key of the field 'A b'",
        ),
        (
            {"lists": [{"name": "L", "fields": [{"name": "A", "type": "State", "options": ["x"]}]}]},
            "lists[0].fields[0].options: a field of the type State has no options",
        ),
        (
            {"lists": [{"name": "L", "fields": [{"name": "A", "type": "Dropdown", "options": ["x", "x"]}]}]},
            "lists[0].fields[0].options[1]: 'x' is named twice",
        ),
        (
            {"lists": [{"name": "L", "fields": [{"name": "A", "type": "Checkbox", "options": ["x,y"]}]}]},
            "lists[0].fields[0].options[0]: an option of a Checkbox cannot contain a comma",
        ),
        (
            {"lists": [{"name": "L", "fields": [{"name": "A", "type": "Dropdown", "options": MANY_OPTIONS}]}]},
            "lists[0].fields: all options together have more than 250,000 characters",
        ),
        (with_contact(plan="silver"), f"{CONTACT}.plan: plan must be one of the field's options"),
        (with_contact(born="10.12.1985"), f"{CONTACT}.born: born must have the form YYYY-MM-DD"),
        (with_contact(first_name=7), f"{CONTACT}.first_name: first_name must be a string"),
        (with_contact(spend="much"), f"{CONTACT}.spend: spend must be a number"),
        (with_contact(mobile="0400"), f"{CONTACT}.mobile: mobile must be 8 to 15 digits"),
        (with_contact(mobile="12345678"), f"{CONTACT}.mobile: mobile must be 8 to 15 digits"),
        (with_contact(email="=?utf-8?q?a?=@example.com"), f"{CONTACT}.email: email must be an email address"),
        (with_contact(spend=""), f"{CONTACT}.spend: spend must be a number"),
        ({"owner_email": "x" * 65 + "@example.com"}, f"owner_email: '{'x' * 65}@example.com' is not an email address"),
        (with_contact(is_active="yes"), f"{CONTACT}.is_active: The value must be true or false"),
        (with_contact(subscribed=True), f"{CONTACT}.subscribed: The value must be an object"),
        (with_contact(subscribed={"email": None}), f"{CONTACT}.subscribed.email: The value must be true or false"),
        (with_contact(subscribed={"fax": True}), f"{CONTACT}.subscribed.fax: subscribed.fax is not an attribute"),
        (
            with_contact(blocked={"email": True}),
            f"{CONTACT}.blocked: blocked is not an attribute of the contacts. Attributes: email, mobile,",
        ),
        (with_contact(email="nobody"), f"{CONTACT}.email: email must be an email address"),
        (
            with_contact(email=None, mobile="61411111111"),
            f"{CONTACT}.email: email is required, because it identifies the contacts of this list",
        ),
        (with_contact(email="A@example.com"), f"{CONTACT}.email: an earlier element of this request already has it"),
        (
            {"lists": [{"name": "L", "fields": [FIELDS[2]], "contacts": [{"first_name": "A"}]}]},
            "lists[0].contacts[0]: the list has no Email or",
        ),
        (
            {
                "lists": [
                    {
                        "name": "L",
                        "fields": [FIELDS[0]],
                        "contacts": [{"email": "a@b.example", "mobile": "61411111111"}],
                    }
                ]
            },
            "lists[0].contacts[0].mobile: The list has no field of the type Mobile Phone",
        ),
        (
            {"unsubscribers": [{"email": "B@example.com"}], **with_contact(subscribed={"email": True})},
            f"{CONTACT}.subscribed.email: is true, but the file names the address under unsubscribers",
        ),
        ({"messages": [{"name": "M", "type": "fax"}]}, "messages[0].type: 'fax' is not one of email, sms"),
        ({"messages": [{"name": "M\x9b2J", "type": "email"}]}, "messages[0].name: contains a control character"),
        ({"messages": [{"name": " ", "type": "email"}]}, "messages[0].name: must not be empty"),
        (
            {"messages": [{"name": "M", "type": "sms", "body_html": "<p>"}]},
            "messages[0].body_html: an sms has no HTML body",
        ),
        (
            {"messages": [{"name": "M", "type": "email", "from_address": "x"}]},
            "messages[0].from_address: 'x' is not an email address",
        ),
        (
            {"messages": [{"name": "M", "type": "email", "reply_to": "x"}]},
            "messages[0].reply_to: 'x' is not an email address",
        ),
        (
            {"messages": [{"name": "M", "type": "email", "subject": "x" * 999}]},
            "messages[0].subject: has more than 998 characters",
        ),
        (
            {"messages": [{"name": "M", "type": "email", "body_text": "é" * 600_000}]},
            "messages[0].body_text: has more than 1048576 bytes",
        ),
        (
            {"messages": [{"name": "M", "type": "email", "thumbnail_url": "x"}]},
            "messages[0].thumbnail_url: 'x' is not an http or https URL",
        ),
        (
            {"webhooks": [{"url": "https://a.example", "secrets": [{"id": "k", "secret": "short"}]}]},
            "webhooks[0].secrets[0].secret: a signing secret has 32 bytes or more",
        ),
        (
            {
                "webhooks": [
                    {
                        "url": "https://a.example",
                        "secrets": [{"id": "k", "secret": SECRET}, {"id": "", "secret": SECRET}],
                    }
                ]
            },
            "webhooks[0].secrets[1].id: an id is 1 to 64 visible ASCII characters",
        ),
    ],
)
def test_an_error_names_the_path_in_the_file(
    services: Services, file: Path, name: str, account: Mapping[str, Any], error: str
) -> None:
    with pytest.raises(SeedError) as caught:
        load(services, file, {"name": name, **account})
    assert str(caught.value).startswith(f"accounts[0].{error}")
    with services.database.read() as session:
        assert session.scalars(select(Account).where(Account.name == name)).first() is None


def test_placeholders_are_filled_in(services: Services, file: Path, name: str) -> None:
    write_seed(file, {"name": name, "webhooks": [{"url": "http://127.0.0.1:${RECEIVER_PORT}/events"}]})
    load_seed(services, file, {"RECEIVER_PORT": "8001"})
    assert rows(services, Webhook, name, "url") == [("http://127.0.0.1:8001/events",)]


def test_a_file_may_be_empty(services: Services, file: Path) -> None:
    file.write_text("")
    assert load_seed(services, file).as_json() == {"accounts": []}
    file.write_text("accounts:\n")
    assert load_seed(services, file).as_json() == {"accounts": []}


def test_the_report_lists_what_was_created(services: Services, file: Path, name: str) -> None:
    report = load(services, file, everything(name))
    (account,) = report.as_json()["accounts"]
    assert set(account) == {"id", "name", "keys", "lists", "messages", "webhooks", "automations"}
    assert [(key["name"], "token" in key) for key in account["keys"]] == [
        ("backend", False),
        ("reports", True),
        ("old", True),
    ]
    assert [list_["name"] for list_ in account["lists"]] == ["Customers", "System"]
    assert [message["name"] for message in account["messages"]] == ["Welcome", "Alert"]
    lines = report.as_lines()
    assert lines[0] == (
        f"{name} (id {account['id']}): 1 account created, 3 keys created, 2 domains created, 2 lists created, "
        "2 senders created, 2 unsubscribers created, 2 blocked addresses created, 2 contacts created, "
        "2 messages created, 2 webhooks created"
    )
    assert lines[1] == f"  key reports, shown once: {account['keys'][1]['token']}"
    (secret,) = account["webhooks"][1]["secrets"]
    assert lines[3] == f"  secret k1 of https://hooks.acme.example/two, shown once: {secret['secret']}"


def test_the_demo_can_be_loaded_twice(services: Services, file: Path, name: str) -> None:
    demo = Path(app.demo.__file__).parent / "seed.yaml"
    # The demo's account and keys are created anew for each database that the tests share.
    text = demo.read_text("utf-8").replace("name: Acme\n", f"name: {name}\n", 1).replace("tms_demo_", f"tms_{name}_")
    file.write_text(text, "utf-8")
    report = load_seed(services, file, {"RECEIVER_PORT": "8001"})
    assert report.accounts[0].created["contact"] == 49
    assert load_seed(services, file, {"RECEIVER_PORT": "8001"}).changes == 0


def test_a_sender_keeps_its_rate_until_the_file_contains_another(services: Services, file: Path, name: str) -> None:
    sender: dict[str, Any] = {"address": "ACME", "kind": "alphanumeric"}
    for given, expected in (({"messages_per_second": 5}, 5.0), ({}, 5.0), ({"messages_per_second": None}, None)):
        load(services, file, {"name": name, "sms_senders": [{**sender, **given}]})
        assert rows(services, SmsSender, name, "messages_per_second") == [(expected,)]


def test_a_number_of_another_account_is_refused_unless_it_is_shared(services: Services, file: Path, name: str) -> None:
    sender = {"address": new_mobile(), "kind": "virtual_number"}
    load(services, file, {"name": name, "sms_senders": [sender]})
    second = {"name": f"{name} two", "sms_senders": [sender]}
    with pytest.raises(SeedError, match=rf"sms_senders\[0\]\.address: the number \d+ belongs to the account '{name}'"):
        load(services, file, second)
    second["sms_senders"] = [{**sender, "shared": True}]
    assert load(services, file, second).changes == 2
    second["sms_senders"] = [sender]
    assert load(services, file, second).changes == 0, "what was approved stays approved"


def test_a_host_of_another_account_is_refused_but_not_one_that_was_named_before(
    services: Services, file: Path, name: str
) -> None:
    """An upgrade may find a host that belongs to one account while the file still names it for two."""
    host = f"click.{name}.example".lower()
    first = {"name": name, "domains": [{"name": "acme.example", "tracking_host": host}]}
    second = {**first, "name": f"{name} two"}
    load(services, file, first)
    with pytest.raises(SeedError, match=r"domains\[0\]\.tracking_host: is the host of another account"):
        load(services, file, second)
    load(services, file, {**second, "domains": ["acme.example"]})
    with services.database.write() as transaction:
        account = select(Account.id).where(Account.name == second["name"]).scalar_subquery()
        transaction.execute(update(Domain).where(Domain.account_id == account).values(tracking_host=host))
    assert load(services, file, second).changes == 0
    assert rows(services, Domain, str(second["name"]), "tracking_host_ready") == [(False,)]
    assert rows(services, Domain, name, "tracking_host_ready") == [(True,)]


def test_names_of_messages_are_trimmed(services: Services, file: Path, name: str) -> None:
    message = {"name": "  Welcome\u3000", "type": "email", "reply_to": ""}
    load(services, file, {"name": name, "messages": [message]})
    report = load(services, file, {"name": name, "messages": [message, {**message, "name": "Welcome"}]})
    assert (report.changes, [message["name"] for message in report.as_json()["accounts"][0]["messages"]]) == (
        0,
        ["Welcome"] * 2,
    )


def test_empty_strings_of_contacts_are_null(services: Services, file: Path, name: str) -> None:
    empty = {"first_name": "", "plan": "", "born": ""}
    load(services, file, {"name": name, "lists": [customers(contacts=[{"email": "a@example.com", "plan": "gold"}])]})
    load(services, file, {"name": name, "lists": [customers(contacts=[{"email": "a@example.com", **empty}])]})
    with services.database.read() as session:
        account_id = session.scalars(select(Account.id).where(Account.name == name)).one()
        assert session.scalars(select(Contact.values).where(Contact.account_id == account_id)).all() == [{}]


def test_the_time_zone_of_an_account_stays_until_the_file_contains_another(
    services: Services, file: Path, name: str
) -> None:
    for described, expected in (
        ({}, "UTC"),
        ({"time_zone": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({}, "Asia/Tokyo"),
        ({"time_zone": None}, "UTC"),
    ):
        load(services, file, {"name": name, **described})
        with services.database.read() as session:
            assert session.scalars(select(Account.time_zone).where(Account.name == name)).one() == expected


def test_a_domain_gets_its_own_keys_and_generated_ones_for_the_rest(services: Services, file: Path, name: str) -> None:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    domain = {"name": f"{name.lower()}.example", "selector": "mail", "keys": [{"selector": "own", "private_key": pem}]}
    for changes in (True, False):
        assert bool(load(services, file, {"name": name, "domains": [domain]}).changes) is changes
        assert sorted(rows(services, DkimKey, name, "selector", "algorithm", "state")) == [
            ("mail", "rsa", "active"),
            ("own", "ed25519", "active"),
        ]
    for attribute, given, message in (
        ("private_key", "no key", r"keys\[0\].private_key: must be an RSA or Ed25519 private key"),
        ("selector", "-own", r"keys\[0\].selector: '-own' is not a selector"),
    ):
        wrong = {**domain, "keys": [{"selector": "own", "private_key": pem, attribute: given}]}
        with pytest.raises(SeedError, match=message):
            load(services, file, {"name": name, "domains": [wrong]})
