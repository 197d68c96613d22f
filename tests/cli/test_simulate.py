"""`flask automations simulate`: what an automation would do (docs/automations.md#simulating)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import func, select, update

from app.db.models import Account, Automation, AutomationRun, Recipient
from tests.cli.conftest import Cli
from tests.support.tenants import FULL_FIELDS, Tenant, new_email

DEFINITION = {
    "name": "Series",
    "kind": "advanced",
    "list": "Customers",
    "trigger": "REST API Contact Created",
    "if": "plan:EXACTLY:gold",
    "steps": [
        {"name": "hello", "send": "Welcome"},
        {
            "name": "read it",
            "branch": {"step": "hello", "did": "opened", "within": "1 day"},
            "then": [{"name": "morning", "wait": {"until": "02:30"}}],
        },
        {"name": "birthday", "wait": {"date": "born", "at": "09:00", "past": "next year"}},
        {"name": "more", "send": "Welcome"},
    ],
}
AT = "2026-03-07T18:00:00"
"""The evening before the clocks of New York go forward."""


@pytest.fixture
def contact(tenant: Tenant) -> str:
    """The address of a contact in New York."""
    tenant.add_message(name="Welcome")
    list_id = tenant.add_list("Customers", FULL_FIELDS)
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(time_zone="America/New_York"))
    email = new_email()
    tenant.new_contact(list_id, email=email, plan="gold", born="1990-03-10")
    return email


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The definition in a file."""
    return definition_file(tmp_path)


def definition_file(folder: Path, **changed: Any) -> str:
    path = folder / "series.yaml"
    path.write_text(yaml.safe_dump({**DEFINITION, **changed}), "utf-8")
    return str(path)


def test_a_simulation_prints_each_step_with_its_time_in_the_zone_of_the_account(
    cli: Cli, contact: str, file: str
) -> None:
    output = cli.text("automations", "simulate", file, "--contact", contact, "--at", AT)
    assert [line.split("  ")[0] for line in output.splitlines()[1:]] == [
        "2026-03-07T18:00:00-0500",
        "2026-03-08T19:00:01-0400",
        "2026-03-10T09:00:00-0400",
        "2026-03-10T09:00:00-0400",
        "ends 2026-03-10T09:00:00-0400: completed",
    ]
    assert "read it   if hello was opened within 1 day" in output
    assert "else    assumed: hello was not opened in time" in output


def test_a_branch_may_be_assumed_to_be_taken(cli: Cli, contact: str, file: str) -> None:
    simulation = cli.json("automations", "simulate", file, "--contact", contact, "--at", AT, "--then", "read it")
    assert [(step["time"], step["step"], step["result"], step["detail"]) for step in simulation["steps"]] == [
        ("2026-03-07T23:00:00Z", "hello", "done", None),
        ("2026-03-07T23:00:00Z", "read it", "then", "assumed: hello was opened at once"),
        ("2026-03-08T07:00:00Z", "morning", "done", None),
        ("2026-03-10T13:00:00Z", "birthday", "done", None),
        ("2026-03-10T13:00:00Z", "more", "done", None),
    ]
    assert (simulation["entered"], simulation["end_time"], simulation["end_reason"]) == (
        True,
        "2026-03-10T13:00:00Z",
        "completed",
    )


def test_a_simulation_takes_the_contact_as_it_is(cli: Cli, tenant: Tenant, contact: str, tmp_path: Path) -> None:
    gold = definition_file(tmp_path)
    contact_in_json = cli.json("contacts", "show", contact, "--list", "Customers")
    path = f"/v1/lists/{contact_in_json['list_id']}/contacts/{contact_in_json['id']}"
    tenant.api.patch(path, {"subscribed": {"email": False}})
    simulation = cli.json("automations", "simulate", gold, "--contact", str(contact_in_json["id"]), "--at", AT)
    assert [(step["step"], step["result"], step["detail"]) for step in simulation["steps"]][:2] == [
        ("hello", "skipped", "unsubscribed"),
        ("read it", "else", "no message"),
    ]
    tenant.api.patch(path, {"plan": "free"})
    assert cli.json("automations", "simulate", gold, "--contact", contact)["entered"] is False
    assert cli.text("automations", "simulate", gold, "--contact", contact).startswith("does not enter")


def test_a_simulation_writes_nothing(cli: Cli, tenant: Tenant, contact: str, file: str) -> None:
    cli.text("automations", "simulate", file, "--contact", contact)
    with tenant.services.database.read() as session:
        for model in (Automation, AutomationRun, Recipient):
            assert session.scalar(select(func.count()).where(model.account_id == tenant.id)) == 0


def test_what_cannot_be_simulated_is_refused_with_the_reason(
    cli: Cli, tenant: Tenant, contact: str, file: str, tmp_path: Path
) -> None:
    def refused(*arguments: str, path: str = file) -> str:
        return cli.refused("automations", "simulate", path, "--contact", *arguments)

    assert refused(contact, "--at", "tomorrow") == "--at must be a time such as 2026-12-24T18:00:00, not 'tomorrow'"
    assert refused(contact, "--then", "hello") == (
        "'hello' is not a branch with a condition on a message; known: read it"
    )
    assert "no contact" in refused("nobody@example.com")
    unknown = definition_file(tmp_path, steps=[{"name": "hello", "send": "Nothing"}])
    assert refused(contact, path=unknown) == "steps[0].send: the account has no message 'Nothing'"
