"""`flask automations`: pausing, resuming, and the runs of contacts (docs/commands/automations.md#automations)."""

from __future__ import annotations

from typing import Any

import pytest

from app.runs.work import advance_due
from tests.cli.conftest import Cli
from tests.support.automations import add_automation, runs_of
from tests.support.tenants import Tenant

STEPS = [{"name": "hello", "send": "Welcome"}, {"name": "a day", "wait": "1 day"}]
SERIES: dict[str, Any] = {
    "name": "Series",
    "kind": "advanced",
    "trigger": "REST API Contact Created",
    "steps": STEPS,
}


@pytest.fixture
def series(tenant: Tenant) -> int:
    """The id of an automation with one run, which has passed a step."""
    tenant.add_message(name="Welcome")
    list_id = tenant.add_list()
    automation_id = add_automation(tenant.services, tenant.id, list_id, SERIES)
    tenant.new_contact(list_id, email="ann@example.com")
    while advance_due(tenant.services):
        pass
    return automation_id


def test_an_automation_is_paused_and_resumed_once(cli: Cli, series: int) -> None:
    series_in_json = {"id": series, "name": "Series"}
    assert cli.json("automations", "pause", "Series") == {**series_in_json, "state": "paused", "changed": True}
    assert cli.json("automations", "pause", "Series") == {**series_in_json, "state": "paused", "changed": False}
    assert cli.json("automations", "resume", "Series", "--held", "shift") == {
        **series_in_json,
        "state": "active",
        "changed": True,
    }
    assert cli.json("automations", "resume", "Series") == {**series_in_json, "state": "active", "changed": False}


def test_runs_are_listed_shown_with_the_steps_passed_and_cancelled(
    cli: Cli, bare: Cli, tenant: Tenant, series: int
) -> None:
    (run,) = runs_of(tenant.services, series)
    (listed,) = cli.json("automations", "runs", "Series", "--state", "waiting", "--contact", str(run.contact_id))
    assert (listed["id"], listed["state"], listed["step"]) == (run.id, "waiting", "a day")
    assert cli.json("automations", "runs", "Series", "--state", "ended") == []
    run_in_json = bare.json("automations", "run", "show", str(run.id), "--account", tenant.name)
    (passed,) = run_in_json["passed"]
    assert (run_in_json["automation_id"], passed["name"], passed["kind"], passed["result"]) == (
        series,
        "hello",
        "send",
        "done",
    )
    assert tenant.api.get(f"/v1/transactional-sends/{passed['uuid']}").status_code == 200
    assert "hello" in bare.text("automations", "run", "show", str(run.id), "--account", tenant.name)
    for changed in (True, False):
        ended = bare.json("automations", "run", "cancel", str(run.id), "--account", tenant.name)
        assert (ended["state"], ended["reason"], ended["changed"]) == ("ended", "cancelled", changed)
    cancelled = bare.acts("--account", tenant.name, "object=run", f"object_id={run.id}")
    assert cancelled == [("run.cancelled", "automations run cancel")]


def test_an_unknown_run_or_automation_is_one_line(
    cli: Cli, bare: Cli, tenant: Tenant, other_tenant: Tenant, series: int
) -> None:
    """A run or an automation of another account is unknown, too."""
    (run,) = runs_of(tenant.services, series)
    stranger = Cli(tenant.app, other_tenant.name)
    for action in ("show", "cancel"):
        arguments = ("automations", "run", action, str(run.id), "--account", other_tenant.name)
        assert bare.refused(*arguments) == f"the account has no run {run.id}"
    assert stranger.refused("automations", "runs", str(series)) == f"the account has no automation '{series}'"
