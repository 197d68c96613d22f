"""Automations in the console: their steps with counts, their runs, pausing and ending
(docs/console-contents.md#automations)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from app.automations.parse import read_definition
from app.clock import now, this_second, timestamp
from app.console.automations import END_REASON_WORDS
from app.console.queries import PAGE_ROWS
from app.db.models import AuditEntry, Automation, AutomationRun, AutomationStep, Webhook
from app.runs.define import update_automation
from app.runs.delete import delete_automation
from app.runs.work import advance_due
from tests.support.automations import runs_of
from tests.support.browser import linked, operator, signed_in, words
from tests.support.definitions import STANDARD, advanced, branch, create, send
from tests.support.statements import StatementCounter
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_tenant

PATH = "/console/automations"
WAIT = {"name": "two days", "wait": "2 days"}
GOLD = {"if": "plan:EXACTLY:gold"}
STEPS = (send("hello"), WAIT, branch("is gold", [send("offer")], [{"name": "end", "stop": True}], on=GOLD))


@pytest.fixture
def author(app: Flask) -> Tenant:
    """An account with what the definitions name."""
    tenant = new_tenant(app)
    tenant.add_list("Customers", (*FULL_FIELDS, ("Status", "Text Field")))
    tenant.add_message(name="Welcome")
    return tenant


def new_automation(author: Tenant, *steps: Mapping[str, Any], **others: Any) -> int:
    """An advanced automation for each contact of the list."""
    document = {**advanced(*map(dict, steps)), "again": "always", **others}
    document.pop("if")
    document.pop("leave_when")
    return create(author, document)


def enter(author: Tenant, **attributes: Any) -> dict[str, Any]:
    """A contact that has entered what there is, and has gone as far as it can now."""
    (customers,) = author.api.get("/v1/lists").get_json()["_embedded"]["lists"]
    made = author.new_contact(customers["id"], **{"email": new_email(), **attributes})
    while advance_due(author.services):
        pass
    return made


def change_run(author: Tenant, automation_id: int, **values: Any) -> str:
    """The path of the only run, which has these values."""
    (run,) = runs_of(author.services, automation_id)
    with author.services.database.write() as transaction:
        transaction.execute(update(AutomationRun).where(AutomationRun.id == run.id).values(values))
    return f"{PATH}/{automation_id}/runs/{run.id}"


def state_of(author: Tenant, automation_id: int) -> str:
    with author.services.database.read() as session:
        return session.get_one(Automation, automation_id).state


def acts(author: Tenant) -> list[str]:
    """What the audit log has of automations and runs."""
    with author.services.database.read() as session:
        criteria = AuditEntry.account_id == author.id, AuditEntry.object.in_(("automation", "run"))
        return list(session.scalars(select(AuditEntry.action).where(*criteria).order_by(AuditEntry.id)))


def test_automations_are_found_by_the_query_language(author: Tenant) -> None:
    first, second = create(author, STANDARD), new_automation(author, *STEPS)
    enter(author)
    browser = signed_in(author, "report")
    page = words(browser.get(PATH))
    assert page.index("Welcome series advanced active REST API Contact Created Customers 1 0") < page.index(
        "Welcome gold customers standard active When a Contact is created from the REST API Customers 0 0"
    ), "the newest first"
    location = browser.get(f"{PATH}?find={first}&kind=standard").headers["Location"]
    assert location == f"{PATH}?kind=standard&id={first}"
    assert "Welcome series" not in words(browser.get(location))
    assert "No automation matches." in words(browser.get(f"{PATH}?name=none"))
    with author.services.database.write() as transaction:
        delete_automation(transaction, author.id, second)
    assert "Welcome series" not in words(browser.get(PATH))
    assert f"Welcome series (deleted {second})" in words(browser.get(f"{PATH}?state=deleted"))
    deleted = browser.get(f"{PATH}/{second}")
    assert (deleted.status_code, "Pause" in words(deleted)) == (200, False)


def test_older_automations_are_on_further_pages(author: Tenant) -> None:
    for number in range(PAGE_ROWS + 1):
        create(author, {**STANDARD, "name": f"Number {number:02}"})
    browser = signed_in(author)
    page = browser.get(PATH)
    assert "Number 00" not in words(page)
    older = page.text.split('rel="next"')[0].rpartition('href="')[2].split('"')[0]
    assert "Number 00" in words(browser.get(older))
    _, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    assert len(rows) == PAGE_ROWS + 1


def test_the_tree_has_the_counts_at_each_step(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    enter(author, plan="gold")
    enter(author, plan="free")
    page = words(signed_in(author, "report").get(f"{PATH}/{automation_id}"))
    assert "when: REST API Contact Created, in the list Customers again: always" in page
    steps = page.partition("Steps")[2].partition("Runs")[0]
    assert steps.split(" two days ")[0].strip().startswith("hello sends Welcome (email) 0 runs here · results: done 2")
    assert "two days waits 2 days 2 runs here is gold if plan:EXACTLY:gold 0 runs here" in steps
    assert "then offer sends Welcome (email) 0 runs here else end stops 0 runs here" in steps


def test_the_tree_is_nested_lists(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    text = signed_in(author).get(f"{PATH}/{automation_id}").text
    tree = text[text.index('<ol class="steps">') : text.index("Runs</h2>")]
    assert tree.count("<ol") == tree.count("</ol>") == 3
    assert tree.index("is gold") < tree.index("<ul>") < tree.index("then") < tree.index("offer") < tree.index("else")


def test_steps_that_only_earlier_versions_have_keep_their_counts(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    enter(author)
    changed = {**advanced(send("hello")), "again": "always"}
    with author.services.database.write() as transaction:
        row = transaction.get_one(Automation, automation_id)
        update_automation(transaction, row, read_definition(changed), move=False)
    browser = signed_in(author)
    assert "Steps of earlier versions two days 1 run here" in words(browser.get(f"{PATH}/{automation_id}"))
    (run,) = runs_of(author.services, automation_id)
    page = words(browser.get(f"{PATH}/{automation_id}/runs/{run.id}"))
    assert "version 1 (not the newest)" in page
    assert "At the step two days : waits 2 days." in page


def test_runs_are_found_by_the_contact_and_by_the_filters_of_the_api(author: Tenant) -> None:
    automation_id, address = new_automation(author, *STEPS), new_email("Ann")
    ann, other = enter(author, email=address), enter(author)
    browser, path = signed_in(author), f"{PATH}/{automation_id}"
    page = words(browser.get(path))
    assert page.index(str(other["email"])) < page.index(address), "the last to enter first"
    location = browser.get(f"{path}?find={address.upper()}&state=waiting").headers["Location"]
    assert location == f"{path}?state=waiting&email={address.upper().replace('@', '%40')}"
    for query in (location, f"{path}?contact_id={ann['id']}"):
        page = words(browser.get(query))
        assert (address in page, other["email"] in page) == (True, False), query
    for query in (f"email={new_email()}", "state=ended", "step=hello", "version=2"):
        assert "No run matches." in words(browser.get(f"{path}?{query}")), query
    assert address in words(browser.get(f"{path}?step=two%20days&version=1"))
    for query in (f"email={address}&mobile=61400000000", "state=lost", "contact_id=x"):
        assert browser.get(f"{path}?{query}").status_code == 400, query


def test_earlier_runs_are_on_further_pages_also_of_one_address(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    ann = enter(author)
    (run,) = runs_of(author.services, automation_id)
    columns = {name: getattr(run, name) for name in ("automation_id", "version_id", "list_id", "state", "step")}
    shared = {**columns, "contact_id": run.contact_id, "due_time": run.due_time, "skips_next": False}
    first = timestamp(run.trigger_time - timedelta(days=9))
    rows = [
        {**shared, "trigger_time": run.trigger_time - timedelta(days=number), "entry_key": -number}
        for number in range(1, PAGE_ROWS)
    ]
    author.add_all(
        AutomationRun, [*rows, {**shared, "trigger_time": run.trigger_time - timedelta(99), "entry_key": -99}]
    )
    browser, path = signed_in(author), f"{PATH}/{automation_id}"
    last = timestamp(run.trigger_time - timedelta(days=99))
    for query in ("", f"?email={ann['email']}"):
        page = browser.get(path + query)
        assert (first in page.text, last in page.text) == (True, False)
        older = page.text.split('rel="next"')[0].rpartition('href="')[2].split('"')[0]
        page = browser.get(older.replace("&amp;", "&"))
        assert (first in page.text, last in page.text) == (False, True)
    head, *file_rows = csv.reader(io.StringIO(browser.get(f"{path}/runs.csv?contact_id={ann['id']}").text))
    assert len(file_rows) == PAGE_ROWS + 1
    assert {row[head.index("step")] for row in file_rows} == {"two days"}


def test_a_page_asks_the_same_number_of_statements_for_many_runs(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    browser, counted = signed_in(author), []
    for _ in range(2):
        enter(author)
        with StatementCounter(author.services.database.engine) as statements:
            browser.get(f"{PATH}/{automation_id}")
        counted.append(statements.count)
    assert counted[0] == counted[1]


def test_the_report_level_sees_no_addresses(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    ann = enter(author)
    (run,) = runs_of(author.services, automation_id)
    browser, path = signed_in(author, "report"), f"{PATH}/{automation_id}"
    for page in (path, f"{path}/runs/{run.id}", f"{path}/runs.csv"):
        answer = browser.get(page)
        assert (answer.status_code, ann["email"] in answer.text) == (200, False), page
        assert f"/contacts/{ann['id']}" not in answer.text, page
    assert "hidden (needs the scope contact.view)" in browser.get(f"{path}/runs/{run.id}").text
    refused = browser.get(f"{path}?email={ann['email']}")
    assert (refused.status_code, "needs the scope contact.view" in words(refused)) == (403, True)


def test_only_who_may_manage_sees_more_of_a_called_url_than_its_host(author: Tenant) -> None:
    url, moment = "https://hooks.example/secret-path", this_second()
    author.add(Webhook, url=url, creation_time=moment, due_time=moment)
    automation_id = new_automation(author, WAIT, branch("is gold", [{"name": "tell", "call": url}], on=GOLD))
    enter(author)
    run_path, path = change_run(author, automation_id, step="tell"), f"{PATH}/{automation_id}"
    for browser in (signed_in(author, "report"), signed_in(author)):
        assert "tell calls hooks.example 1 run here" in words(browser.get(path))
        assert "At the step tell : calls hooks.example." in words(browser.get(run_path))
        pages = [browser.get(page).text for page in (path, run_path, f"{path}/runs.csv", f"{PATH}.csv")]
        assert [page for page in pages if "secret-path" in page] == []
    browser = linked(author)
    assert f"tell calls {url} 1 run here" in words(browser.get(path))
    assert f"At the step tell : calls {url}." in words(browser.get(run_path))


def test_a_run_says_where_its_contact_is_why_and_when_next(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    ann = enter(author)
    (run,) = runs_of(author.services, automation_id)
    answer = signed_in(author).get(f"{PATH}/{automation_id}/runs/{run.id}")
    page, due = words(answer), f"{run.due_time:%Y-%m-%d %H:%M} UTC"
    assert f"Run {run.id} of {ann['email']}" in page
    assert f"At the step two days : waits 2 days. The next step is due at {due} ." in page
    assert "hello" in page
    assert "send: done · View message" in page
    assert f"/contacts/{ann['id']}" in answer.text
    assert "Cancel run" not in page


WHY: tuple[tuple[dict[str, Any], str], ...] = (
    ({"attempts": 3}, "The next step has failed 3 times because of an internal error. The next attempt is due at"),
    ({"attempts": 1}, "has failed once because"),
    ({"due_time": now() - timedelta(hours=1)}, "A worker carries it out as soon as possible."),
    ({"skips_next": True}, "The next message, change or call is skipped"),
    ({"state": "held", "reason": "paused"}, "while the automation was paused. It is held until"),
    ({"state": "held", "reason": "restored"}, "is held until an operator releases it."),
    *(({"state": "ended", "reason": reason}, said) for reason, said in END_REASON_WORDS.items()),
    ({"state": "ended", "reason": "of another release"}, "of another release."),
)


def test_a_run_says_why(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    enter(author)
    browser, usual = signed_in(author, "report"), {"state": "waiting", "attempts": 0, "skips_next": False}
    for values, said in WHY:
        ended = {"end_time": now(), "step": None} if values.get("state") == "ended" else {}
        path = change_run(author, automation_id, **{**usual, **values, **ended})
        assert said in words(browser.get(path)), values


def test_a_run_that_waits_for_a_message_says_so(author: Tenant) -> None:
    asks = branch("read it", [send("thanks")], on={"step": "hello", "did": "opened", "within": "2 days"})
    automation_id = new_automation(author, send("hello"), asks)
    enter(author)
    with author.services.database.read() as session:
        criteria = AutomationStep.automation_id == automation_id, AutomationStep.name == "hello"
        assert session.scalars(select(AutomationStep.id).where(*criteria)).one()
    (run,) = runs_of(author.services, automation_id)
    page = words(signed_in(author).get(f"{PATH}/{automation_id}/runs/{run.id}"))
    assert "The run waits until the message of the step “hello” is opened, at most until" in page


def test_a_contact_leads_to_its_runs_that_have_not_ended(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    ann = enter(author)
    (run,) = runs_of(author.services, automation_id)
    browser, path = signed_in(author), f"/console/lists/{run.list_id}/contacts/{ann['id']}"
    answer = browser.get(path)
    assert f'href="{PATH}/{automation_id}/runs/{run.id}"' in answer.text
    assert "Welcome series : waiting at the step two days, due" in words(answer)
    change_run(author, automation_id, state="ended", reason="left", step=None, end_time=now())
    assert "Welcome series" not in words(browser.get(path))


def test_an_automation_is_paused_and_resumed(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    browser, path = signed_in(author), f"{PATH}/{automation_id}"
    enter(author)
    for _ in range(2):
        assert browser.post(f"{path}/pause").headers["Location"] == path
        assert state_of(author, automation_id) == "paused"
    assert "paused since" in words(browser.get(path))
    (run,) = runs_of(author.services, automation_id)
    assert "The automation is paused. Steps that fall due are held." in words(browser.get(f"{path}/runs/{run.id}"))
    refused = browser.post(f"{path}/resume", held="drop")
    assert (refused.status_code, "held" in words(refused), state_of(author, automation_id)) == (422, True, "paused")
    with author.services.database.write() as transaction:
        earlier = {"paused_time": now() - timedelta(days=3)}
        transaction.execute(update(Automation).where(Automation.id == automation_id).values(earlier))
    assert browser.post(f"{path}/resume", held="shift").headers["Location"] == path
    assert state_of(author, automation_id) == "active"
    # The pause has added three days and what the requests took, which may end after midnight.
    added = timedelta(days=3), now() - earlier["paused_time"]
    sentences = [f"The next step is due at {run.due_time + time:%Y-%m-%d}" for time in added]
    text = words(browser.get(f"{path}/runs/{run.id}"))
    assert any(sentence in text for sentence in sentences)
    assert browser.post(f"{path}/resume").status_code == 303, "an active one stays so"
    assert acts(author) == ["automation.created", "automation.paused", "automation.resumed"]


def test_a_deleted_automation_is_neither_paused_nor_resumed(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    with author.services.database.write() as transaction:
        delete_automation(transaction, author.id, automation_id)
    for action in ("pause", "resume"):
        refused = signed_in(author).post(f"{PATH}/{automation_id}/{action}")
        assert (refused.status_code, "the automation was deleted" in words(refused)) == (409, True)


def test_who_was_signed_in_by_a_link_ends_a_run(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    enter(author)
    (run,) = runs_of(author.services, automation_id)
    browser, path = linked(author), f"{PATH}/{automation_id}/runs/{run.id}"
    assert "Cancel run" in words(browser.get(path))
    for _ in range(2):
        assert browser.confirm(f"{path}/cancel").headers["Location"] == path
    page = words(browser.get(path))
    assert ("Somebody cancelled the run." in page, "Cancel run" in page) == (True, False)
    assert runs_of(author.services, automation_id)[0].state == "ended"
    assert acts(author) == ["automation.created", "run.cancelled"], "once"


def test_a_run_of_another_automation_is_not_found(author: Tenant) -> None:
    first, second = new_automation(author, *STEPS), create(author, STANDARD)
    enter(author)
    (run,) = runs_of(author.services, first)
    browser, path = linked(author), f"{PATH}/{second}/runs/{run.id}"
    assert browser.get(path).status_code == browser.post(f"{path}/cancel").status_code == 404
    assert runs_of(author.services, first)[0].state == "waiting"


def test_an_operator_sees_the_automations_of_any_account(author: Tenant) -> None:
    automation_id = new_automation(author, *STEPS)
    enter(author)
    (run,) = runs_of(author.services, automation_id)
    browser, path = operator(author.app), f"{PATH}/{automation_id}"
    assert "Welcome series" in words(browser.get(f"{PATH}?account={author.id}"))
    assert browser.get(path).status_code == 200
    paused = browser.post(f"{path}/pause")
    assert paused.headers["Location"] == f"{path}?account={author.id}"
    assert browser.confirm(f"{path}/runs/{run.id}/cancel").status_code == 303
    assert (state_of(author, automation_id), runs_of(author.services, automation_id)[0].state) == ("paused", "ended")


def test_texts_are_escaped(author: Tenant) -> None:
    name = "<script>alert(1)</script>"
    automation_id = new_automation(author, {**WAIT, "name": name}, name=name)
    enter(author)
    (run,) = runs_of(author.services, automation_id)
    browser = signed_in(author)
    for path in (PATH, f"{PATH}/{automation_id}", f"{PATH}/{automation_id}/runs/{run.id}"):
        answer = browser.get(path)
        assert (answer.status_code, name in answer.text) == (200, False), path
        assert "&lt;script&gt;" in answer.text, path
