"""Keys of the API in the console (docs/console-contents.md#keys-of-the-api)."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import select
from werkzeug.test import TestResponse

from app.accounts.auth import find_principal
from app.accounts.keys import key_with_token
from app.clock import now, this_second
from app.db.models import Account, ApiKey, AuditEntry, List
from app.errors import ServiceError
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.browser import linked, operator, words
from tests.support.tenants import Tenant, add_key, unique

PATH = "/console/keys"


def works(tenant: Tenant, token: str) -> bool:
    """Whether the API takes the key."""
    with tenant.services.database.read() as session:
        try:
            find_principal(session, token)
        except ServiceError:
            return False
    return True


def key_of(tenant: Tenant, token: str) -> ApiKey:
    with tenant.services.database.read() as session:
        key = key_with_token(session, token)
    assert key is not None
    return key


def shown_token(answer: TestResponse) -> str:
    """The token of a page that shows it once."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    (token,) = re.findall(r"<code>(tms_[^<]+)</code>", answer.text)
    return str(token)


def acts(tenant: Tenant) -> list[str]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object.in_(("key", "account"))
        return list(session.scalars(select(AuditEntry.action).where(*criteria).order_by(AuditEntry.id)))


FORMS = ({"name": "Live", "level": "standard"}, {"name": "Test", "level": "standard", "test": "1"})
"""A live key and a test key."""


def list_name(tenant: Tenant, list_id: int) -> str:
    with tenant.services.database.read() as session:
        return str(session.get_one(List, list_id).name)


def lists_of(tenant: Tenant, *keys: ApiKey) -> list[int | None]:
    """The lists that the keys have now."""
    with tenant.services.database.read() as session:
        return [session.get_one(ApiKey, key.id).list_id for key in keys]


def test_a_key_is_created_shown_once_and_revoked(tenant: Tenant) -> None:
    browser, name = linked(tenant), unique("key")
    token = shown_token(browser.post(PATH, name=name, level="limited"))
    made = key_of(tenant, token)
    assert (made.account_id, made.name, made.access_level) == (tenant.id, name, "limited")
    page = browser.get(PATH)
    assert name in words(page)
    assert token not in page.text
    again = browser.post(PATH, name=name, level="limited")
    assert again.status_code == 409
    assert browser.post(PATH, name=unique(), level="all").status_code == 422
    assert browser.post(PATH, name="", level="report").status_code == 422
    assert browser.confirm(f"{PATH}/{made.id}/revoke").headers["Location"] == PATH
    assert not works(tenant, token)
    assert acts(tenant) == ["key.created", "key.revoked"]


def test_a_revoked_key_is_taken_back_for_half_a_minute(tenant: Tenant) -> None:
    """The button stands beside what was done, once. A secret that ended with the key works again, too."""
    browser, name = linked(tenant), unique("key")
    former = shown_token(browser.post(PATH, name=name, level="limited"))
    token = shown_token(browser.post(f"{PATH}/{key_of(tenant, former).id}/rotate", overlap="24"))
    key_id = key_of(tenant, token).id
    browser.confirm(f"{PATH}/{key_id}/revoke")
    assert (works(tenant, token), works(tenant, former)) == (False, False)
    page = browser.get(PATH).text
    button = '<input type="hidden" name="confirmed" value="1"><button type="submit" class="quiet">Undo'
    assert f'<form method="post" action="{PATH}/{key_id}/restore">{button}' in page
    assert f"{PATH}/{key_id}/restore" not in browser.get(PATH).text
    assert browser.post(f"{PATH}/{key_id}/restore").headers["Location"] == PATH
    assert f"{name} was restored. Requests with this key are accepted." in words(browser.get(PATH))
    assert (works(tenant, token), works(tenant, former)) == (True, True)
    assert acts(tenant)[-4:] == ["key.revoked", "key.revoked", "key.restored", "key.restored"]
    again = browser.post(f"{PATH}/{key_id}/restore")
    assert (again.status_code, "is not revoked" in words(again)) == (409, True)


def test_a_key_that_was_revoked_longer_ago_stays_revoked(tenant: Tenant) -> None:
    browser = linked(tenant)
    token = shown_token(browser.post(PATH, name=unique("key"), level="limited"))
    key_id = key_of(tenant, token).id
    browser.confirm(f"{PATH}/{key_id}/revoke")
    with tenant.services.database.write() as transaction:
        transaction.get_one(ApiKey, key_id).revoked_time = this_second() - timedelta(seconds=31)
    answer = browser.post(f"{PATH}/{key_id}/restore")
    assert answer.status_code == 409
    assert "was revoked more than 30 seconds ago" in words(answer)
    assert not works(tenant, token)


def test_a_test_key_is_one_of_the_test_account(tenant: Tenant) -> None:
    browser, name = linked(tenant), unique("key")
    made = key_of(tenant, shown_token(browser.post(PATH, name=name, level="standard", test="1")))
    with tenant.services.database.read() as session:
        assert session.get_one(Account, made.account_id).test_of == tenant.id
    assert f"{name} test valid" in words(browser.get(PATH))
    assert browser.confirm(f"{PATH}/{made.id}/revoke").status_code == 303


def test_a_key_is_rotated_with_an_overlap(tenant: Tenant) -> None:
    browser, old = linked(tenant), add_key(tenant, "report")
    key = key_of(tenant, old)
    refused = browser.post(f"{PATH}/{key.id}/rotate", overlap="5")
    assert refused.status_code == 422
    before = this_second()
    new = shown_token(browser.post(f"{PATH}/{key.id}/rotate", overlap="24"))
    until = key_of(tenant, old).valid_until
    assert until is not None
    assert before <= until - timedelta(days=1) <= now()
    assert works(tenant, old)
    assert works(tenant, new)
    assert "valid until" in words(browser.get(PATH))
    assert browser.post(f"{PATH}/{key.id}/rotate", overlap="24").status_code == 409
    shown_token(browser.confirm(f"{PATH}/{key_of(tenant, new).id}/rotate", overlap="0"))
    assert not works(tenant, new)
    assert acts(tenant).count("key.rotated") == 2


def test_the_table_says_when_each_was_last_used(tenant: Tenant) -> None:
    used = this_second() - timedelta(hours=1)
    token = add_key(tenant, "report", last_used_time=used)
    browser = linked(tenant)
    assert used.strftime("%Y-%m-%d %H:%M UTC") in words(browser.get(PATH))
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    named = [dict(zip(head, row, strict=True)) for row in rows]
    (row,) = [fields for fields in named if fields["name"] == key_of(tenant, token).name]
    assert row["state"] == "valid"
    assert row["last_used_time"] == used.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_key_gets_a_list_for_mails_that_are_sent_by_smtp(settings: Settings, tenant: Tenant) -> None:
    """By its name or id; the page has the column where the service takes such mail."""
    list_id, test_list_id = tenant.add_list(name=unique("Customers")), tenant.add_list(name=unique("Testers"))
    live, test = (key_of(tenant, shown_token(linked(tenant).post(PATH, **form))) for form in FORMS)
    assert "List for SMTP" not in linked(tenant).get(PATH).text
    with app_with(replace(settings, submission_listen=("127.0.0.1", 587))) as app:
        browser = linked(replace(tenant, app=app))
        for key, named in ((live, list_name(tenant, list_id)), (test, str(test_list_id))):
            assert browser.post(f"{PATH}/{key.id}/list", list=named).headers["Location"] == PATH
        page = browser.get(PATH)
        for id_ in (list_id, test_list_id):
            assert f'value="{list_name(tenant, id_)}"' in page.text
        assert lists_of(tenant, live, test) == [list_id, test_list_id]
        refused = browser.post(f"{PATH}/{live.id}/list", list="None such")
        assert refused.status_code == 422
        assert "the account has no list &#39;None such&#39;" in refused.text
        assert browser.post(f"{PATH}/{live.id}/list", list="").status_code == 303
        assert lists_of(tenant, live, test) == [None, test_list_id]
    assert acts(tenant).count("key.updated") == 2, "the entry of a test key is that of the test account"


def test_networks_are_allowed_but_not_so_that_one_shuts_oneself_out(tenant: Tenant) -> None:
    browser = linked(tenant)
    refused = browser.post(f"{PATH}/networks", networks="192.0.2.0/24")
    assert refused.status_code == 403
    assert f"Your own address, {browser.address}, is in none of these networks. Nothing was saved." in words(refused)
    assert "192.0.2.0/24</textarea>" in refused.text
    assert browser.post(f"{PATH}/networks", networks="somewhere").status_code == 422
    assert browser.post(f"{PATH}/networks", networks="192.0.2.0/24\n10.0.0.0/8").status_code == 303
    with tenant.services.database.read() as session:
        assert session.get_one(Account, tenant.id).allowed_networks == ["192.0.2.0/24", "10.0.0.0/8"]
    assert browser.post(f"{PATH}/networks", networks="").status_code == 303
    with tenant.services.database.read() as session:
        assert session.get_one(Account, tenant.id).allowed_networks == []
    assert acts(tenant) == ["account.updated", "account.updated"]


def test_only_an_operator_makes_keys_of_another_account(tenant: Tenant, other_tenant: Tenant) -> None:
    browser, key = linked(other_tenant), key_of(tenant, tenant.tokens["report"])
    token = shown_token(browser.post(f"{PATH}?account={tenant.id}", name=unique(), level="report"))
    assert key_of(tenant, token).account_id == other_tenant.id
    all_ = operator(tenant.app)
    assert key.name in all_.get(f"{PATH}?account={tenant.id}").text
    assert all_.confirm(f"{PATH}/{key.id}/revoke").headers["Location"] == f"{PATH}?account={tenant.id}"
    assert acts(tenant) == ["key.revoked"]
