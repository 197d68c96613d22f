"""`flask automations`: what is created and changed by files (docs/automation-runs.md#versions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select

from app.automations.parse import read_definition
from app.clock import this_second
from app.db.counters import STEP_COUNTS, count
from app.db.models import AutomationRun, AutomationStep, AutomationVersion, List, Webhook
from app.errors import ServiceError
from app.runs.define import create_automation
from app.runs.delete import delete_automation
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.client import SENDS
from tests.support.definitions import ADVANCED, STANDARD, advanced, branch, send, stop
from tests.support.tenants import FULL_FIELDS, Tenant, new_email

HOOK = "https://hooks.acme.example/in"
Write = Callable[[Mapping[str, Any]], str]
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def customers(tenant: Tenant) -> int:
    """A list with what the definitions name, and their messages and webhook."""
    for name in ("Welcome", "Thanks"):
        tenant.add_message(name=name, body_text="Look at https://acme.example/")
    tenant.add(Webhook, url=HOOK, creation_time=this_second(), due_time=this_second())
    return tenant.add_list("Customers", (*FULL_FIELDS, ("Status", "Text Field"), ("Note", "Text Field")))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a definition to a file and returns its path."""

    def written(document: Mapping[str, Any]) -> str:
        file = tmp_path / "automation.yaml"
        file.write_text(yaml.safe_dump(dict(document)), "utf-8")
        return str(file)

    return written


def rows(tenant: Tenant, model: Any) -> list[Any]:
    """The account's rows."""
    with tenant.services.database.read() as session:
        return list(session.scalars(select(model).where(model.account_id == tenant.id).order_by(model.id)))


def add_run(tenant: Tenant, automation_id: int, version: int, **values: Any) -> int:
    """A run that waits in a step."""
    (version_id,) = [row.id for row in rows(tenant, AutomationVersion) if row.number == version]
    defaults = {
        "automation_id": automation_id,
        "version_id": version_id,
        "list_id": 1,
        "contact_id": 1,
        "entry_key": 0,
        "trigger_time": LONG_AGO,
        "state": "waiting",
        "due_time": LONG_AGO,
    }
    return tenant.add(AutomationRun, **{**defaults, **values})


def add_passed(tenant: Tenant, step_id: int, result: str) -> None:
    """Counts a run that has passed the step."""
    with tenant.services.database.write() as transaction:
        count(transaction, STEP_COUNTS, tenant.id, (step_id, result), passed=1)


def test_an_automation_is_created_listed_and_shown_as_a_tree(
    cli: Cli, tenant: Tenant, customers: int, write: Write
) -> None:
    made = cli.json("automations", "create", write(ADVANCED))
    assert made == {
        "id": made["id"],
        "name": "Welcome series",
        "kind": "advanced",
        "list": "Customers",
        "trigger": "REST API Contact Created",
        "state": "active",
        "version": 1,
    }
    assert cli.json("automations", "list") == [{**made, "waiting": 0, "held": 0}]
    hello = next(step for step in rows(tenant, AutomationStep) if step.name == "hello")
    add_run(tenant, made["id"], 1, step="two days")
    add_passed(tenant, hello.id, "done")
    assert cli.json("automations", "list") == [{**made, "waiting": 1, "held": 0}]
    assert cli.text("automations", "show", "Welcome series").partition("\nwhen: ")[2] == TREE.removeprefix("when: ")
    assert customers


TREE = """\
when: REST API Contact Created, in the list Customers
if: plan:EXACTLY:gold:OR:plan:EXACTLY:silver
again: always, 7 days after the last time or later
leaves when: status:EXACTLY:cancelled
  hello           sends Welcome (email)                                           here 0, done 1
  two days        waits 2 days                                                    here 1
  monday morning  waits until 09:00 on monday, tuesday                            here 0
  birthday        waits until born -7 days at 08:30, past: next year              here 0
  read it         if hello was clicked https://acme.example/ within 1 day         here 0
    then
      thanks      sends Thanks (email)                                            here 0
    else
      is gold     if plan:EXACTLY:gold                                            here 0
        then
          mark    sets born = 2001-02-03, note = -, score = 5, status = welcomed  here 0
          end     stops                                                           here 0
  out             unsubscribes all                                                here 0
  tell            calls https://hooks.acme.example/in                             here 0
"""


def test_a_list_listens_once_it_has_an_automation(tenant: Tenant, customers: int, cli: Cli, write: Write) -> None:
    deaf = tenant.add_list()
    cli.json("automations", "create", write(STANDARD))
    listeners = {row.id: (row.has_automations, row.last_modified_time) for row in rows(tenant, List)}
    assert (listeners[customers][0], listeners[deaf][0]) == (True, False)


def test_no_group_gets_the_id_of_a_step(tenant: Tenant, customers: int, cli: Cli, write: Write) -> None:
    """Groups and steps share their counters and the filter of sent contacts."""
    cli.json("automations", "create", write(ADVANCED))
    body = {
        **{"type": "email", "list_id": customers, "group_name": "First"},
        **{"subject": "Hi", "body_text": "Hi", "recipients": [{"email": new_email()}]},
    }
    link = tenant.api.post(SENDS, body).get_json()["_links"]["transactional_group"]["href"]
    cli.json("automations", "create", write(STANDARD))
    step_ids = [step.id for step in rows(tenant, AutomationStep)]
    assert len(set(step_ids)) == len(step_ids) == 12
    assert int(link.rpartition("/")[2]) not in step_ids


@pytest.mark.usefixtures("customers")
def test_an_update_that_says_the_same_makes_no_version(tenant: Tenant, cli: Cli, write: Write) -> None:
    made = cli.json("automations", "create", write(ADVANCED))
    again = cli.json("automations", "update", write(dict(reversed(ADVANCED.items()))))
    assert again == {**made, "changed": False, "moved_runs": 0, "runs_on_earlier_versions": 0}
    assert len(rows(tenant, AutomationVersion)) == 1


@pytest.mark.usefixtures("customers")
def test_an_update_adds_a_version_in_which_steps_keep_their_ids(tenant: Tenant, cli: Cli, write: Write) -> None:
    made = cli.json("automations", "create", write(advanced(send("a"), stop("b"))))
    changed = cli.json("automations", "update", write({**advanced(send("c"), send("a")), "trigger": UPDATED}))
    assert changed == {
        **made,
        **{"trigger": UPDATED, "version": 2},
        **{"changed": True, "moved_runs": 0, "runs_on_earlier_versions": 0},
    }
    assert [step.name for step in rows(tenant, AutomationStep)] == ["a", "b", "c"]
    first, second = rows(tenant, AutomationVersion)
    assert [step["name"] for step in first.definition["steps"]] == ["a", "b"]
    assert [step["name"] for step in second.definition["steps"]] == ["c", "a"]
    cli.text("automations", "rename", made["name"], "Renamed")
    (renamed, updated, _) = cli.json("audit", "list", "object=automation")
    assert (updated["action"], updated["via"]) == ("automation.updated", "automations update")
    assert {"field": "version", "old": 1, "new": 2} in updated["changes"]
    assert {"field": "name", "old": made["name"], "new": "Renamed"} in renamed["changes"]


UPDATED = "REST API Contact Updated"


@pytest.mark.usefixtures("customers")
def test_runs_are_moved_where_their_step_still_exists(tenant: Tenant, cli: Cli, write: Write) -> None:
    waits = [{"name": "a", "wait": "5 days"}, {"name": "b", "wait": "5 days"}, {"name": "c", "wait": "5 days"}]
    made = cli.json("automations", "create", write(advanced(*waits)))
    later = datetime(2036, 1, 1, tzinfo=UTC)
    for number, step in enumerate("abc"):
        add_run(tenant, made["id"], 1, step=step, step_time=LONG_AGO, contact_id=number, due_time=later)
    add_run(tenant, made["id"], 1, step=None, state="ended", contact_id=9)
    new = advanced(waits[0], {"name": "b", "wait": "2 days"}, send("d"))
    changed = cli.json("automations", "update", write(new))
    assert (changed["moved_runs"], changed["runs_on_earlier_versions"]) == (0, 3)
    moved = cli.json("automations", "update", write(new), "--move")
    assert (moved["changed"], moved["moved_runs"], moved["runs_on_earlier_versions"]) == (False, 2, 1)
    first, second = (version.id for version in rows(tenant, AutomationVersion))
    runs_by_id = rows(tenant, AutomationRun)
    assert [run.version_id for run in runs_by_id] == [second, second, first, first]
    # The wait that has become shorter is judged anew; the others end as before.
    assert [run.due_time == later for run in runs_by_id[:3]] == [True, False, True]


@pytest.mark.usefixtures("customers")
@pytest.mark.parametrize(
    ("document", "error"),
    [
        (STANDARD, "kind: cannot change: create an automation with another name and delete this one"),
        (
            {**ADVANCED, "list": "Others"},
            "list: cannot change: create an automation with another name and delete this one",
        ),
        (
            advanced(branch("x", [{"name": "hello", "stop": True}])),
            "steps[0].then[0].name: the step 'hello' was of the kind send in an earlier version; use another name",
        ),
    ],
)
def test_what_an_update_cannot_change(
    tenant: Tenant, cli: Cli, write: Write, document: dict[str, Any], error: str
) -> None:
    tenant.add_list("Others", (*FULL_FIELDS, ("Status", "Text Field"), ("Note", "Text Field")))
    cli.json("automations", "create", write(ADVANCED))
    assert cli.refused("automations", "update", write({**document, "name": "Welcome series"})) == error
    assert cli.json("automations", "show", "Welcome series")["version"] == 1


@pytest.mark.usefixtures("customers")
@each(
    ("changes", "error"),
    [
        ({"list": "Nobody"}, "list: the account has no list 'Nobody'"),
        ({"message": "Nothing"}, "message: the account has no message 'Nothing'"),
        ({"if": "plna:HAS"}, "if: contacts of the list have no 'plna'; they have blocked_email, "),
        ({"kind": "odd"}, "kind: must be one of standard, advanced, not odd"),
        (
            advanced({"name": "a", "call": "https://other.example/"}),
            "steps[0].call: the account has no webhook 'https://other.example/'",
        ),
        (
            advanced({"name": "a", "wait": {"date": "plan"}}),
            "steps[0].wait.date: the list has no field 'plan' for dates; it has born, visit",
        ),
        (
            advanced(send("a"), branch("b", [stop("c")], on={"step": "a", "did": "replied", "within": "1 day"})),
            "steps[1].branch.did: for a message of the type email, did must be delivered, opened, clicked, bounced",
        ),
        (
            advanced({"name": "a", "set": {"plan": "tin"}}),
            "steps[0].set.plan: must be one of the field's options: free, gold.",
        ),
        (advanced({"name": "a", "set": {"email": "x"}}), "steps[0].set.email: the list has no field 'email' that can"),
    ],
)
def test_what_a_definition_names_must_be_there(cli: Cli, write: Write, changes: dict[str, Any], error: str) -> None:
    document = changes if "steps" in changes else {**STANDARD, **changes}
    assert cli.refused("automations", "create", write(document)).startswith(error)
    assert cli.json("automations", "list") == []


@pytest.mark.usefixtures("customers")
def test_all_that_is_wrong_is_shown_together(cli: Cli, write: Write) -> None:
    document = advanced(send("a"), send("a"), {"name": "b", "send": "Nothing"}, {"name": "c", "wait": "soon"})
    errors = [
        "steps[1].name: is already the name of another step: a",
        "steps[2].send: the account has no message 'Nothing'",
        "steps[3].wait: must be a number of minutes, hours, days or weeks, such as '2 days', not 'soon'",
    ]
    cli.json("automations", "create", write({**STANDARD, "name": "Taken"}))
    taken = "name: the account already has an automation 'Taken'"
    for command, name, first in (
        ("create", "Other", ()),
        ("create", "Taken", (taken,)),
        ("update", "Other", ()),
        ("update", "Taken", ("kind: cannot change: create an automation with another name and delete this one",)),
    ):
        result = cli.run("automations", command, write({**document, "name": name}))
        assert (result.exit_code, result.stderr) == (2, "Error: " + "\n       ".join((*first, *errors)) + "\n")
    result = cli.run("automations", "simulate", write(document), "--contact", "1")
    assert (result.exit_code, result.stderr) == (2, "Error: " + "\n       ".join(errors) + "\n")


@pytest.mark.usefixtures("customers")
def test_a_text_message_needs_a_mobile_field_and_knows_no_opens(tenant: Tenant, cli: Cli, write: Write) -> None:
    tenant.add_message(name="Text", type="sms", body_html=None, from_address=None)
    tenant.add_sender("61411111111")
    tenant.add_list("Mails", (("Email", "Email"),))
    refused = cli.refused("automations", "create", write({**STANDARD, "list": "Mails", "message": "Text"}))
    assert refused == "message: the list has no field for the addresses of a message of the type sms"
    asks = branch("b", [stop("c")], on={"step": "a", "did": "opened", "within": "1 day"})
    refused = cli.refused("automations", "create", write(advanced({"name": "a", "send": "Text"}, asks)))
    assert refused.startswith("steps[1].branch.did: for a message of the type sms, did must be deli")


@pytest.mark.usefixtures("customers")
def test_names_are_unique_and_their_number_is_bounded(tenant: Tenant, cli: Cli, write: Write) -> None:
    cli.json("automations", "create", write(STANDARD))
    refused = cli.refused("automations", "create", write(STANDARD))
    assert refused == "name: the account already has an automation 'Welcome gold customers'"
    definition = read_definition({**STANDARD, "name": "Another"})
    with tenant.services.database.write() as transaction, pytest.raises(ServiceError) as raised:
        create_automation(transaction, tenant.id, definition, 1)
    assert raised.value.errors[0].detail == "the account can have at most 1 automations"
    assert cli.refused("automations", "update", write({**STANDARD, "name": "Other"})) == (
        "the account has no automation 'Other'; create it first"
    )


def test_a_file_that_is_not_yaml_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "automation.yaml"
    file.write_text("name: a\nname: b\n")
    assert cli.refused("automations", "create", str(file)) == f"{file}: line 2, column 1: 'name' is given twice"
    file.write_text("")
    assert cli.refused("automations", "create", str(file)) == "must be a mapping, not nothing"


@pytest.mark.usefixtures("customers")
def test_stats_have_a_row_for_each_step(tenant: Tenant, cli: Cli, write: Write) -> None:
    made = cli.json("automations", "create", write({**STANDARD, "after": "1 day"}))
    delay, message = rows(tenant, AutomationStep)
    for number in range(3):
        add_run(tenant, made["id"], 1, step="delay", contact_id=number)
    for result in ("done", "skipped"):
        add_passed(tenant, message.id, result)
    nothing = dict.fromkeys(("sent", "delivered", "opened", "clicked", "bounced", "failed_contacts", "unsubscribed"), 0)
    assert cli.json("automations", "stats", "Welcome gold customers") == [
        {"id": delay.id, "name": "delay", "kind": "wait", "here": 3, "passed": 0, "skipped": 0, **nothing},
        {"id": message.id, "name": "message", "kind": "send", "here": 0, "passed": 1, "skipped": 1, **nothing},
    ]


def test_an_automation_is_renamed_and_deleted(cli: Cli, tenant: Tenant, customers: int, write: Write) -> None:
    made = cli.json("automations", "create", write(STANDARD))
    renamed = cli.json("automations", "rename", STANDARD["name"], "Hello")
    assert renamed == {**made, "name": "Hello", "version": 2}
    assert [row["name"] for row in cli.json("automations", "list")] == ["Hello"]
    name = f"Hello (deleted {made['id']})"
    gone = {"id": made["id"], "name": name, "deleted": True, "runs": 0}
    assert cli.json("automations", "delete", "Hello", "--yes") == gone
    assert cli.json("automations", "list") == []
    assert cli.json("automations", "show", str(made["id"]))["state"] == "deleted"
    again = cli.json("automations", "create", write({**STANDARD, "name": "Hello"}))
    assert (again["name"], again["version"]) == ("Hello", 1)


@pytest.mark.usefixtures("customers")
def test_deleting_says_how_many_runs_it_ends_and_asks(cli: Cli, tenant: Tenant, write: Write) -> None:
    made = cli.json("automations", "create", write({**STANDARD, "name": "Hello", "after": "1 day"}))
    for number in range(3):
        add_run(tenant, made["id"], 1, step="delay", contact_id=number)
    asked = cli.run("automations", "delete", "Hello", input="n\n")
    assert asked.exit_code == 1
    assert "Delete the automation Hello? This ends 3 runs. [y/N]" in asked.stderr
    assert cli.run("automations", "delete", "Hello", input="").exit_code == 1
    assert cli.json("automations", "show", "Hello")["state"] == "active"
    assert cli.acts("object=automation") == [("automation.created", "automations create")]
    kept = f"Hello (deleted {made['id']})"
    done = cli.text("automations", "delete", "Hello", input="y\n")
    assert done == f"deleted automation Hello with 3 runs; it is kept as {kept}, for its reports\n"


def test_deleted_automations_do_not_count_among_those_that_an_account_may_have(tenant: Tenant, customers: int) -> None:
    definition = read_definition(STANDARD)
    with tenant.services.database.write() as transaction:
        first = create_automation(transaction, tenant.id, definition, 1)
        delete_automation(transaction, tenant.id, first.id)
        create_automation(transaction, tenant.id, definition, 1)
