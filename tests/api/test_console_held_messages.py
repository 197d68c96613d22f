"""Messages that are held after a restore, in the console: searching, previewing, releasing and ending them
(docs/console-messages.md#held-messages)."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from app.bulk_actions.run import run_due
from app.clock import now
from app.db.models import AuditEntry, RecipientStep
from tests.support.browser import Browser, form_of, operator, words
from tests.support.cases import each
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant

PATH = "/console/holds"


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    return Rows(tenant.services, tenant.id)


@pytest.fixture
def browser(tenant: Tenant) -> Browser:
    return operator(tenant.app)


def held(rows: Rows, *addresses: str, was: str = "queued", due_in: float = 0) -> list[int]:
    """Messages that are held."""
    ids = rows.add_send(list(addresses), due_in=due_in)
    rows.change(ids, state="held", held_state=was)
    return ids


def ask(browser: Browser, tenant: Tenant, action: str, query: str = "") -> str:
    """The page of an action that is asked for with a form of the preview, and is due."""
    page = browser.get(f"{PATH}/preview?account={tenant.id}&{query}")
    answer = browser.post(f"{PATH}?account={tenant.id}", **form_of(page, action))
    assert answer.status_code == 303, words(answer)
    tenant.make_bulk_actions_due()
    return str(answer.headers["Location"])


def test_operators_search_what_is_held_by_what_it_was_and_when_it_was_due(
    tenant: Tenant, other_tenant: Tenant, rows: Rows, browser: Browser
) -> None:
    held(rows, "ann@example.com")
    held(rows, "bob@example.com", was="sending", due_in=864_000)
    rows.add_send(["free@example.com"])
    held(Rows(other_tenant.services, other_tenant.id), "theirs@example.com")
    page = words(browser.get(f"{PATH}?account={tenant.id}"))
    assert "bob@example.com email sending" in page
    assert page.index("bob@example.com") < page.index("ann@example.com email queued")
    assert ("free@example.com" in page, "theirs@example.com" in page) == (False, False)
    later = (now() + timedelta(days=5)).date()
    for query, emails in {
        "was=sending": ["bob@example.com"],
        f"due_time:in=..{later}": ["ann@example.com"],
        f"due_time:in={later}..": ["bob@example.com"],
        "group_id=0": [],
    }.items():
        text = browser.get(f"{PATH}.csv?account={tenant.id}&{query}").text
        assert [row["email"] for row in csv.DictReader(io.StringIO(text))] == emails, query
    with tenant.services.database.read() as session:
        exported = select(AuditEntry.counts).where(
            AuditEntry.account_id == tenant.id, AuditEntry.action == "recipient.exported"
        )
        assert session.scalars(exported.order_by(AuditEntry.id)).first() == {"recipients": 1}


def test_an_account_without_held_messages_says_so(tenant: Tenant, browser: Browser) -> None:
    assert "No message is held" in words(browser.get(f"{PATH}?account={tenant.id}"))
    assert "No held message matches." in words(browser.get(f"{PATH}?account={tenant.id}&was=sending"))


def test_all_that_a_search_shows_is_released_after_a_preview(tenant: Tenant, rows: Rows, browser: Browser) -> None:
    sent, arrived = held(rows, "ann@example.com", "bob@example.com")
    (other,) = held(rows, "eve@example.com", was="uncertain")
    tenant.add(RecipientStep, recipient_id=arrived, time=now(), step="opened")
    (link,) = re.findall(rf'href="({PATH}/preview[^"]*)"', browser.get(f"{PATH}?account={tenant.id}&was=queued").text)
    preview = words(browser.get(link.replace("&amp;", "&")))
    assert "2 messages of " in preview
    assert "Nothing has been done yet." in preview
    assert "Left out 1: it shows a sign of arrival and is not sent again" in preview
    assert ("Release 1 of 2 messages" in preview, "Drop 2 messages as sent" in preview) == (True, True)
    path = ask(browser, tenant, "release", "was=queued")
    assert "Release 2 messages" in words(browser.get(path))
    assert rows.states([sent, arrived, other]) == ["held", "held", "held"]
    run_due(tenant.services, time_slice=60)
    done = words(browser.get(path))
    assert "Released 1" in done
    assert "Left out 1: it shows a sign of arrival and is not sent again" in done
    assert rows.states([sent, arrived, other]) == ["queued", "delivered", "held"]
    assert rows.steps(sent)[-1] == ("requeued", "released by an operator after a restore")
    assert f'href="{PATH}?was=queued&amp;account={tenant.id}"' in browser.get(path).text
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "bulk_action"
        entries = session.scalars(select(AuditEntry).where(*criteria).order_by(AuditEntry.id))
        assert [(entry.action, entry.object_name, entry.counts) for entry in entries] == [
            ("bulk_action.asked", "release was=queued", {"recipients": 2}),
            ("bulk_action.ended", "release was=queued", {"released": 1, "left_out": 1}),
        ]


@each(("outcome", "state"), [("sent", "delivered"), ("failed", "failed")])
def test_what_is_held_is_ended_without_being_sent(
    tenant: Tenant, rows: Rows, browser: Browser, outcome: str, state: str
) -> None:
    ids = held(rows, *(f"p{number}@example.com" for number in range(30)))
    path = ask(browser, tenant, f"drop_as_{outcome}")
    assert f"Drop 30 messages as {outcome}" in words(browser.get(path))
    run_due(tenant.services, time_slice=60)
    assert rows.states(ids) == [state] * 30
    assert f"Dropped as {outcome} 30" in words(browser.get(path))


def test_what_was_decided_meanwhile_is_left_as_it_is(
    tenant: Tenant, rows: Rows, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 10)
    ids = held(rows, *(f"p{number}@example.com" for number in range(30)))
    path = ask(browser, tenant, "drop_as_failed")
    run_due(tenant.services, time_slice=0)
    assert rows.states(ids) == ["failed"] * 10 + ["held"] * 20
    assert browser.post(f"{path.partition('?')[0]}/cancel?account={tenant.id}").status_code == 303
    last = ask(browser, tenant, "release")
    rows.change([ids[-1]], state="queued")
    run_due(tenant.services, time_slice=60)
    assert rows.states(ids) == ["failed"] * 10 + ["queued"] * 20
    page = words(browser.get(last))
    assert ("Released 19" in page, "1 no longer matched" in page) == (True, True)


def test_an_action_that_cannot_be_asked_for_says_why(tenant: Tenant, rows: Rows, browser: Browser) -> None:
    ids = held(rows, "ann@example.com")
    for action, query, status, said in (
        ("release", "was=sending", 409, "No matching message is held."),
        ("explode", "", 422, "Choose an action."),
        ("release", "email=ann@example.com", 400, "email is not a query parameter"),
        ("release", "limit=5", 400, "limit is not available here"),
    ):
        answer = browser.post(f"{PATH}?account={tenant.id}", action=action, query=query)
        assert (answer.status_code, said in words(answer)) == (status, True), words(answer)
    assert rows.states(ids) == ["held"]


def test_however_many_are_held_a_page_is_the_same_number_of_statements(
    tenant: Tenant, rows: Rows, browser: Browser
) -> None:
    numbers = []
    for number in (1, 40):
        held(rows, *(f"p{number}-{index}@example.com" for index in range(number)))
        for path in (PATH, f"{PATH}/preview"):
            with StatementCounter(tenant.services.database.engine) as counted:
                assert browser.get(f"{path}?account={tenant.id}").status_code == 200
            numbers.append(counted.count)
    assert numbers[:2] == numbers[2:]


@pytest.mark.parametrize("number", [2**63, 10**40 - 1])
def test_a_group_that_cannot_exist_has_no_held_messages(
    browser: Browser, tenant: Tenant, rows: Rows, number: int
) -> None:
    held(rows, "ann@example.com")
    page = browser.get(f"{PATH}?account={tenant.id}&group_id={number}")
    assert page.status_code == 200
    assert "ann@example.com" not in page.text
    others = browser.get(f"{PATH}?account={tenant.id}&group_id:ne={number}")
    assert "ann@example.com" in others.text
