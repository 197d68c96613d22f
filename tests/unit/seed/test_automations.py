"""Automations of a seed file (docs/seed.md#automations-found-by-name)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.db.models import Automation, AutomationRun, AutomationVersion
from app.seed.errors import SeedError
from app.services import Services
from tests.support.cases import each
from tests.support.definitions import STANDARD, advanced, branch, send, stop
from tests.support.seeds import customers, load, rows

WELCOME = {
    **{"name": "Welcome", "type": "email", "subject": "Hi", "body_text": "Hi"},
    **{"from_name": "Acme", "from_address": "hello@acme.example"},
}


def account(name: str, *automations: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """An account with a list, a message and automations."""
    return {"name": name, "lists": [customers()], "messages": [WELCOME], "automations": list(automations), **parts}


def versions(services: Services, name: str) -> list[tuple[Any, ...]]:
    return rows(services, Automation, name, "name", "version")


def test_automations_are_created_once(services: Services, file: Path, name: str) -> None:
    made = load(services, file, account(name, STANDARD, WITHOUT_STATUS))
    (report,) = made.accounts
    assert report.created["automation"] == 2
    assert [automation["name"] for automation in report.as_json()["automations"]] == [
        "Welcome gold customers",
        "Welcome series",
    ]
    assert load(services, file, account(name, STANDARD, WITHOUT_STATUS)).changes == 0
    assert versions(services, name) == [("Welcome gold customers", 1), ("Welcome series", 1)]


def without_status(*steps: dict[str, Any]) -> dict[str, Any]:
    """An advanced automation of the list of these tests."""
    document = advanced(*steps)
    del document["leave_when"]
    return {**document, "if": "plan:HAS"}


WITHOUT_STATUS = without_status(send("a"), branch("b", [stop("c")]))


def test_only_what_differs_gets_a_version(services: Services, file: Path, name: str) -> None:
    load(services, file, account(name, STANDARD, WITHOUT_STATUS))
    changed = without_status(send("a"), send("d"))
    (report,) = load(services, file, account(name, STANDARD, changed)).accounts
    assert (report.created["automation"], report.updated["automation"]) == (0, 1)
    assert versions(services, name) == [("Welcome gold customers", 1), ("Welcome series", 2)]
    assert len(rows(services, AutomationVersion, name, "id")) == 3


def test_contacts_of_the_file_enter_from_the_second_load_on(services: Services, file: Path, name: str) -> None:
    ann, bob = {"email": "ann@example.com"}, {"email": "bob@example.com"}
    load(services, file, account(name, STANDARD, lists=[customers(contacts=[ann])]))
    assert rows(services, AutomationRun, name, "id") == []
    load(services, file, account(name, STANDARD, lists=[customers(contacts=[ann, bob])]))
    assert rows(services, AutomationRun, name, "state", "step") == [("waiting", "message")]


@each(
    ("automation", "error"),
    [
        (5, "accounts[0].automations[0]: must be a mapping, not a number"),
        (
            without_status(send("a"), {"name": "b", "wait": "soon"}),
            "accounts[0].automations[0].steps[1].wait: must be a number of minutes, hours, days or weeks, such as "
            "'2 days', not 'soon'",
        ),
        (
            {**STANDARD, "message": "Nothing"},
            "accounts[0].automations[0].message: the account has no message 'Nothing'",
        ),
        (
            without_status(send("a"), {"name": "b", "call": "x"}, {"name": "c", "call": "y"}),
            "accounts[0].automations[0].steps[1].call: the account has no webhook 'x'\n"
            "       accounts[0].automations[0].steps[2].call: the account has no webhook 'y'",
        ),
    ],
)
def test_an_error_has_the_path_in_the_file(
    services: Services, file: Path, name: str, automation: Any, error: str
) -> None:
    with pytest.raises(SeedError) as raised:
        load(services, file, account(name, automation))
    assert str(raised.value) == error
    assert rows(services, Automation, name, "id") == []
