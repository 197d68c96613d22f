"""Webhooks in the console (docs/console-contents.md#webhooks)."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from app.clock import now, this_second, timestamp
from app.contacts.delete import delete_list
from app.db.models import AuditEntry, Event, Webhook, WebhookAttempt, WebhookSecret
from app.events.outbox import failing_event
from app.events.webhooks import find_webhook, list_secrets
from app.http.context import EXTENSION
from app.lists.find import get_list
from app.network_checks.run import NetworkChecker
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.browser import Browser, linked, new_link, operator, signed_in, words
from tests.support.cases import each
from tests.support.tenants import Tenant, unique

PATH = "/console/webhooks"
SCRIPT = "<script>alert(1)</script>"


def add_webhook(tenant: Tenant, **values: Any) -> int:
    moment = this_second()
    url = f"https://hooks.example/secret-{unique()}"
    row_id = tenant.add(Webhook, **{"url": url, "creation_time": moment, "due_time": moment, **values})
    secret = {"key_id": "k1", "secret": "x", "creation_time": moment - timedelta(days=1)}
    tenant.add(WebhookSecret, webhook_id=row_id, **secret)
    return row_id


def add_event(tenant: Tenant, webhook_id: int, seconds_ago: int = 0) -> int:
    time = timestamp(now() - timedelta(seconds=seconds_ago))
    payload = f'{{"object":"contact","event":"created","id":7,"note":"{SCRIPT}","timestamp":"{time}"}}'
    return tenant.add(Event, webhook_id=webhook_id, payload=payload)


def add_delivery(tenant: Tenant, webhook_id: int, **values: Any) -> int:
    """A request with one event, which was accepted, unless the values say otherwise."""
    event = add_event(tenant, webhook_id)
    row = {"batch_id": unique("jti"), "time": this_second(), "events": 1, "status": 200, "outcome": "delivered"}
    sent = {"milliseconds": 12, "after_event": event - 1, "last_event": event, "answer": SCRIPT, "detail": None}
    return tenant.add(WebhookAttempt, webhook_id=webhook_id, **{**row, **sent, **values})


def find(tenant: Tenant, webhook_id: int) -> Webhook:
    with tenant.services.database.read() as session:
        return find_webhook(session, tenant.id, str(webhook_id))


def acts(tenant: Tenant) -> list[str]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "webhook"
        return list(session.scalars(select(AuditEntry.action).where(*criteria).order_by(AuditEntry.id)))


def shown_secret(answer: TestResponse) -> tuple[str, str]:
    """The key id and the secret of a page that shows them once."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    key_id, secret = re.findall(r"<dd><code>([^<]+)</code></dd>", answer.text)
    return key_id, secret


def test_the_list_says_which_fail_are_behind_or_held(tenant: Tenant) -> None:
    add_webhook(tenant, url="https://good.example/", chosen_events=["contact.created"])
    add_webhook(tenant, url="https://failing.example/", failures=3, failing_since=this_second())
    add_webhook(tenant, url="https://held.example/", held_to=5)
    behind = add_webhook(tenant, url="https://behind.example/secret-path")
    add_event(tenant, behind, seconds_ago=600)
    answer = signed_in(tenant, "report").get(PATH)
    page = words(answer)
    assert "good.example accepting" in page
    assert "failing.example failing" in page
    assert "held.example held" in page
    assert "behind.example behind – – 10 min" in page
    assert "secret-path" not in answer.text
    assert 'method="post"' not in answer.text.replace('<form class="who" method="post"', "")
    head, *rows = csv.reader(io.StringIO(signed_in(tenant, "report").get(f"{PATH}.csv").text))
    states = {row[head.index("host")]: row[head.index("state")] for row in rows}
    assert states == {
        "good.example": "accepting",
        "failing.example": "failing",
        "held.example": "held",
        "behind.example": "behind",
    }


def test_one_is_registered_with_a_choice_and_its_secret_is_shown_once(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list("Customers"), linked(tenant)
    url = f"https://192.0.32.10/{unique()}"
    form = {"url": url, "event": ["contact.created", "recipient.bounced"], "lists": "Customers\n"}
    answer = browser.post(PATH, **form)  # type: ignore[arg-type]
    key_id, secret = shown_secret(answer)
    assert (key_id, len(secret)) == ("k1", 43)
    with tenant.services.database.read() as session:
        made = session.scalars(select(Webhook).where(Webhook.account_id == tenant.id)).one()
    assert (made.url, made.chosen_events, made.chosen_lists) == (url, form["event"], [list_id])
    page = browser.get(f"{PATH}/{made.id}")
    assert "contact.created, recipient.bounced" in words(page)
    assert "Customers" in words(page)
    assert secret not in page.text
    refused = browser.post(PATH, url=url)
    assert refused.status_code == 409
    assert f'value="{url}"' in refused.text
    assert browser.post(PATH, url="ftp://hooks.example/").status_code == 422
    assert browser.post(PATH, url=f"{url}/2", lists="Nowhere").status_code == 422
    assert acts(tenant) == ["webhook.created"]


def test_a_host_is_checked_by_a_worker_and_the_page_shows_the_result(tenant: Tenant, settings: Settings) -> None:
    """An address is refused at once; nobody has to be asked for it, in whatever form it is written."""
    with app_with(settings, webhook_allow_private=False) as app:
        browser = Browser(app)
        assert browser.follow_link(new_link(app, tenant.id)).status_code == 303
        for host in ("127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:10.0.0.1]"):
            refused = browser.post(PATH, url=f"https://{host}/in")
            assert refused.status_code == 422, host
            assert "which is not a public address" in words(refused)
        shown_secret(browser.post(PATH, url="https://localhost/in"))
        with tenant.services.database.read() as session:
            made = session.scalars(select(Webhook).where(Webhook.account_id == tenant.id)).one()
        path = f"{PATH}/{made.id}"
        page = browser.get(path)
        assert f'<div id="live" hx-get="{path}" hx-trigger="every 2s"' in page.text
        assert "The host of this webhook is being checked" in words(page)
        assert "localhost being checked" in words(browser.get(PATH))
        run_checks(app)
        page = browser.get(path)
        assert '<div id="live">' in page.text
        assert "The webhook was refused, because it leads to " in words(page)
        assert "localhost refused" in words(browser.get(PATH))
        assert "The webhook at localhost was refused and gets no events." in words(browser.get("/console"))
        assert browser.post(f"{path}/test").status_code == 409
        assert browser.post(f"{path}/check").status_code == 303
        assert "is being checked" in words(browser.get(path))
    with app_with(settings, webhook_allow_private=True) as lenient:
        run_checks(lenient)
        assert "was refused" not in words(Browser(lenient).sign_in(tenant.tokens["standard"]).get(path))
    assert linked(tenant).post(f"{path}/check").status_code == 409
    assert acts(tenant) == ["webhook.created"]


def run_checks(app: Flask) -> None:
    """What a worker does about the checks that were asked for."""
    checker = NetworkChecker(app.extensions[EXTENSION])
    checker.start()
    checker.wait()


def test_secrets_are_added_shown_once_and_removed(tenant: Tenant) -> None:
    webhook_id, browser = add_webhook(tenant), linked(tenant)
    path = f"{PATH}/{webhook_id}"
    assert browser.confirm(f"{path}/remove-secret", key_id="k1").status_code == 409
    key_id, _ = shown_secret(browser.post(f"{path}/rotate"))
    assert browser.confirm(f"{path}/remove-secret", key_id="k1").status_code == 303
    assert browser.confirm(f"{path}/remove-secret", key_id="k9").status_code == 422
    with tenant.services.database.read() as session:
        assert [secret.key_id for secret in list_secrets(session, find(tenant, webhook_id))] == [key_id] == ["k2"]


def test_the_choice_is_changed_and_a_webhook_deleted(tenant: Tenant) -> None:
    webhook_id, browser = add_webhook(tenant), linked(tenant)
    path, list_id = f"{PATH}/{webhook_id}", tenant.add_list()
    assert browser.post(f"{path}/choice", event="recipient.bounced", lists=str(list_id)).status_code == 303
    chosen = find(tenant, webhook_id)
    assert (chosen.chosen_events, chosen.chosen_lists) == (["recipient.bounced"], [list_id])
    assert browser.post(f"{path}/choice", event="recipient.unknown").status_code == 422
    assert browser.post(f"{path}/choice").status_code == 303
    assert find(tenant, webhook_id).chosen_events is None
    assert browser.confirm(f"{path}/delete").headers["Location"] == PATH
    assert browser.get(path).status_code == 404
    assert acts(tenant) == ["webhook.updated", "webhook.updated", "webhook.deleted"]


def test_a_choice_keeps_a_list_that_was_deleted_until_its_box_is_cleared(tenant: Tenant) -> None:
    webhook_id, browser = add_webhook(tenant), linked(tenant)
    path, gone, other = f"{PATH}/{webhook_id}", tenant.add_list(), tenant.add_list()
    browser.post(f"{path}/choice", lists=f"{gone}\n{other}")
    with tenant.services.database.write() as transaction:
        delete_list(transaction, get_list(transaction, tenant.id, gone))
    assert f"{gone} (deleted)" in browser.get(path).text
    answer = browser.post(f"{path}/choice", event="recipient.bounced", list_id=[str(gone), str(other)])
    assert answer.status_code == 303
    chosen = find(tenant, webhook_id)
    assert (chosen.chosen_events, chosen.chosen_lists) == (["recipient.bounced"], [gone, other])
    assert browser.post(f"{path}/choice", list_id=str(other)).status_code == 303
    assert find(tenant, webhook_id).chosen_lists == [other]
    assert browser.post(f"{path}/choice", list_id=str(gone)).status_code == 422


def test_a_test_event_a_delivery_and_a_time_are_sent_again(tenant: Tenant) -> None:
    webhook_id, browser = add_webhook(tenant), linked(tenant)
    path = f"{PATH}/{webhook_id}"
    delivery = add_delivery(tenant, webhook_id)
    with tenant.services.database.write() as transaction:
        webhook = transaction.get_one(Webhook, webhook_id)
        webhook.position = transaction.get_one(WebhookAttempt, delivery).last_event or 0
    assert browser.post(f"{path}/test").headers["Location"] == path
    assert browser.post(f"{path}/deliveries/{delivery}/redeliver").headers["Location"] == path
    with tenant.services.database.read() as session:
        payloads = select(Event.payload).where(Event.webhook_id == webhook_id).order_by(Event.id)
        sent, test, again = session.scalars(payloads)
    assert '"test"' in test
    assert again == sent
    before = find(tenant, webhook_id).position
    yesterday = (now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    assert browser.post(f"{path}/replay", since=yesterday).status_code == 303
    assert find(tenant, webhook_id).position < before
    for since, status in (("soon", 422), ("2100-01-01T00:00", 409)):
        assert browser.post(f"{path}/replay", since=since).status_code == status
    assert acts(tenant) == ["webhook.tested", "webhook.redelivered", "webhook.replayed"]


def test_a_delivery_shows_request_answer_and_what_proves_it(tenant: Tenant) -> None:
    webhook_id = add_webhook(tenant)
    delivery = add_delivery(tenant, webhook_id)
    with tenant.services.database.read() as session:
        attempt = session.get_one(WebhookAttempt, delivery)
        (payload,) = session.scalars(select(Event.payload).where(Event.webhook_id == webhook_id))
    path = f"{PATH}/{webhook_id}/deliveries/{delivery}"
    answer = signed_in(tenant).get(path)
    page = words(answer)
    assert "Service-Signature" in page
    assert "names a secret that you know: k1." in page
    assert f"Request batch_id {attempt.batch_id}" in page
    assert f"jti {attempt.batch_id}" in page
    assert hashlib.sha256(f'{{"events":[{payload}]}}'.encode()).hexdigest() in page
    assert "&lt;script&gt;" in answer.text
    assert "<script>" not in answer.text
    lost = add_delivery(tenant, webhook_id, events=2)
    page = words(linked(tenant).get(f"{PATH}/{webhook_id}/deliveries/{lost}"))
    assert "2 events, 1 still kept" in page
    assert "unknown, because some of its events are no longer kept" in page
    refused = linked(tenant).post(f"{PATH}/{webhook_id}/deliveries/{lost}/redeliver")
    assert refused.status_code == 409
    assert "only 1 of its 2 events are still kept" in words(refused)


def test_only_who_may_manage_sees_more_of_the_url_of_a_failing_webhook_than_its_host(tenant: Tenant) -> None:
    webhook_id, time = add_webhook(tenant), now()
    url = "https://failing.example/secret-path"
    payload = orjson.dumps(failing_event(webhook_id=7, url=url, since=time, moment=time)).decode()
    event = tenant.add(Event, webhook_id=webhook_id, payload=payload)
    delivery = add_delivery(tenant, webhook_id, after_event=event - 1, last_event=event)
    path = f"{PATH}/{webhook_id}/deliveries/{delivery}"
    for browser, shown_url in ((signed_in(tenant), "failing.example"), (linked(tenant), url)):
        page = words(browser.get(path))
        assert (f'"url": "{shown_url}"' in page, "secret-path" in page) == (True, shown_url == url)
        assert hashlib.sha256(f'{{"events":[{payload}]}}'.encode()).hexdigest() in page, "of what was sent"


def test_deliveries_follow_each_other_by_cursors(tenant: Tenant) -> None:
    webhook_id, browser = add_webhook(tenant), signed_in(tenant)
    row = {"batch_id": "b", "time": this_second(), "events": 1, "status": 500, "outcome": "failed", "milliseconds": 1}
    ids = tenant.add_all(WebhookAttempt, [{**row, "webhook_id": webhook_id} for _ in range(60)])
    path, listed_ids = f"{PATH}/{webhook_id}", []
    while path:
        page = browser.get(path).text
        listed_ids += [int(delivery_id) for delivery_id in re.findall(rf"{PATH}/{webhook_id}/deliveries/(\d+)\"", page)]
        older = re.search(r'<a href="([^"]+)" rel="next"', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert listed_ids == sorted(ids, reverse=True)
    assert browser.get(f"{PATH}/{webhook_id}?cursor=x").status_code == 400
    assert len(browser.get(f"{PATH}/{webhook_id}/deliveries.csv").text.splitlines()) == 61


@each("level", ["report", "limited", "standard"])
def test_no_key_changes_a_webhook_or_sees_its_url(tenant: Tenant, level: str) -> None:
    webhook_id, browser = add_webhook(tenant), signed_in(tenant, level)
    path = f"{PATH}/{webhook_id}"
    assert "secret-" not in browser.get(PATH).text + browser.get(path).text
    assert "secret-" in linked(tenant).get(path).text


def test_an_operator_sees_and_changes_the_webhooks_of_every_account(tenant: Tenant, other_tenant: Tenant) -> None:
    webhook_id = add_webhook(tenant)
    path = f"{PATH}/{webhook_id}"
    all_ = operator(tenant.app)
    assert f"{PATH}/{webhook_id}" in all_.get(f"{PATH}?account={tenant.id}").text
    assert all_.post(f"{path}/test").headers["Location"] == path
    assert acts(tenant) == ["webhook.tested"]
    assert acts(other_tenant) == []


def test_a_page_takes_as_many_statements_for_many_as_for_one(
    tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    browser, webhook_id = signed_in(tenant), add_webhook(tenant)

    def statements() -> list[list[str]]:
        statements_by_page = []
        for path in (PATH, f"{PATH}/{webhook_id}"):
            with count_statements() as counter:
                assert browser.get(path).status_code == 200
            statements_by_page.append([statement for statement in counter.statements if statement.startswith("SELECT")])
        return statements_by_page

    few = statements()
    for _ in range(5):
        add_event(tenant, add_webhook(tenant), seconds_ago=5)
        add_delivery(tenant, webhook_id)
    many = statements()
    assert [len(page_statements) for page_statements in many] == [len(page_statements) for page_statements in few]
    assert not [statement for page in many for statement in page if "count(" in statement.lower()]
