"""The accounts of the installation in the console (docs/console-contents.md#accounts)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from app.accounts.testing import refreshed_test_account
from app.clock import this_second
from app.console.queries import PAGE_ROWS
from app.db.models import Account, AuditEntry
from tests.support.browser import operator, words
from tests.support.cases import each
from tests.support.tenants import Tenant, unique

PATH = "/console/accounts"
FORM = {
    **{"owner_email": "", "default_from_name": "", "default_from_address": "", "brand_name": "", "brand_colour": ""},
    **{"time_zone": "", "rate_limit": "", "retain_content": "", "retain_recipients": "", "retain_captured": ""},
    **{"retain_logs": "", "retain_audit": "", "email_priority": "normal", "sms_priority": "normal"},
    "allowed_networks": "",
}
"""A form with nothing in it but the name."""
SCRIPT = "<script>alert(1)</script>"


def account_of(tenant: Tenant, name: str | None = None) -> Account:
    """The tenant's account, or the one with a name."""
    is_meant = Account.id == tenant.id if name is None else Account.name == name
    with tenant.services.database.read() as session:
        return session.scalars(select(Account).where(is_meant)).one()


def acts(tenant: Tenant, account_id: int) -> list[tuple[str, list[str]]]:
    """What was done with the account, and to which of its settings."""
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == account_id, AuditEntry.object.in_(("account", "test_account"))
        entries = session.scalars(select(AuditEntry).where(*criteria).order_by(AuditEntry.id)).all()
    return [(entry.action, sorted(change["field"] for change in entry.changes)) for entry in entries]


def add_test_account(tenant: Tenant) -> int:
    with tenant.services.database.write() as transaction:
        return refreshed_test_account(transaction, transaction.get_one(Account, tenant.id)).id


def test_an_account_is_created_and_found(tenant: Tenant) -> None:
    browser, name = operator(tenant.app), unique("New & co")
    answer = browser.post(PATH, name=f" {name} ", owner_email="owner@new.example", owner_confirmed="1")
    made = account_of(tenant, name)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PATH}/{made.id}")
    assert (made.owner_email, made.owner_confirmed, made.test_of) == ("owner@new.example", True, None)
    assert [action for action, _ in acts(tenant, made.id)] == ["account.created"]
    for term in (name, str(made.id)):
        assert browser.get(PATH, query_string={"find": term}).headers["Location"] == f"{PATH}/{made.id}"
    page = words(browser.get(f"{PATH}/{made.id}"))
    assert f"{name} Account {made.id} · can send" in page
    assert f"accounts delete '{name}'" in page
    assert f"/console?account={made.id}" in browser.get(f"{PATH}/{made.id}").text


@each(
    ("form", "status", "words_"),
    [
        ({"name": ""}, 422, "must not be empty"),
        ({"name": "x" * 256}, 422, "has more than 255 characters"),
        ({"name": "a\0b"}, 422, "contains a control character"),
        ({"name": "fine", "owner_email": "nobody"}, 422, "'nobody' is not an email address"),
    ],
)
def test_what_cannot_be_created_is_said_and_kept(
    tenant: Tenant, form: dict[str, str], status: int, words_: str
) -> None:
    answer = operator(tenant.app).post(PATH, **form)
    assert answer.status_code == status, words(answer)
    assert words_ in words(answer)
    assert 'role="alert"' in answer.text
    assert f'name="owner_email" value="{form.get("owner_email", "")}"' in answer.text


def test_a_name_that_is_taken_is_refused(tenant: Tenant, other_tenant: Tenant) -> None:
    browser = operator(tenant.app)
    for path in (PATH, f"{PATH}/{other_tenant.id}"):
        answer = browser.post(path, **{**FORM, "name": tenant.name})
        assert answer.status_code == 409
        assert f"there is already an account {tenant.name!r}" in words(answer)
    assert account_of(other_tenant).name == other_tenant.name


def test_settings_are_changed_and_cleared(tenant: Tenant) -> None:
    browser, path, name = operator(tenant.app), f"{PATH}/{tenant.id}", unique("Renamed")
    new_settings = {
        **{"name": name, "owner_email": "owner@x.example", "owner_confirmed": "1", "default_from_name": "Acme"},
        **{"default_from_address": "hello@x.example", "brand_name": "Acme Shop", "brand_colour": "#0A66C2"},
        **{"time_zone": "Australia/Brisbane", "rate_limit": "100/minute", "email_priority": "high"},
        **{"sms_priority": "normal", "retain_content": "7D", "retain_recipients": "off", "retain_captured": "1w"},
        **{"retain_logs": "12h", "retain_audit": "400d", "allowed_networks": "127.0.0.0/8\r\n2001:db8::/32"},
        **{"track_clicks": "1", "machine_events": "1"},
    }
    assert browser.post(path, **new_settings).headers["Location"] == path
    made = account_of(tenant)
    assert {name: getattr(made, name) for name in new_settings} | {"track_opens": made.track_opens} == {
        **new_settings,
        **{"brand_colour": "#0a66c2", "retain_content": "7d", "allowed_networks": ["127.0.0.0/8", "2001:db8::/32"]},
        **{"owner_confirmed": True, "track_clicks": True, "machine_events": True, "track_opens": False},
    }
    page = browser.get(path).text
    assert 'value="Australia/Brisbane"' in page
    assert "127.0.0.0/8\n2001:db8::/32</textarea>" in page
    (updated,) = acts(tenant, tenant.id)
    assert updated[0] == "account.updated"
    assert {"name", "brand_colour", "retain_logs", "allowed_networks", "track_opens"} <= set(updated[1])

    assert browser.post(path, **FORM, name=name).status_code == 303
    cleared = account_of(tenant)
    assert (cleared.owner_email, cleared.owner_confirmed, cleared.brand_name) == (None, False, None)
    assert (cleared.time_zone, cleared.rate_limit, cleared.allowed_networks) == ("UTC", None, [])
    assert (cleared.retain_content, cleared.email_priority, cleared.track_clicks) == (None, "normal", False)


def test_what_changes_nothing_leaves_no_trace(tenant: Tenant) -> None:
    browser, path, before = operator(tenant.app), f"{PATH}/{tenant.id}", account_of(tenant)
    given = {**FORM, "name": tenant.name, "owner_email": before.owner_email or "", "owner_confirmed": "1"}
    given |= {"default_from_name": "Acme Default", "default_from_address": f"default@{tenant.domain}"}
    assert browser.post(path, **given, track_opens="1", track_clicks="1").status_code == 303
    assert account_of(tenant).last_modified_time == before.last_modified_time
    assert acts(tenant, tenant.id) == []


@each(
    ("name", "text"),
    [
        ("name", ""),
        ("name", "a\0b"),
        ("owner_email", "nobody"),
        ("default_from_name", "a\nb"),
        ("default_from_name", "x" * 256),
        ("default_from_address", "@x.example"),
        ("brand_name", "x" * 101),
        ("brand_colour", "red"),
        ("time_zone", "Mars/Olympus"),
        ("rate_limit", "many"),
        ("retain_content", "0d"),
        ("retain_audit", "99999d"),
        ("email_priority", "urgent"),
        ("allowed_networks", "127.0.0.0/8 10.0.0.1/8"),
        ("allowed_networks", "127.0.0.1 " * 1001),
    ],
)
def test_what_is_refused_is_said_at_its_field(tenant: Tenant, name: str, text: str) -> None:
    browser, path = operator(tenant.app), f"{PATH}/{tenant.id}"
    answer = browser.post(path, **{**FORM, "name": tenant.name, "brand_name": "Kept", name: text})
    assert answer.status_code == (400 if name == "time_zone" else 422)
    assert f'id="{name}-error" class="refused" role="alert"' in answer.text
    assert f'aria-describedby="{name}-error"' in answer.text
    assert answer.text.count("-error" + '" class="refused"') == 1
    if name != "brand_name":
        assert 'value="Kept"' in answer.text
    assert account_of(tenant).brand_name is None
    assert acts(tenant, tenant.id) == []


def test_accounts_are_shown_page_by_page(tenant: Tenant) -> None:
    prefix, moment = unique("Z"), this_second()
    times = {"creation_time": moment, "last_modified_time": moment}
    with tenant.services.database.write() as transaction:
        transaction.add_all([Account(name=f"{prefix} {number:03}", **times) for number in range(PAGE_ROWS + 2)])
    browser = operator(tenant.app)
    first = browser.get(PATH, query_string={"after": prefix})
    assert f"{prefix} 000 owner not confirmed" in words(first)
    assert f"{prefix} {PAGE_ROWS - 1:03}" in first.text
    assert f"{prefix} {PAGE_ROWS:03}" not in first.text
    following = words(browser.get(PATH, query_string={"after": f"{prefix} {PAGE_ROWS - 1:03}"}))
    assert following.index(f"{prefix} {PAGE_ROWS:03}") < following.index(f"{prefix} {PAGE_ROWS + 1:03}")
    assert browser.get(PATH, query_string={"after": "\0"}).status_code == 200
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    assert head[:4] == ["id", "name", "owner_email", "owner_confirmed"]
    assert [row[1] for row in rows if row[1].startswith(prefix)] == [f"{prefix} {number:03}" for number in range(52)]


@each("term", ["nobody of that name", "0", "9" * 30, "\0", SCRIPT])
def test_an_account_that_is_not_there_is_not_found(tenant: Tenant, term: str) -> None:
    browser = operator(tenant.app)
    answer = browser.get(PATH, query_string={"find": term})
    assert answer.status_code == 404
    assert "There is no account" in words(answer) or not term.strip("\0")
    assert SCRIPT not in answer.text


def test_a_test_account_has_the_page_of_its_account(tenant: Tenant) -> None:
    browser, path = operator(tenant.app), f"{PATH}/{tenant.id}"
    refused = browser.post(f"{path}/refresh")
    assert refused.status_code == 422
    assert "has no test keys yet" in words(refused)
    test_id = add_test_account(tenant)
    assert browser.get(f"{PATH}/{test_id}").headers["Location"] == path
    assert browser.post(f"{PATH}/{test_id}", **FORM, name="x").status_code == 404
    assert f'href="/console?account={test_id}"' in browser.get(path).text
    assert f"test-account delete --account {tenant.name}" in words(browser.get(path))
    assert browser.get(PATH, query_string={"find": f"{tenant.name} (test)"}).headers["Location"] == path
    browser.post(path, **{**FORM, "name": tenant.name, "brand_name": "Fresh"})
    assert account_of(tenant, f"{tenant.name} (test)").brand_name is None
    assert browser.post(f"{path}/refresh").headers["Location"] == path
    assert account_of(tenant, f"{tenant.name} (test)").brand_name == "Fresh"


def test_no_text_becomes_markup(tenant: Tenant) -> None:
    browser, path, name = operator(tenant.app), f"{PATH}/{tenant.id}", f"!{SCRIPT}{unique()}"
    assert browser.post(path, **{**FORM, "name": name, "brand_name": SCRIPT}).status_code == 303
    refused = browser.post(path, **{**FORM, "name": name, "brand_colour": SCRIPT, "allowed_networks": SCRIPT})
    for answer in (browser.get(path), refused, browser.get(PATH), browser.post(PATH, name=name)):
        assert "&lt;script&gt;" in answer.text
        assert "<script>" not in answer.text


def test_the_list_takes_as_many_statements_for_many_as_for_one(
    tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    browser = operator(tenant.app)

    def statements() -> int:
        with count_statements() as counter:
            assert browser.get(PATH).status_code == 200
        return sum(statement.startswith("SELECT") for statement in counter.statements)

    few = statements()
    add_test_account(tenant)
    for _ in range(3):
        assert browser.post(PATH, name=f"!{unique('more')}").status_code == 303
    assert statements() == few
