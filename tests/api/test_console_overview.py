"""The first page of the console (docs/console.md#overview)."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, insert, update

from app.clock import now, this_second
from app.db.counters import hour_of
from app.db.models import (
    Account,
    Domain,
    HourlyCount,
    QueueEntry,
    RecipientStep,
    RelayRefusal,
    RunningProcess,
    SendPause,
    Webhook,
)
from app.db.models.webhooks import UNCHECKED_BAR
from app.sends.pauses.pause import Subject, pause
from tests.support.browser import HOME, operator, signed_in, words
from tests.support.cases import each
from tests.support.client import Client
from tests.support.rows import Rows
from tests.support.tenants import Tenant, unique

SCRIPT = "<script>alert(1)</script>"


def count(tenant: Tenant, hours_ago: int, moment: datetime | None = None, **counts: int) -> None:
    """What happened in an hour, which is so many before that of the moment, by default now."""
    group_id = Rows(tenant.services, tenant.id).add_group()
    with tenant.services.database.write() as transaction:
        hour = hour_of(moment or now()) - timedelta(hours=hours_ago)
        zero = dict.fromkeys(
            ("sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed"), 0
        )
        row = {**zero, **counts, "group_id": group_id, "hour": hour, "slot": 0, "account_id": tenant.id}
        transaction.add(HourlyCount(**row))


def add_webhook(tenant: Tenant, url: str, **values: Any) -> int:
    moment = this_second()
    return tenant.add(Webhook, url=url, creation_time=moment, due_time=moment + timedelta(days=1), **values)


def test_it_is_silent_when_all_is_well(tenant: Tenant) -> None:
    page = words(signed_in(tenant).get(HOME))
    assert "All is well. No messages are waiting." in page
    assert "Needs attention" not in page


def test_it_says_what_is_wrong(tenant: Tenant) -> None:
    tenant.add(Domain, name="unverified.example", creation_time=this_second(), trusted=False)
    webhook_id = add_webhook(tenant, "https://hooks.example/secret-path", failures=3, failing_since=this_second())
    due = {"due_time": now() - timedelta(minutes=5), "ready_time": now() + timedelta(days=1)}
    with tenant.services.database.write() as transaction:
        entry = QueueEntry(recipient_id=-tenant.id, account_id=tenant.id, priority="normal", state="queued", **due)
        transaction.add(entry)
    page = words(signed_in(tenant, "report").get(HOME))
    assert "3 things need attention. The oldest message has been due for 5 min" in page
    assert "Sends from unverified.example are refused, because it is not verified." in page
    assert re.search(r"The webhook at hooks\.example has been failing since \S+ \S+ UTC ?\. Failed attempts: 3\.", page)
    assert "Messages are waiting. The oldest has been waiting for 5 min" in page
    assert "secret-path" not in page
    assert "domains verify" not in page, "a tenant has no command line"
    operator_page = words(operator(tenant.app).get(f"{HOME}?account={tenant.id}"))
    assert f"domains verify unverified.example --account {tenant.name}" in operator_page
    assert f"webhooks deliveries {webhook_id}" in operator_page


def test_a_relay_that_refuses_everything_needs_attention(tenant: Tenant) -> None:
    """A link leads to the messages that bounced before the refusal was noticed. All of them can be retried there."""
    moment = now()
    tenant.add(
        RelayRefusal, transport="default", reply="554 5.7.1 Relay access denied", domains={}, bounced=1, failures=1,
        first_time=moment - timedelta(minutes=3), last_time=moment, noticed_time=moment, until_time=moment,
    )  # fmt: skip
    rows = Rows(tenant.services, tenant.id)
    (bounced,) = rows.add_send(["ann@a.example"])
    rows.change([bounced], state="bounced")
    rows.add(RecipientStep, recipient_id=bounced, time=moment - timedelta(minutes=3), step="bounced")
    browser = signed_in(tenant)
    page = browser.get(HOME)
    assert f"The transport default has refused all messages of {tenant.name} since" in words(page)
    assert "with: 554 5.7.1 Relay access denied. Its messages wait" in words(page)
    assert "sends retry" not in words(page), "a tenant has no command line"
    (path,) = re.findall(r'href="(/console/messages\?state=bounced&amp;transport[^"]*)"', page.text)
    messages = browser.get(html.unescape(path)).text
    assert "ann@a.example" in messages
    retry = re.findall(r'href="(/console/bulk-actions/preview[^"]*)"', messages)
    assert retry, messages
    assert "1 message" in words(browser.get(html.unescape(retry[0])))
    operator_page = words(operator(tenant.app).get(f"{HOME}?account={tenant.id}"))
    assert "sends retry state=bounced transport=default" in operator_page
    assert f"has refused all messages of {tenant.name}" in words(operator(tenant.app).get(HOME))


def needs_attention(page: str) -> list[str]:
    """The sentences about what needs attention, in their order."""
    section = re.findall(r'<section class="attention".*?</section>', page, re.DOTALL)
    return re.findall(r"<li>\n<p>(.*?)</p>", section[0]) if section else []


def test_many_bounces_need_attention_and_lead_to_their_messages(tenant: Tenant, other_tenant: Tenant) -> None:
    """More than a share of the day, of an account that is named where there are several."""
    count(tenant, 5, bounced=3, delivered=27)
    count(other_tenant, 5, bounced=3, delivered=60)
    page = signed_in(tenant).get(HOME).text
    assert needs_attention(page) == ["10 % of the messages bounced in the last day: 3 of 30."]
    assert '<a href="/console/messages?state=bounced">Show the messages that bounced</a>' in page
    assert needs_attention(signed_in(other_tenant).get(HOME).text) == []
    all_accounts = operator(tenant.app).get(HOME).text
    assert f"10 % of the messages of {tenant.name} bounced in the last day: 3 of 30." in needs_attention(all_accounts)
    assert f'<a href="/console/messages?state=bounced&amp;account={tenant.id}">' in all_accounts
    assert f"of {other_tenant.name} bounced" not in all_accounts


def test_bounces_of_what_was_delivered_on_an_earlier_day_need_attention(tenant: Tenant) -> None:
    """Each takes one from the delivered messages of its own hour, which then has none."""
    count(tenant, 5, bounced=3, delivered=-3)
    words_ = "100 % of the messages{} bounced in the last day: 3 of 3."
    assert needs_attention(signed_in(tenant).get(HOME).text) == [words_.format("")]
    assert words_.format(f" of {tenant.name}") in needs_attention(operator(tenant.app).get(HOME).text)


def test_many_deferred_messages_need_attention(tenant: Tenant) -> None:
    later = now() + timedelta(hours=1)
    entries = [
        {"recipient_id": -1_000_000 * tenant.id - number, "priority": "normal", "state": "queued", "attempts": 1}
        for number in range(21)
    ]
    shared = {"account_id": tenant.id, "due_time": later, "ready_time": later}
    with tenant.services.database.write() as transaction:
        transaction.execute(insert(QueueEntry), [{**entry, **shared} for entry in entries])
    browser = signed_in(tenant)
    page = browser.get(HOME).text
    assert needs_attention(page) == ["21 messages are deferred. They are retried automatically."]
    assert '<a href="/console/messages?state=deferred">Show the deferred messages</a>' in page
    assert re.search(r">waiting</a></span> <strong>21</strong>", page)
    count(tenant, 1, delivered=100)
    assert needs_attention(browser.get(HOME).text) == []


def test_what_matters_most_comes_first(tenant: Tenant) -> None:
    """What stops messages before what fails, before what is not set up, before what somebody has chosen."""
    tenant.add(Domain, name="unverified.example", creation_time=this_second(), trusted=False)
    add_webhook(tenant, "https://hooks.example/", failures=1)
    with tenant.services.database.write() as transaction:
        pause_id = pause(transaction, Subject(tenant.id, domain="paused.example")).id
        transaction.execute(update(Account).where(Account.id == tenant.id).values(owner_confirmed=False))
    page = signed_in(tenant).get(HOME).text
    subjects = [sentence.split(" ")[0] for sentence in needs_attention(page)]
    assert subjects == ["All", "The", "Sends", "Mail"]
    for path in ("/console/webhooks/", "/console/domains/", "/console/queues"):
        assert f'<p class="remedy"><a href="{path}' in page
    seen_by_report = signed_in(tenant, "report").get(HOME).text
    assert '<p class="remedy"><a href="/console/webhooks/' in seen_by_report
    assert '<p class="remedy"><a href="/console/domains/' not in seen_by_report, "it may not open them"
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(SendPause).where(SendPause.id == pause_id))


def test_an_account_sees_the_state_of_each_webhook(tenant: Tenant) -> None:
    """As the page of webhooks shows it: one that gets nothing is not said to accept."""
    values_by_state: dict[str, dict[str, Any]] = {
        "accepting": {},
        "failing": {"failures": 3},
        "held": {"held_to": 5},
        "refused": {"barred": "leads to a private address"},
        "being checked": {"barred": UNCHECKED_BAR},
    }
    for state, values in values_by_state.items():
        add_webhook(tenant, f"https://{state.replace(' ', '-')}.example/", **values)
    page = words(signed_in(tenant, "report").get(HOME))
    table = " ".join(f"{state.replace(' ', '-')}.example {state} –" for state in values_by_state)
    assert f"Host State Failing since {table}" in page


def test_the_installation_names_whose_webhook_fails_and_leads_there(tenant: Tenant) -> None:
    webhook_id = add_webhook(tenant, "https://hooks.example/secret-path", failures=2)
    page = operator(tenant.app).get(HOME).text
    words_of_it = f"The webhook of {tenant.name} at hooks.example has been failing. Failed attempts: 2."
    assert words_of_it in needs_attention(page)
    assert f'<a href="/console/webhooks/{webhook_id}?account={tenant.id}">Show the webhook</a>' in page


def test_it_shows_the_last_day_as_bars_a_table_and_a_file(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = now()
    monkeypatch.setattr("blueprints.console.overview.now", lambda: moment)
    count(tenant, 0, moment, sent=1200, delivered=1100, bounced=7)
    count(tenant, 23, moment, sent=30, delivered=40, clicked=-1)
    count(tenant, 24, moment, sent=5000)
    browser = signed_in(tenant, "report")
    page = words(browser.get(HOME))
    assert "accepted 1 230" in page
    assert "delivered 1 140" in page
    assert "bounced 7" in page
    head, *rows = csv.reader(io.StringIO(browser.get("/console/day.csv").text))
    assert head == ["hour", "accepted", "delivered", "bounced", "failed", "opened", "clicked"]
    assert len(rows) == 24
    assert rows[0][1:] == ["1200", "1100", "7", "0", "0", "0"]
    assert rows[-1][1:] == ["30", "40", "0", "0", "0", "-1"]


def test_an_account_sees_nothing_of_another(tenant: Tenant, other_tenant: Tenant) -> None:
    count(other_tenant, 0, sent=987_654)
    other_tenant.add(Domain, name="other.example", creation_time=this_second(), trusted=False)
    add_webhook(other_tenant, "https://other-hooks.example/", failures=1)
    browser = signed_in(tenant)
    for path in (HOME, f"{HOME}?account={other_tenant.id}", f"/console/day.csv?account={other_tenant.id}"):
        text = browser.get(path).text
        hidden = "987654", "987\u202f654", "other.example", "other-hooks", other_tenant.name
        assert not [secret for secret in hidden if secret in text], path


def test_an_account_is_known_by_its_id_and_not_by_a_name_that_is_one(tenant: Tenant, other_tenant: Tenant) -> None:
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == other_tenant.id).values(name=str(tenant.id)))
    assert f"<h1>{tenant.name}</h1>" in signed_in(tenant).get(HOME).text


def test_an_operator_sees_the_installation_and_every_account(app: Flask, tenant: Tenant, other_tenant: Tenant) -> None:
    browser = operator(app)
    page = words(browser.get(HOME))
    assert "Overview" in page
    assert "Relays and gateways" in page
    for account in (tenant, other_tenant):
        assert f"<h1>{account.name}</h1>" in browser.get(f"{HOME}?account={account.id}").text


def test_an_operator_sees_the_queue_and_the_processes(app: Flask, tenant: Tenant) -> None:
    browser = operator(app)
    pages = [words(browser.get(HOME)) for _ in range(3)]
    assert "Processes Role Live Silent api" in pages[-1]
    assert "No process with the role sends is alive: no message leaves." in pages[-1]
    assert "What to do: see TmsProcessMissing on the Alerts page" in pages[-1]


def test_an_operator_sees_the_hosts_and_which_was_lost(app: Flask, tenant: Tenant) -> None:
    moment = this_second()
    row = {"version": "1.1.0", "start_time": moment - timedelta(days=1)}
    with tenant.services.database.write() as transaction:
        for host, roles, seen_time in (("here", "api", moment), ("gone", "sends", moment - timedelta(hours=1))):
            columns = {**row, "name": host, "host": host, "roles": roles, "seen_time": seen_time}
            transaction.execute(insert(RunningProcess).values(columns))
    browser = operator(app)
    try:
        pages = [words(browser.get(HOME)) for _ in range(3)]
        since = f"{row['start_time']:%Y-%m-%d %H:%M} UTC"
        heading = "Hosts Host State Roles Release Since Last seen"
        gone = f"gone lost sends 1.1.0 {since} {moment - timedelta(hours=1):%Y-%m-%d %H:%M} UTC"
        here = f"here live api 1.1.0 {since} {moment:%Y-%m-%d %H:%M} UTC"
        assert f"{heading} {gone} {here}" in pages[-1]
    finally:
        with tenant.services.database.write() as transaction:
            transaction.execute(delete(RunningProcess).where(RunningProcess.name.in_(["here", "gone"])))


def test_no_text_becomes_markup(tenant: Tenant) -> None:
    name = f"{SCRIPT}{unique()}"
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(name=name))
    tenant.add(Domain, name=f"{SCRIPT}.example", creation_time=this_second(), trusted=False)
    add_webhook(tenant, f"https://{SCRIPT}/", failures=1)
    own_browser, all_ = signed_in(tenant), operator(tenant.app)
    for answer in (
        own_browser.get(HOME),
        all_.get(HOME),
        all_.get(f"{HOME}?account={tenant.id}"),
        own_browser.get(f"{HOME}?{SCRIPT}"),
    ):
        assert "&lt;script&gt;" in answer.text
        assert "<script>" not in answer.text


@each(("who", "statements"), [("standard", 11), ("operator", 13)])
def test_it_takes_as_many_statements_however_much_there_is(
    tenant: Tenant, count_statements: Callable[[], Any], who: str, statements: int
) -> None:
    """An operator's two requests look up the name of the account, too."""
    browser = operator(tenant.app) if who == "operator" else signed_in(tenant)
    browser.get(HOME)
    with count_statements() as few:
        browser.get(f"/console/day.csv?account={tenant.id}")
        browser.get(f"{HOME}?account={tenant.id}")
    for number in range(3):
        tenant.add(Domain, name=f"{unique()}.example", creation_time=this_second(), trusted=False)
        add_webhook(tenant, f"https://{unique()}.example/", failures=number)
    with count_statements() as many:
        browser.get(f"/console/day.csv?account={tenant.id}")
        browser.get(f"{HOME}?account={tenant.id}")
    assert many.count == few.count
    assert len([statement for statement in few.statements if statement.startswith("SELECT")]) == statements
    counting = [statement for statement in many.statements if "count(" in statement.lower()]
    assert not [statement for statement in counting if "FROM recipients" in statement], "the history is not counted"


def test_the_files_of_a_page_are_there_for_ever(anon: Client, tenant: Tenant) -> None:
    page = signed_in(tenant).get(HOME).text
    paths = [part.split('"')[0] for part in page.split('="') if part.startswith("/console/assets/")]
    assert len(set(paths)) == 5
    for path in set(paths):
        answer = anon.get(path)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert anon.get(path.replace("/assets/", "/assets/0")).status_code == 404
    assert anon.get("/console/assets/x/lock.json").status_code == 404
