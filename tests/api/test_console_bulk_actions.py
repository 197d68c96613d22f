"""Bulk actions in the console: preview, asking, cancelling, progress; and the file with all that a search finds
(docs/console-messages.md#bulk-actions)."""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import QueuePool, select, update
from werkzeug.test import TestResponse

from app.bulk_actions.kinds import Kind
from app.bulk_actions.run import run_due
from app.clock import this_second
from app.db.database import Database
from app.db.models import Account, AuditEntry, BlockedAddress
from tests.support.browser import Browser, form_of, operator, signed_in, words
from tests.support.cases import each
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant

PATH = "/console/bulk-actions"
MESSAGES = "/console/messages"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    return Rows(tenant.services, tenant.id)


def failed(rows: Rows, *addresses: str, state: str = "failed", reason: str = "expired") -> list[int]:
    """Messages that have not arrived."""
    ids = rows.add_send(list(addresses))
    rows.change(ids, state=state, reason=reason, attempts=1)
    return ids


def asked(browser: Browser, query: str = "state=failed") -> str:
    """The page of an action that is asked for with the form of the preview."""
    page = browser.get(f"{PATH}/preview?{query}")
    assert page.status_code == 200, words(page)
    answer = browser.post(PATH, **form_of(page, "retry"))
    assert answer.status_code == 303, words(answer)
    return answer.headers["Location"]


def acts(tenant: Tenant) -> list[tuple[str, str, str | None, dict[str, int]]]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object.in_(("bulk_action", "recipient"))
        entries = session.scalars(select(AuditEntry).where(*criteria).order_by(AuditEntry.id))
        return [(entry.action, entry.actor, entry.via, entry.counts) for entry in entries]


def test_all_that_a_search_shows_is_previewed_cancelled_and_retried(tenant: Tenant, rows: Rows) -> None:
    ids = failed(rows, "ann@example.com", "bob@example.com", "dead@example.com")
    tenant.add(BlockedAddress, kind="email", address="dead@example.com", reason="hard", creation_time=this_second())
    browser = signed_in(tenant)
    (link,) = re.findall(rf'href="({PATH}/preview[^"]*)"', browser.get(f"{MESSAGES}?state=failed").text)
    preview = words(browser.get(link))
    assert "3 messages of " in preview
    assert "Nothing has been done yet." in preview
    assert "dead@example.com email failed expired" in preview
    assert "left out: the address is blocked" in preview
    assert preview.count("retried") >= 2
    assert "Would be retried 2 of 3 messages, counted at " in preview
    assert "Left out 1: the address is blocked" in preview
    assert "Retry 2 of 3 messages" in preview
    assert acts(tenant) == []
    first = asked(browser, link.partition("?")[2])
    waiting = browser.get(first)
    assert re.search(r"This action starts in \d+ seconds?\. Nothing has been done yet\.", words(waiting))
    assert 'hx-trigger="every 2s"' in waiting.text
    assert "Cancel action" in words(waiting)
    assert browser.post(f"{first}/cancel").headers["Location"] == first
    cancelled = browser.get(first)
    assert "The action was cancelled before it started. Nothing was changed." in words(cancelled)
    assert "hx-trigger" not in cancelled.text
    again = browser.post(f"{first}/cancel")
    assert (again.status_code, "has ended: it is cancelled" in words(again)) == (409, True)
    second = asked(browser)
    tenant.make_bulk_actions_due()
    assert "This action starts in a moment." in words(browser.get(second))
    run_due(tenant.services, time_slice=60)
    done = words(browser.get(second))
    assert "The action is complete." in done
    assert "Retried 2" in done
    assert "Left out 1: the address is blocked" in done
    assert "Cancel action" not in done
    assert rows.states(ids) == ["queued", "queued", "failed"]
    key = next(actor for action, actor, *_ in acts(tenant) if action == "bulk_action.asked")
    asked_via, cancel_via = f"POST {PATH}", f"POST {PATH}/<action_id>/cancel"
    assert acts(tenant) == [
        ("bulk_action.asked", key, asked_via, {"recipients": 3}),
        ("bulk_action.cancelled", key, cancel_via, {"retried": 0, "left_out": 0}),
        ("bulk_action.asked", key, asked_via, {"recipients": 3}),
        ("bulk_action.ended", "service", None, {"retried": 2, "left_out": 1}),
    ]
    listed = words(browser.get(PATH))
    assert "done state=failed 3 2 " in listed
    assert "cancelled state=failed 3 0 " in listed
    assert "done" not in words(browser.get(f"{PATH}?state=cancelled")).replace("done cancelled", "")
    (head, *file_rows) = csv.reader(io.StringIO(browser.get(f"{PATH}.csv?state=done").text))
    assert [dict(zip(head, row, strict=True))["done"] for row in file_rows] == ["2"]


def test_an_old_preview_is_confirmed_again_if_its_numbers_have_changed(tenant: Tenant, rows: Rows) -> None:
    failed(rows, "ann@example.com")
    browser = signed_in(tenant)
    form = form_of(browser.get(f"{PATH}/preview?state=failed"), "retry")
    moment, matching, done = form["shown"].split(" ")
    failed(rows, "bob@example.com")

    def post(age: int, matching: str, done: str) -> TestResponse:
        preview_time = (datetime.fromisoformat(moment) - timedelta(seconds=age)).isoformat()
        return browser.post(PATH, **{**form, "shown": f"{preview_time} {matching} {done}"})

    answer = post(120, matching, done)
    assert (answer.status_code, acts(tenant)) == (409, [])
    assert "The matches have changed since the preview" in words(answer)
    assert form_of(answer, "retry")["shown"].endswith(" 2 2")
    assert [post(0, matching, done).status_code, post(120, "2", "2").status_code] == [303, 303]


@each("preview", ["", "soon", "2026-01-01 1 1 1", "soon 1 1", "2026-01-01T00:00:00 x 1"])
def test_nothing_is_asked_for_without_a_preview(tenant: Tenant, rows: Rows, preview: str) -> None:
    failed(rows, "ann@example.com")
    answer = signed_in(tenant).post(PATH, action="retry", query="state=failed", shown=preview)
    assert (answer.status_code, acts(tenant)) == (409, [])


def test_an_action_that_would_do_nothing_is_not_offered(tenant: Tenant, rows: Rows) -> None:
    failed(rows, "dead@example.com")
    tenant.add(BlockedAddress, kind="email", address="dead@example.com", reason="hard", creation_time=this_second())
    page = signed_in(tenant).get(f"{PATH}/preview?state=failed")
    assert "Would be retried 0 of 1 message" in words(page)
    assert 'name="query"' not in page.text


def test_an_action_that_runs_shows_how_far_it_has_come_and_can_be_cancelled(
    tenant: Tenant, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 20)
    failed(rows, *(f"p{number}@example.com" for number in range(30)))
    browser = signed_in(tenant)
    path = asked(browser)
    tenant.make_bulk_actions_due()
    run_due(tenant.services, time_slice=0)
    page = browser.get(path)
    assert "20 of 30 processed." in words(page)
    assert '<progress value="20" max="30"' in page.text
    assert browser.post(f"{path}/cancel").status_code == 303
    cancelled = words(browser.get(path))
    assert "The action was cancelled. The rest is unchanged." in cancelled
    assert "Retried 20" in cancelled


@each("query", ["", "email=ann@example.com", "state=delivered", "state=failed&email=ann@example.com", "colour=red"])
def test_only_a_search_for_what_can_be_retried_leads_to_it(tenant: Tenant, rows: Rows, query: str) -> None:
    failed(rows, "ann@example.com")
    browser = signed_in(tenant)
    assert "/preview" in browser.get(f"{MESSAGES}?state:in=failed,delivered").text
    assert "/preview" not in browser.get(f"{MESSAGES}?{query}").text


@each(
    ("query", "status", "said"),
    [
        ("state=delivered", 200, "No matching message can be retried."),
        ("colour=red", 400, "colour is not a query parameter"),
        ("state=failed&limit=5", 400, "limit is not available here"),
        ("state=failed&email=ann@example.com", 400, "a bulk action cannot select a single address"),
    ],
)
def test_a_query_that_cannot_be_acted_upon_says_why(
    tenant: Tenant, rows: Rows, query: str, status: int, said: str
) -> None:
    failed(rows, "ann@example.com")
    browser = signed_in(tenant)
    answer = browser.get(f"{PATH}/preview?{query}")
    assert (answer.status_code, said in words(answer)) == (status, True)
    answer = browser.post(PATH, action="retry", query=query)
    assert answer.status_code == max(status, 400) if status != 200 else 409
    assert said in words(answer)
    assert acts(tenant) == []


@each("level", ["report", "limited"])
def test_who_may_not_retry_one_message_may_not_retry_many(tenant: Tenant, rows: Rows, level: str) -> None:
    failed(rows, "ann@example.com")
    browser = signed_in(tenant, level)
    assert "/bulk-actions" not in browser.get(f"{MESSAGES}?state=failed").text


def test_an_account_sees_and_cancels_no_action_of_another(tenant: Tenant, other_tenant: Tenant, rows: Rows) -> None:
    ids = failed(rows, "ann@example.com")
    path = asked(signed_in(tenant))
    stranger = signed_in(other_tenant)
    assert "state=failed" not in stranger.get(f"{PATH}?account={tenant.id}", follow_redirects=True).text
    assert "No matching message" in words(stranger.get(f"{PATH}/preview?state=failed&account={tenant.id}"))
    assert stranger.post(f"{PATH}?account={tenant.id}", action="retry", query="state=failed").status_code == 409
    all_ = operator(tenant.app)
    assert all_.get(path).status_code == 200
    assert "state=failed" in words(all_.get(f"{PATH}?account={tenant.id}"))
    assert all_.post(f"{path}/cancel").headers["Location"] == f"{path}?account={tenant.id}"
    form = form_of(all_.get(f"{PATH}/preview?state=failed&account={tenant.id}"), "retry")
    assert all_.post(f"{PATH}?account={tenant.id}", **form).status_code == 303
    assert rows.states(ids) == ["failed"]


def test_too_many_messages_are_to_be_divided(tenant: Tenant, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kind, "most", 2)
    failed(rows, *(f"p{number}@example.com" for number in range(4)))
    page = signed_in(tenant).get(f"{PATH}/preview?state=failed")
    assert "more than 2 messages of" in words(page)
    assert "One action covers at most 2 messages" in words(page)
    assert 'name="query"' not in page.text


def test_texts_of_others_never_become_markup(tenant: Tenant, rows: Rows) -> None:
    failed(rows, "ann@example.com", state="bounced", reason=f"550 {SCRIPT}")
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(name=SCRIPT + tenant.name))
    browser = signed_in(tenant)
    path = asked(browser, "state=bounced")
    for page in (f"{PATH}/preview?state=bounced", path, PATH, f"{PATH}/preview?state={SCRIPT}"):
        text = browser.get(page).text
        assert "&lt;script&gt;" in text
        assert "<script>" not in text


def test_the_pages_take_a_fixed_number_of_statements(tenant: Tenant, rows: Rows) -> None:
    browser = signed_in(tenant)

    def statements(path: str) -> int:
        with StatementCounter(tenant.services.database.engine) as counted:
            assert browser.get(path).status_code == 200
        return counted.count

    failed(rows, "ann@example.com")
    asked(browser)
    few = [statements(path) for path in (PATH, f"{PATH}/preview?state=failed")]
    failed(rows, *(f"p{number}@example.com" for number in range(20)))
    asked(browser)
    assert [statements(path) for path in (PATH, f"{PATH}/preview?state=failed")] == few


def all_of(answer: TestResponse) -> list[dict[str, Any]]:
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    head, *file_rows = csv.reader(io.StringIO(answer.text))
    return [dict(zip(head, row, strict=True)) for row in file_rows]


def test_a_file_of_all_keeps_nothing_while_its_reader_takes_its_time(
    tenant: Tenant, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blueprints.console.messages.FILE_ROWS", 10)
    failed(rows, *(f"p{number:02}@example.com" for number in range(25)))
    browser = signed_in(tenant)
    answer = browser.get(f"{MESSAGES}/all.csv?state=failed")
    assert "Content-Length" not in answer.headers
    parts = iter(answer.response)
    for number in range(4):
        with StatementCounter(tenant.services.database.engine) as counted:
            assert next(parts)
        assert bool(counted.count) == (number > 0)
        assert is_free(tenant.services.database)
    assert list(parts) == []


def is_free(database: Database) -> bool:
    """Whether this process uses no connection of the database."""
    return isinstance(database.engine.pool, QueuePool) and database.engine.pool.checkedout() == 0


def test_all_that_a_search_finds_is_a_file(tenant: Tenant, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is read in parts, up to a maximum. It has only what its reader may see."""
    monkeypatch.setattr("blueprints.console.messages.FILE_ROWS", 10)
    monkeypatch.setattr("app.console.messages.MAX_EXPORTED_MESSAGES", 40)
    addresses = [f"p{number:02}@example.com" for number in range(35)]
    failed(rows, *addresses)
    rows.add_send(["other@example.com"])
    browser = signed_in(tenant)
    link = f'href="{MESSAGES}/all.csv?state=failed"'
    assert link not in browser.get(f"{MESSAGES}?state=failed").text, "the file of the newest has all"
    monkeypatch.setattr("app.http.console.searches.PAGE_ROWS", 10)
    page = browser.get(f"{MESSAGES}?state=failed")
    assert link in page.text
    assert "sends export" not in words(page)
    assert "sends export" in words(operator(tenant.app).get(f"{MESSAGES}?account={tenant.id}"))
    recipients = all_of(browser.get(f"{MESSAGES}/all.csv?state=failed"))
    assert [recipient["email"] for recipient in recipients] == addresses[::-1]
    assert [(action, counts) for action, _, _, counts in acts(tenant)] == [("recipient.exported", {})]
    failed(rows, *addresses)
    assert len(all_of(browser.get(f"{MESSAGES}/all.csv"))) == 40
    hidden = all_of(signed_in(tenant, "report").get(f"{MESSAGES}/all.csv?state=failed"))
    assert {recipient["email"] for recipient in hidden} == {""}
    assert browser.get(f"{MESSAGES}/all.csv?cursor=of-somebody").status_code == 400
    refused = browser.get(f"{MESSAGES}/all.csv?colour=red")
    assert (refused.status_code, len(acts(tenant))) == (400, 3)


def test_all_that_a_search_shows_is_previewed_and_cancelled(tenant: Tenant, rows: Rows) -> None:
    ids, other = rows.add_send(["ann@example.com", "bob@example.com"]), rows.add_send(["eve@example.com"])
    rows.schedule(ids, this_second() + timedelta(days=1))
    browser = signed_in(tenant)
    (link,) = re.findall(r'href="(/console/cancellations[^"]*)"', browser.get(f"{MESSAGES}?state=scheduled").text)
    page = browser.get(link)
    assert "2 messages of " in words(page)
    assert "They end as failed and cannot be sent again." in words(page)
    answer = browser.post("/console/cancellations", **form_of(page, "cancel"))
    assert answer.status_code == 303, words(answer)
    tenant.make_bulk_actions_due()
    run_due(tenant.services)
    assert rows.states([*ids, *other]) == ["failed", "failed", "queued"]
    assert "Cancelled" in words(browser.get(answer.headers["Location"]))
    assert "/console/cancellations" not in browser.get(f"{MESSAGES}?state=delivered").text
    assert signed_in(tenant, "report").get(link).status_code == 403
