"""The question before what cannot be undone (docs/console.md#questions)."""

from __future__ import annotations

import re

import pytest

from app.db.models import ApiKey
from tests.support.browser import HOME, linked, words
from tests.support.cases import each
from tests.support.console_pages import Estate, Page
from tests.support.tenants import Tenant

QUESTIONS = {
    "/keys/<key_id>/revoke": (
        r"Revoke the key [\w-]+\? It has not been used\. A use in the last minute may not be recorded yet\. "
        r"Requests with this key or its old secrets are refused at once\. You can undo this for 30 seconds\. "
        r"Revoke key Cancel"
    ),
    "/senders/<sender_id>/delete": (
        r"Withdraw \d+\? New text messages from it are refused\. Waiting ones are retried until their retry period "
        r"ends\. Withdraw \d+ Cancel"
    ),
    "/suppressions/<state>/<suppression_id>/remove": (
        r"Unblock \S+@example\.com\? It has been blocked since [\d:-]+ [\d:]+ UTC \. New messages are sent to it\. If "
        r"its mailbox does not exist, they bounce again\. Unblock address Cancel"
    ),
    "/messages/<uuid>/unblock": r"Unblock \S+@example\.com\? New messages are sent to it\. .* Unblock address Cancel",
    "/messages/<uuid>/resubscribe": (
        r"Resubscribe \S+@example\.com\? The person has unsubscribed\. Do this only if they have asked for it\. "
        r"Resubscribe address Cancel"
    ),
    "/automations/<automation_id>/runs/<run_id>/cancel": (
        r"End this run of .+\? Its contact gets no more messages from it\. This cannot be undone\. End the run Cancel"
    ),
    "/webhooks/<webhook_id>/remove-secret": (
        r"Remove the secret k1\? Requests are no longer signed with it\. A receiver that knows no other secret refuses "
        r"them\. Remove secret Cancel"
    ),
}
"""Path -> the page that asks, as people read it."""


@pytest.fixture
def estate(tenant: Tenant) -> Estate:
    return Estate(tenant)


@each("rule", QUESTIONS)
def test_nothing_happens_before_the_question_is_answered(estate: Estate, rule: str) -> None:
    browser = linked(estate.tenant)
    path = Page("POST", HOME + rule, frozenset()).path(estate.ids)
    before = estate.rows()
    asked = browser.post(path, key_id="k1")
    assert (asked.status_code, estate.rows() == before) == (200, True)
    assert re.search(QUESTIONS[rule], words(asked)), words(asked)
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', asked.text))
    assert (f'action="{path}"' in asked.text, fields) == (True, {"key_id": "k1", "confirmed": "1"})


@each("answer", ["", "0", "yes"])
def test_only_the_answer_of_the_page_counts(estate: Estate, answer: str) -> None:
    path = f"{HOME}/keys/{estate.ids['key_id']}/revoke"
    assert linked(estate.tenant).post(path, confirmed=answer).status_code == 200
    with estate.tenant.services.database.read() as session:
        assert session.get_one(ApiKey, estate.ids["key_id"]).revoked_time is None


def test_with_the_answer_it_happens(estate: Estate) -> None:
    browser = linked(estate.tenant)
    assert browser.confirm(f"{HOME}/keys/{estate.ids['key_id']}/revoke").status_code == 303
    assert re.search(r"[\w-]+ was revoked\. Requests with this key are refused\.", words(browser.get(f"{HOME}/keys")))
    with estate.tenant.services.database.read() as session:
        assert session.get_one(ApiKey, estate.ids["key_id"]).revoked_time is not None


def test_what_is_not_there_is_not_asked_about(estate: Estate, other_tenant: Tenant) -> None:
    browser = linked(other_tenant)
    for rule in QUESTIONS:
        path = Page("POST", HOME + rule, frozenset()).path(estate.ids)
        assert browser.post(path).status_code == 404, rule
