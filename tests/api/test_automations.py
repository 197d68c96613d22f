"""`/v1/automations` (docs/automation-endpoints.md)."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from app.automations.parse import read_definition
from app.clock import this_second
from app.db.models import Account, Automation, AutomationRun, AutomationVersion, Webhook
from app.runs.define import update_automation
from app.runs.work import advance_due
from tests.support.cases import each
from tests.support.client import SENDS, Client, bad_query, ids, invalid, items, not_found
from tests.support.definitions import ADVANCED, STANDARD, advanced, branch, create, send
from tests.support.filters import moment
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_tenant

PATH, NAME = "/v1/automations", "automations"
FIELDS = (
    *("id", "name", "kind", "list_id", "trigger", "state", "version"),
    *("paused_time", "creation_time", "last_modified_time"),
)
RUN_FIELDS = (
    *("id", "contact_id", "version", "state", "reason", "step"),
    *("trigger_time", "due_time", "end_time"),
)


def new_author(app: Flask) -> Tenant:
    """An account with what the definitions name."""
    tenant = new_tenant(app)
    tenant.add_list("Customers", (*FULL_FIELDS, ("Status", "Text Field"), ("Note", "Text Field")))
    tenant.add_message(name="Welcome", body_text="Look at https://acme.example/")
    tenant.add_message(name="Thanks")
    return tenant


@pytest.fixture(scope="module")
def author(app: Flask) -> Tenant:
    """An account with four automations, called by letters, and four runs of the first."""
    tenant = new_author(app)
    list_id = tenant.add_list("Others")
    for name, row in AUTOMATIONS.items():
        tenant.add(Automation, **{**row, "name": name, "list_id": list_id, "shifted_seconds": 0})
    (first,) = ids(tenant.api.get(PATH, {"name": "a"}), NAME)
    shared = {"account_id": tenant.id, "automation_id": first, "definition": {}, "creation_time": moment("2026-01-01")}
    versions = [tenant.add(AutomationVersion, **{**shared, "number": number}) for number in (1, 2)]
    for number, (version, row) in enumerate(RUNS.values(), start=1):
        columns = {"automation_id": first, "list_id": list_id, "contact_id": number, "entry_key": number}
        tenant.add(AutomationRun, **{**columns, **row, "version_id": versions[version - 1], "skips_next": False})
    return tenant


AUTOMATIONS: dict[str, dict[str, Any]] = {
    name: {
        "kind": kind,
        "action": action,
        "state": "paused" if day > 2 else "active",
        "version": day,
        "paused_time": moment(f"2026-03-0{day}") if day > 2 else None,
        "creation_time": moment(f"2026-01-0{day}"),
        "last_modified_time": moment(f"2026-02-0{5 - day}"),
    }
    for day, (name, kind, action) in enumerate(
        [
            *[("a", "standard", "created"), ("b", "standard", "updated")],
            *[("c", "advanced", "created"), ("d", "advanced", "updated")],
        ],
        start=1,
    )
}
RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    name: (
        version,
        {
            "state": state,
            "reason": reason,
            "step": step,
            "trigger_time": moment(f"2026-01-0{version}"),
            "due_time": moment(f"2026-02-0{version}"),
            "end_time": moment("2026-03-01") if state == "ended" else None,
        },
    )
    for name, version, state, reason, step in [
        ("w", 1, "waiting", None, "delay"),
        ("x", 1, "held", "paused", "message"),
        ("y", 2, "ended", "completed", None),
        ("z", 2, "ended", "left", None),
    ]
}


def test_an_automation_has_every_property_its_definition_and_its_steps(app: Flask) -> None:
    tenant = new_author(app)
    automation_id = create(tenant, {**STANDARD, "after": "1 day", "if": "plan:HAS"})
    path = f"{PATH}/{automation_id}"
    automation = tenant.api.get(path).get_json()
    assert list(automation) == [*FIELDS, "definition", "steps", "_links"]
    assert [(step["name"], step["kind"]) for step in automation["steps"]] == [("delay", "wait"), ("message", "send")]
    (message,) = items(tenant.api.get("/v1/messages", {"name": "Welcome"}), "messages")
    assert automation["definition"] == {
        **STANDARD,
        **{"if": "plan:HAS", "again": "always", "after": "1 day"},
        **{"message_id": message["id"], "message_type": "email"},
    }
    links = {"self": path, "list": f"/v1/lists/{automation['list_id']}", "runs": f"{path}/runs"}
    assert automation["_links"] == {name: {"href": href} for name, href in links.items()}
    (item,) = items(tenant.api.get(PATH), NAME)
    assert item == {name: value for name, value in automation.items() if name not in ("definition", "steps")}


def test_each_field_can_be_requested_alone(app: Flask) -> None:
    tenant = new_author(app)
    path = f"{PATH}/{create(tenant, STANDARD)}"
    whole = tenant.api.get(path).get_json()
    for name in (*FIELDS, "definition", "steps"):
        assert tenant.api.get(path, {"fields": name}).get_json() == {name: whole[name], "_links": whole["_links"]}


def test_the_newest_definition_is_shown_with_the_steps_of_all_versions(app: Flask) -> None:
    tenant = new_author(app)
    automation_id = create(tenant, advanced(send("a"), send("b")))
    with tenant.services.database.write() as transaction:
        row = transaction.get_one(Automation, automation_id)
        update_automation(transaction, row, read_definition(advanced(send("c"), send("b"))))
    automation = tenant.api.get(f"{PATH}/{automation_id}").get_json()
    assert automation["version"] == 2
    assert [step["name"] for step in automation["definition"]["steps"]] == ["c", "b"]
    assert [step["name"] for step in automation["steps"]] == ["a", "b", "c"]


def test_the_whole_url_of_a_call_is_shown_to_the_level_manager_alone(app: Flask) -> None:
    tenant = new_author(app)
    url, moment = "https://hooks.example/secret-path", this_second()
    webhook_id = tenant.add(Webhook, url=url, creation_time=moment, due_time=moment)
    tenant.add_list("Callers", (*FULL_FIELDS, ("Status", "Text Field"), ("Call", "Text Field")))
    mark = {"name": "mark", "set": {"call": "https://acme.example/text"}}
    steps = ({"name": "tell", "call": url}, branch("b", [{"name": "again", "call": url}]), mark)
    automation_id = create(tenant, {**advanced(*steps), "list": "Callers"})

    def expected(shown_url: str) -> list[dict[str, Any]]:
        call = {"call": shown_url, "webhook_id": webhook_id}
        return [{"name": "tell", **call}, branch("b", [{"name": "again", **call}]), mark]

    managed = tenant.client("manager").get(f"/v1/management/automations/{automation_id}").get_json()
    assert managed["definition"]["steps"] == expected(url)
    path = f"{PATH}/{automation_id}"
    answers = [tenant.client(level).get(path) for level in ("report", "limited", "standard")]
    answers += [tenant.api.post(f"{path}/{verb}", {}) for verb in ("pause", "resume")]
    assert [answer.get_json()["definition"]["steps"] for answer in answers] == [expected("hooks.example")] * 5


@each(
    ("query", "names"),
    [
        ({}, "dcba"),
        ({"name:in": "a,d"}, "da"),
        ({"kind": "advanced"}, "dc"),
        ({"trigger": "When a Contact is created from the REST API"}, "a"),
        ({"trigger:ne": "REST API Contact Updated"}, "cba"),
        ({"state": "paused"}, "dc"),
        ({"version:in": "2..3"}, "cb"),
        ({"paused_time": "2026-03-03"}, "c"),
        ({"creation_time:in": "2026-01-03.."}, "d"),
        ({"last_modified_time:in": "2026-02-04.."}, ""),
        ({"limit": "2", "offset": "1"}, "cb"),
    ],
)
def test_filters_of_automations(author: Tenant, query: dict[str, str], names: str) -> None:
    assert [item["name"] for item in items(author.api.get(PATH, query), NAME)] == list(names)


@each(
    ("query", "names"),
    [
        ({}, "zyxw"),
        ({"contact_id:in": "1,4"}, "zw"),
        ({"version": "2"}, "zy"),
        ({"state:ne": "ended"}, "xw"),
        ({"reason": ""}, "w"),
        ({"reason:in": "left,paused"}, "zx"),
        ({"step": "delay"}, "w"),
        ({"trigger_time": "2026-01-02"}, "zy"),
        ({"due_time": "2026-02-01"}, "xw"),
        ({"due_time": ""}, "zy"),
        ({"end_time:ne": ""}, "zy"),
    ],
)
def test_filters_of_runs(author: Tenant, query: dict[str, str], names: str) -> None:
    (automation_id,) = ids(author.api.get(PATH, {"name": "a"}), NAME)
    runs = items(author.api.get(f"{PATH}/{automation_id}/runs", query), "runs")
    assert ["wxyz"[item["contact_id"] - 1] for item in runs] == list(names)


def test_a_run_has_every_property(author: Tenant) -> None:
    (automation,) = items(author.api.get(PATH, {"name": "a"}), NAME)
    path = automation["_links"]["runs"]["href"]
    held, waiting = items(author.api.get(path, {"state:ne": "ended"}), "runs")
    assert list(held) == [*RUN_FIELDS, "_links"]
    assert (waiting["version"], waiting["trigger_time"], waiting["due_time"]) == (
        *(1, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
    )
    assert held["_links"] == {
        "self": {"href": f"{path}/{held['id']}"},
        "automation": {"href": f"{PATH}/{automation['id']}"},
        "contact": {"href": f"/v1/lists/{automation['list_id']}/contacts/2"},
    }


def test_a_key_that_may_not_see_contacts_does_not_learn_whose_run_it_is(author: Tenant) -> None:
    (automation_id,) = ids(author.api.get(PATH, {"name": "a"}), NAME)
    path, client = f"{PATH}/{automation_id}/runs", author.client("report")
    runs = items(client.get(path), "runs")
    assert [list(run) for run in runs] == [[*RUN_FIELDS, "_links"]] * 4
    run = client.get(runs[0]["_links"]["self"]["href"]).get_json()
    assert {item["contact_id"] for item in (*runs, run)} == {None}
    assert [sorted(item["_links"]) for item in (*runs, run)] == [["automation", "self"]] * 5
    for key in ("contact_id", "contact_id:in", "contact_id:ne"):
        answer = client.get(path, {key: "1"})
        assert (answer.status_code, answer.get_json()["field"]) == (403, "contact_id")


def test_a_run_is_shown_with_the_steps_that_it_has_passed(app: Flask) -> None:
    tenant = new_author(app)
    skipped = {"name": "soon", "wait": {"date": "born", "past": "continue"}}
    automation_id = create(tenant, advanced(send("hello"), skipped, branch("has a plan", [send("more")])))
    (customers,) = ids(tenant.api.get("/v1/lists"), "lists")
    contact = tenant.new_contact(customers, email=new_email(), plan="gold")
    while advance_due(tenant.services):
        pass
    (run,) = items(tenant.api.get(f"{PATH}/{automation_id}/runs"), "runs")
    detail = tenant.api.get(run["_links"]["self"]["href"]).get_json()
    assert list(detail) == [*RUN_FIELDS, "passed_steps", "_links"]
    assert detail == {**run, "passed_steps": detail["passed_steps"]}
    assert (detail["contact_id"], detail["reason"]) == (contact["id"], "completed")
    passed = detail["passed_steps"]
    assert [(step["name"], step["kind"], step["result"], step["detail"]) for step in passed] == [
        ("hello", "send", "done", None),
        ("soon", "wait", "skipped", "no date"),
        ("has a plan", "branch", "then", None),
        ("more", "send", "done", None),
    ]
    steps = {step["name"]: step["id"] for step in tenant.api.get(f"{PATH}/{automation_id}").get_json()["steps"]}
    assert [step["step_id"] for step in passed] == [steps[step["name"]] for step in passed]
    sent = [tenant.api.get(f"{SENDS}/{step['uuid']}").get_json() for step in passed if step["uuid"]]
    assert [recipient["step_id"] for recipient in sent] == [steps["hello"], steps["more"]]
    alone = tenant.api.get(run["_links"]["self"]["href"], {"fields": "passed_steps", "_tz": "Asia/Tokyo"}).get_json()
    assert list(alone) == ["passed_steps", "_links"]
    assert all(step["time"].endswith("+0900") for step in alone["passed_steps"])


def test_a_run_belongs_to_its_automation(author: Tenant) -> None:
    first, second = (items(author.api.get(PATH, {"name": name}), NAME)[0]["id"] for name in "ab")
    run = items(author.api.get(f"{PATH}/{first}/runs"), "runs")[0]
    assert author.api.get(f"{PATH}/{first}/runs/{run['id']}").get_json()["passed_steps"] == []
    not_found(author.api.get(f"{PATH}/{second}/runs/{run['id']}"))
    not_found(author.api.get(f"{PATH}/{first}/runs/999999999"))


def test_pages_of_runs_are_linked_by_cursors(author: Tenant) -> None:
    (automation_id,) = ids(author.api.get(PATH, {"name": "a"}), NAME)
    page = author.api.get(f"{PATH}/{automation_id}/runs", {"limit": 3}).get_json()
    following = author.api.get(page["_links"]["next"]["href"]).get_json()
    assert [item["contact_id"] for item in following["_embedded"]["runs"]] == [1]


@pytest.mark.parametrize(("key", "code"), [("if", "parameter_not_supported"), ("q", "text_search_not_supported")])
def test_wrong_parameters_are_refused(author: Tenant, key: str, code: str) -> None:
    bad_query(author.api.get(PATH, {key: "x"}), code, field=key)


def test_a_filter_of_the_collection_is_not_available_on_one_of_its_items(author: Tenant) -> None:
    (automation_id,) = ids(author.api.get(PATH, {"name": "a"}), NAME)
    run = items(author.api.get(f"{PATH}/{automation_id}/runs"), "runs")[0]["_links"]["self"]["href"]
    for path, name in ((f"{PATH}/{automation_id}", "state"), (run, "step")):
        bad_query(author.api.get(path, {name: "x"}), "parameter_not_available", field=name)
        bad_query(author.api.get(path, {"fax": "x"}), "parameter_not_supported", field="fax")


# ---------------------------------------------------------------------------------------------- pause and resume


def test_an_automation_is_paused_and_resumed(app: Flask) -> None:
    tenant = new_author(app)
    path = f"{PATH}/{create(tenant, STANDARD)}"
    before = tenant.api.get(path).get_json()
    paused = tenant.api.post(f"{path}/pause", {}).get_json()
    assert (paused["state"], paused["paused_time"] is None) == ("paused", False)
    assert tenant.api.raw("POST", f"{path}/pause", b"").get_json() == tenant.api.get(path).get_json() == paused
    for how in ("send", "skip", "shift"):
        resumed = tenant.api.post(f"{path}/resume", {"held": how}).get_json()
        assert {**resumed, "last_modified_time": ""} == {**before, "last_modified_time": ""}
        tenant.api.post(f"{path}/pause", {})
    assert tenant.api.post(f"{path}/resume", {}).get_json()["state"] == "active"
    invalid(tenant.api.post(f"{path}/resume", {"held": "drop"}), "invalid_string", field="held")
    invalid(tenant.api.post(f"{path}/resume", {"due": "skip"}), "unexpected_field", field="due")
    invalid(tenant.api.post(f"{path}/pause", {"due": "skip"}), "unexpected_field", field="due")
    for wrong in (b"{", b"\xff", b"[]"):
        answers = [tenant.api.raw("POST", f"{path}/{verb}", wrong) for verb in ("pause", "resume")]
        assert [answer.get_json()["type"] for answer in answers] == [answers[1].get_json()["type"]] * 2
        assert {answer.status_code for answer in answers} <= {400, 422}
    assert tenant.api.get(path).get_json()["state"] == "active"


def test_a_repeated_pause_with_its_key_does_not_undo_a_resumption(app: Flask) -> None:
    tenant = new_author(app)
    path = f"{PATH}/{create(tenant, STANDARD)}"
    headers = {"Idempotency-Key": "pause-it"}
    first = tenant.api.post(f"{path}/pause", {}, headers=headers)
    tenant.api.post(f"{path}/resume", {})
    assert tenant.api.post(f"{path}/pause", {}, headers=headers).get_json() == first.get_json()
    assert tenant.api.get(path).get_json()["state"] == "active"


# ---------------------------------------------------------------------------------------------- validate


def test_a_valid_definition_is_shown_as_it_would_be_stored_and_nothing_is_stored(app: Flask) -> None:
    tenant = new_author(app)
    answer = tenant.api.post(f"{PATH}/validate", {**STANDARD, "after": "1 days", "list": "Customers"})
    assert answer.status_code == 200
    assert answer.get_json()["definition"]["after"] == "1 day"
    assert answer.get_json()["definition"]["message_type"] == "email"
    assert items(tenant.api.get(PATH), NAME) == []


def test_all_errors_of_a_definition_are_reported_with_their_paths(app: Flask) -> None:
    tenant = new_author(app)
    document = advanced(send("a"), {"name": "b", "wait": "soon"}, {"name": "c", "stop": True, "now": 1})
    element = {"collection": "steps", "index": 1}
    body = invalid(tenant.api.post(f"{PATH}/validate", document), "invalid_string", field="wait", **element)
    places = [(error["collection"], error["index"], error["field"]) for error in body["_embedded"]["errors"]]
    assert places == [("steps", 1, "wait"), ("steps", 2, "now")]
    nested = advanced(send("a"), branch("b", [send("c"), {"name": "d", "wait": "soon"}]))
    answer = tenant.api.post(f"{PATH}/validate", nested)
    invalid(answer, "invalid_string", field="then.1.wait", **element)
    invalid(
        tenant.api.post(f"{PATH}/validate", {**advanced(send("a")), "steps": [send("a"), 5]}),
        "invalid_object",
        field=None,
        **element,
    )
    missing = {**STANDARD, "message": "Nothing", "if": "plna:HAS"}
    body = invalid(tenant.api.post(f"{PATH}/validate", missing), "invalid_id", field="message")
    assert [error["field"] for error in body["_embedded"]["errors"]] == ["message", "if"]
    invalid(tenant.api.post(f"{PATH}/validate", ADVANCED), "invalid_id", field="call", collection="steps", index=6)
    invalid(tenant.api.post(f"{PATH}/validate", {}), "required", field="kind")


def places(answer: Any) -> list[tuple[str, str | None, int | None, str | None]]:
    """The errors of an answer: code, collection, index and field."""
    body = answer.get_json()
    listed = body["_embedded"]["errors"]
    assert listed[0]["code"] == body["code"]
    return [(error["code"], error["collection"], error["index"], error["field"]) for error in listed]


def test_what_the_account_does_not_have_is_reported_with_what_cannot_be_read(app: Flask) -> None:
    tenant = new_author(app)
    document = {
        **advanced(
            {"name": "a", "send": "Nothing"},
            {"name": "a", "wait": "soon"},
            {"name": "c", "set": {"colour": "red", "plan": True}, "then": []},
            branch("d", [{"send": "Nowhere"}], on={"if": "plna:HAS"}),
        ),
        **{"leave_when": "plna:HAS", "again": "sometimes", "if": "plan"},
    }
    answer = tenant.api.post(f"{PATH}/validate", document)
    assert (answer.status_code, places(answer)) == (
        422,
        [
            ("invalid_string", None, None, "if"),
            ("invalid_string", None, None, "again"),
            ("unexpected_field", None, None, "leave_when"),
            ("invalid_id", "steps", 0, "send"),
            ("conflict", "steps", 1, "name"),
            ("invalid_string", "steps", 1, "wait"),
            ("unexpected_field", "steps", 2, "set.colour"),
            ("invalid_string", "steps", 2, "set.plan"),
            ("unexpected_field", "steps", 2, "then"),
            ("unexpected_field", "steps", 3, "branch.if"),
            ("invalid_id", "steps", 3, "then.0.send"),
            ("required", "steps", 3, "then.0.name"),
        ],
    )


def test_a_repeated_name_does_not_hide_the_errors_behind_it(app: Flask) -> None:
    answer = new_author(app).api.post(f"{PATH}/validate", advanced(send("a"), send("a"), {"name": "b", "send": "No"}))
    assert (answer.status_code, places(answer)) == (
        409,
        [("conflict", "steps", 1, "name"), ("invalid_id", "steps", 2, "send")],
    )


def test_a_list_that_is_unknown_hides_no_message_that_is(app: Flask) -> None:
    document = {**advanced({"name": "a", "send": "No"}, {"name": "b", "set": {"colour": 1}}), "list": "Nobody"}
    answer = new_author(app).api.post(f"{PATH}/validate", document)
    assert places(answer) == [("invalid_id", None, None, "list"), ("invalid_id", "steps", 0, "send")]


def test_the_first_hundred_errors_are_reported(app: Flask) -> None:
    steps = [{"name": f"s{number}", "send": "No", "more": 1} for number in range(100)]
    errors = places(new_author(app).api.post(f"{PATH}/validate", advanced(*steps)))
    assert len(errors) == 100
    assert errors[:2] == [("invalid_id", "steps", 0, "send"), ("unexpected_field", "steps", 0, "more")]
    assert errors[-1] == ("unexpected_field", "steps", 49, "more")


def test_a_definition_is_checked_against_the_automation_of_its_name(app: Flask) -> None:
    tenant = new_author(app)
    create(tenant, advanced(send("a")))
    assert tenant.api.post(f"{PATH}/validate", advanced(send("a"), send("b"))).status_code == 200
    answer = tenant.api.post(f"{PATH}/validate", advanced({"name": "a", "stop": True}, send("b")))
    assert places(answer) == [("conflict", "steps", 0, "name"), ("unexpected_field", "steps", 1, None)]
    other = tenant.api.post(f"{PATH}/validate", {**STANDARD, "name": ADVANCED["name"]})
    assert (other.status_code, other.get_json()["field"]) == (409, "kind")


@each(
    ("link", "is_accepted"),
    [
        ("https://acme.example/", True),
        ("https://acme.example/in", False),
        ("https://acme.example/%%plan%%?a=1&b=%%score%%", True),
        ("https://acme.example/%%plan%%", False),
        ("https://acme.example/free?a=1&b=2", False),
        ("https://acme.example/reset?token=%%plan%%", False),
        ("mailto:ann@example.com", False),
    ],
)
def test_a_branch_asks_about_a_link_that_the_message_has(author: Tenant, link: str, is_accepted: bool) -> None:
    links = ("https://acme.example/", "https://acme.example/%%plan%%?a=1&amp;b=%%score%%", "mailto:ann@example.com")
    secret = "https://acme.example/reset?token=%%plan%%"
    html = "".join(f'<a href="{address}">x</a>' for address in (*links, secret))
    author.add_message(name="Links", body_html=html)
    asks = branch("b", [{"name": "c", "stop": True}], on=clicked("a", link))
    definition = {**advanced({"name": "a", "send": "Links"}, asks), "list": "Others"}
    document = {key: value for key, value in definition.items() if key not in ("if", "leave_when")}
    answer = author.api.post(f"{PATH}/validate", document)
    if is_accepted:
        assert answer.status_code == 200, answer.get_json()
    else:
        invalid(answer, "invalid_id", field="branch.link", collection="steps", index=1)


def clicked(step: str, link: str) -> dict[str, str]:
    return {"step": step, "did": "clicked", "link": link, "within": "1 day"}


def test_a_text_message_without_a_sender_is_refused(app: Flask) -> None:
    tenant = new_author(app)
    text = {"type": "sms", "subject": None, "from_name": None, "body_html": None, "body_text": "Hi. STOP"}
    tenant.add_message(name="Text", **text, from_address=None)
    tenant.add_message(name="From", **text, from_address="61411111111")
    document = advanced({"name": "a", "send": "Text"}, send("b"), {"name": "c", "send": "From"})

    def validation_errors() -> list[tuple[str, int]]:
        body = tenant.api.post(f"{PATH}/validate", document).get_json()
        errors = body.get("_embedded", {}).get("errors") or ([body] if "code" in body else [])
        return [(error["code"], error["index"]) for error in errors]

    assert validation_errors() == [("invalid_from_address", 0), ("invalid_from_address", 2)]
    tenant.add_sender("61411111111")
    assert validation_errors() == []
    tenant.add_sender("61422222222")
    assert validation_errors() == [("invalid_from_address", 0)]
    (customers,) = ids(tenant.api.get("/v1/lists"), "lists")
    tenant.add_sender("61433333333", list_id=customers)
    assert validation_errors() == []


def test_a_sender_of_another_list_is_refused(app: Flask) -> None:
    tenant = new_author(app)
    tenant.add_sender("61411111111", list_id=tenant.add_list("Others"))
    tenant.add_message(name="Text", type="sms", body_html=None, body_text="STOP", from_address="61411111111")
    answer = tenant.api.post(f"{PATH}/validate", {**STANDARD, "message": "Text"})
    invalid(answer, "from_address_invalid_list", field="message")


def test_a_mail_without_a_sender_needs_a_default_of_the_account(app: Flask) -> None:
    tenant = new_author(app)
    tenant.add_message(name="Mail", from_address=None)
    assert tenant.api.post(f"{PATH}/validate", {**STANDARD, "message": "Mail"}).status_code == 200
    with tenant.services.database.write() as transaction:
        transaction.get_one(Account, tenant.id).default_from_address = None
    answer = tenant.api.post(f"{PATH}/validate", {**STANDARD, "message": "Mail"})
    invalid(answer, "invalid_from_address", field="message")


def test_the_path_of_validation_has_the_methods_of_validation_alone(author: Tenant) -> None:
    answer = author.api.get(f"{PATH}/validate")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "OPTIONS, POST")
    options = author.api.raw("OPTIONS", f"{PATH}/validate", b"")
    assert sorted(options.headers["Allow"].split(", ")) == ["OPTIONS", "POST"]


def test_names_of_another_account_are_not_found(tenant: Tenant, app: Flask) -> None:
    new_author(app)
    invalid(tenant.api.post(f"{PATH}/validate", STANDARD), "invalid_id", field="list")


def test_another_account_sees_and_pauses_nothing(author: Tenant, other_tenant: Tenant) -> None:
    (automation_id,) = ids(author.api.get(PATH, {"name": "a"}), NAME)
    path = f"{PATH}/{automation_id}"
    for target in (path, f"{path}/runs"):
        not_found(other_tenant.api.get(target))
    for target in (f"{path}/pause", f"{path}/resume"):
        not_found(other_tenant.api.post(target, {}))
    assert items(other_tenant.api.get(PATH), NAME) == []
    assert author.api.get(path, {"fields": "state"}).get_json()["state"] == "active"


def test_reading_needs_the_level_report_and_pausing_the_level_standard(author: Tenant) -> None:
    (automation_id,) = ids(author.api.get(PATH, {"name": "a"}), NAME)
    client: Client = author.client("report")
    assert client.get(f"{PATH}/{automation_id}/runs").status_code == 200
    for path in (f"{automation_id}/pause", f"{automation_id}/resume", "validate"):
        assert author.client("limited").post(f"{PATH}/{path}", {}).status_code == 403
