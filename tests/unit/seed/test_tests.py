"""Test keys and test webhooks of a seed file (docs/seed.md#keys-found-by-name)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.db.models import ApiKey, List, Message, Webhook
from app.seed.errors import SeedError
from app.services import Services
from tests.support.cases import each
from tests.support.seeds import SECRET, customers, load, rows, token_of

MESSAGE = {"name": "Welcome", "type": "email", "subject": "Hi", "body_text": "Hi"}
URL = "https://hooks.acme.example/in"


def account(name: str, **parts: Any) -> dict[str, Any]:
    """An account with a key and a webhook, and the same of tests."""
    keys = [
        {"name": "ci", "access_level": "report", "token": token_of(f"{name} live"), "test": False},
        {"name": "ci", "access_level": "standard", "token": token_of(name), "test": True},
    ]
    secrets = [{"id": "k1", "secret": SECRET}]
    webhooks = [
        {"url": URL, "secrets": secrets},
        {"url": URL, "secrets": secrets, "lists": ["Customers"], "test": True},
    ]
    return {
        "name": name, "keys": keys, "webhooks": webhooks, "lists": [customers()], "messages": [MESSAGE], **parts,
    }  # fmt: skip


def test_they_are_of_the_test_account_which_has_copies_of_the_rest(services: Services, file: Path, name: str) -> None:
    (report,) = load(services, file, account(name)).accounts
    test = f"{name} (test)"
    assert rows(services, ApiKey, name, "name", "access_level") == [("ci", "report")]
    assert rows(services, ApiKey, test, "name", "access_level") == [("ci", "standard")]
    ((list_id,),) = rows(services, List, name, "id")
    assert rows(services, List, test, "id", "name") == [(-list_id, "Customers")]
    assert rows(services, Message, test, "name") == [("Welcome",)]
    assert rows(services, Webhook, name, "url", "chosen_lists") == [(URL, None)]
    assert rows(services, Webhook, test, "url", "chosen_lists") == [(URL, [list_id])]
    assert (report.created["key"], report.created["webhook"], report.created["account"]) == (2, 2, 1)
    report_as_json = report.as_json()
    assert [[row.get("test", False) for row in report_as_json[noun]] for noun in ("keys", "webhooks")] == [
        [False, True]
    ] * 2


def test_a_second_load_changes_nothing_and_another_one_refreshes(services: Services, file: Path, name: str) -> None:
    load(services, file, account(name))
    test = f"{name} (test)"
    before = rows(services, List, test, "id", "last_modified_time", "name")
    assert load(services, file, account(name)).changes == 0
    assert rows(services, List, test, "id", "last_modified_time", "name") == before
    load(services, file, account(name, lists=[customers(), {"name": "Further"}]))
    assert {name for (name,) in rows(services, List, test, "name")} == {"Customers", "Further"}


def test_a_file_without_them_makes_no_test_account(services: Services, file: Path, name: str) -> None:
    load(services, file, account(name, keys=[], webhooks=[{"url": URL}]))
    assert rows(services, List, f"{name} (test)", "id") == []


@each(
    ("parts", "error"),
    [
        ({"keys": [{"name": "a", "test": "yes"}]}, "keys[0].test: must be true or false, not text"),
        (
            {"keys": [{"name": "a", "access_level": "report"}, {"name": "b", "test": True}]},
            "keys[1].access_level: is required",
        ),
        (
            {"keys": [{"name": "a", "access_level": "much", "test": True}]},
            "keys[0].access_level: 'much' is not one of report, limited, standard, manager",
        ),
        ({"webhooks": [{"url": URL, "test": 1}]}, "webhooks[0].test: must be true or false, not a number"),
        (
            {"webhooks": [{"url": URL}, {"url": URL, "test": True, "lists": ["Nobody"]}]},
            "webhooks[1].list: the account has no list 'Nobody'",
        ),
    ],
)
def test_a_wrong_value_is_named_by_its_path(
    services: Services, file: Path, name: str, parts: dict[str, Any], error: str
) -> None:
    with pytest.raises(SeedError) as refused:
        load(services, file, {"name": name, **parts})
    assert str(refused.value) == f"accounts[0].{error}"


def test_an_account_that_has_the_name_of_the_test_account_is_refused(services: Services, file: Path, name: str) -> None:
    with pytest.raises(SeedError) as refused:
        load(services, file, {"name": f"{name} (test)"}, account(name))
    assert str(refused.value).startswith("accounts[1].keys[1].test: there is an account")
