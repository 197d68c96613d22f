"""Lists in the console (docs/console-contents.md#lists-and-contacts)."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from werkzeug.test import TestResponse

from app.accounts.keys import issue_key
from app.accounts.testing import refreshed_test_account
from app.clock import this_second
from app.console.overview import MAX_ROWS
from app.db.models import Account, AuditEntry, Contact, List, ListField
from app.distribution import COMMAND_LINE
from tests.support.browser import Browser, linked, operator, signed_in, words
from tests.support.cases import each
from tests.support.tenants import Tenant, new_email, new_mobile, unique

PATH = "/console/lists"
SCRIPT = "<script>alert(1)</script>"


def acts(tenant: Tenant) -> list[tuple[str, str | None, dict[str, int]]]:
    """Action, name and counts of what was done to lists of the account."""
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "list"
        columns: tuple[Any, ...] = (AuditEntry.action, AuditEntry.object_name, AuditEntry.counts)
        return [tuple(row) for row in session.execute(select(*columns).where(*criteria).order_by(AuditEntry.id))]


def stored(tenant: Tenant, list_id: int) -> List | None:
    with tenant.services.database.read() as session:
        return session.get(List, list_id)


def older_of(page: TestResponse) -> str:
    """The path of the next page."""
    links = [part for part in page.text.split('<a href="') if 'rel="next"' in part[:600]]
    return links[0].split('"')[0].replace("&amp;", "&") if links else ""


def test_the_lists_of_an_account_are_searched_and_paged_by_cursors(tenant: Tenant) -> None:
    moment = this_second()
    names = [f"List {number:02}" for number in range(60)]
    ids = [tenant.add_list(name, creation_time=moment - timedelta(minutes=place)) for place, name in enumerate(names)]
    tenant.new_contact(ids[0], email=new_email())
    browser, path, listed = signed_in(tenant), PATH, []
    while path:
        page = browser.get(path)
        listed += [part.split("<")[0] for part in page.text.split('">') if part.startswith("List ")]
        path = older_of(page)
        assert "offset" not in path
    assert listed == names
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    assert [row[head.index("name")] for row in rows] == names
    assert rows[0][head.index("contacts")] == "1"
    assert browser.get(f"{PATH}?find=List 07&from=").headers["Location"] == f"{PATH}?name=List%2007"
    assert browser.get(f"{PATH}?find={ids[7]}").headers["Location"] == f"{PATH}?id={ids[7]}"
    assert "List 08" not in browser.get(f"{PATH}?name=List 07").text
    assert "No list matches." in words(browser.get(f"{PATH}?name=Nowhere"))


def test_who_came_by_a_link_creates_changes_and_deletes_a_list(tenant: Tenant) -> None:
    browser, name = linked(tenant), unique("list")
    made = browser.post(PATH, name=name, field="Email", allow_duplicates="1")
    path = made.headers["Location"]
    list_id = int(path.rpartition("/")[2])
    assert browser.post(f"{path}/fields", name="Plan", type="Dropdown", options="free\n gold \n").status_code == 303
    page = words(browser.get(path))
    assert "Email email Email" in page
    assert "Plan plan Dropdown free, gold" in page
    assert "0 contacts" in page
    changed = browser.post(path, name=f"{name} 2", stop_words="OUT\n\nENDE", system="1")
    assert changed.headers["Location"] == path
    row = stored(tenant, list_id)
    assert row is not None
    assert (row.name, row.stop_words, row.system, row.allow_duplicates) == (f"{name} 2", ["OUT", "ENDE"], True, False)
    tenant.add(Contact, list_id=list_id, email="a@example.com", creation_time=this_second(), **BLANK)
    kept = browser.confirm(f"{path}/delete", confirmation=name)
    assert kept.status_code == 422
    assert f"Enter the name of the list, {name} 2, to confirm." in words(kept)
    assert stored(tenant, list_id) is not None
    assert browser.confirm(f"{path}/delete", confirmation=f"{name} 2").headers["Location"] == PATH
    assert stored(tenant, list_id) is None
    assert [act[:2] for act in acts(tenant)] == [
        ("list.created", name),
        ("list.updated", name),
        ("list.updated", name),
        ("list.deleted", f"{name} 2"),
    ]
    assert acts(tenant)[-1][2] == {"contacts": 1}


def test_a_list_is_offered_by_its_form(tenant: Tenant) -> None:
    """The form shows what is stored, and clears what is left empty (docs/preferences.md#offering-a-list)."""
    path, browser = f"{PATH}/{tenant.add_list('newsletter_2026')}", linked(tenant)
    filled = {"name": "newsletter_2026", "offered": "1", "offered_name": " News ", "offered_description": "Monthly."}
    assert browser.post(path, **filled).headers["Location"] == path
    page = browser.get(path).text
    assert 'name="offered" value="1" checked' in page
    assert 'name="offered_name" value="News"' in page
    assert 'name="offered_description" value="Monthly."' in page
    refused = browser.post(path, **{**filled, "offered_name": "x" * 101})
    assert (refused.status_code, "has more than 100 characters" in words(refused)) == (422, True)
    browser.post(path, name="newsletter_2026")
    row = stored(tenant, int(path.rpartition("/")[2]))
    assert row is not None
    assert (row.offered, row.offered_name, row.offered_description) == (False, None, None)


BLANK: dict[str, Any] = {
    **{"last_modified_time": this_second(), "values": {}, "subscribed_email": True, "subscribed_mobile": True},
    **{"is_active": True, "double_opt_in": False},
}


def test_a_list_that_is_too_large_for_one_request_names_the_command(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.contacts.counts.MAX_CONTACTS_AT_ONCE", 1)
    list_id, browser = tenant.add_list("Large", fields=(("Mobile", "Mobile Phone"),)), linked(tenant)
    for _ in range(2):
        tenant.new_contact(list_id, mobile=new_mobile())
    for path, form, command in (
        ("/delete", {"confirmation": "Large"}, "lists delete"),
        ("", {"name": "Large", "allow_duplicates": "1"}, "lists update"),
        ("/fields", {"name": "Email", "type": "Email"}, "lists add-field"),
    ):
        answer = browser.post(f"{PATH}/{list_id}{path}", **form)
        assert answer.status_code == 409
        assert f"Ask an operator to run `{COMMAND_LINE} {command}`." in words(answer)
    assert browser.post(f"{PATH}/{list_id}", name="Larger").status_code == 303
    assert browser.post(f"{PATH}/{list_id}/fields", name="Note", type="Text Field").status_code == 303


@each(
    ("path", "form", "status", "said"),
    [
        ("", {"name": "Taken"}, 409, "the account already has a list 'Taken'"),
        ("", {"name": ""}, 422, ""),
        ("/{}", {"name": "Taken"}, 409, "the account already has a list 'Taken'"),
        ("/{}", {"name": SCRIPT, "stop_words": "x" * 51}, 422, "a stop word has 1 to 50 printable characters"),
        ("/{}/fields", {"name": SCRIPT, "type": "Colour"}, 422, "'Colour' is not one of Email,"),
        ("/{}/fields", {"name": "x", "type": "Text Field", "options": "a"}, 422, "has no options"),
        ("/{}/fields", {"name": "x", "type": "Dropdown", "options": "a\0b"}, 422, "contains a control character"),
        ("/{}/fields", {"name": "E-Mail", "type": "Email"}, 409, "a list can have only one field of the type Email"),
        ("/{}/delete", {"confirmed": "1"}, 422, "Enter the name of the list, Own, to confirm."),
    ],
)
def test_a_wrong_form_changes_nothing_and_is_shown_again(
    tenant: Tenant, path: str, form: dict[str, str], status: int, said: str
) -> None:
    tenant.add_list("Taken")
    list_id = tenant.add_list("Own")
    answer = linked(tenant).post(PATH + path.format(list_id), **form)
    assert answer.status_code == status
    assert said in words(answer)
    assert 'role="alert"' in answer.text
    assert "<script>" not in answer.text
    row = stored(tenant, list_id)
    assert row is not None
    assert row.name == "Own"
    assert acts(tenant) == []


def test_keys_are_offered_no_changes(tenant: Tenant) -> None:
    list_id = tenant.add_list("Own")
    assert "Delete this list" not in signed_in(tenant).get(f"{PATH}/{list_id}").text


def test_an_operator_finds_an_account_beyond_the_first_by_a_part_of_its_name(tenant: Tenant) -> None:
    times = {"creation_time": this_second(), "last_modified_time": this_second()}
    with tenant.services.database.write() as transaction:
        mark = unique("100%_Sure")
        transaction.add_all(Account(name=f"{mark} {number:02}", **times) for number in range(MAX_ROWS + 1))
    browser = operator(tenant.app)

    def search(part: str) -> TestResponse:
        return browser.get(PATH, query_string={"account_name": part})

    first = search(mark.swapcase())
    assert (first.text.count(f">{mark} "), f"the first {MAX_ROWS} by name" in words(first)) == (MAX_ROWS, True)
    last = search(f"{mark} {MAX_ROWS}")
    assert (last.text.count(f">{mark} "), last.text.count(f">{mark} {MAX_ROWS}<")) == (1, 1)
    nothing = search("no such account<")
    assert "No account matches." in words(nothing)
    assert 'value="no such account&lt;"' in nothing.text


def test_an_operator_sees_the_lists_of_each_account(tenant: Tenant, other_tenant: Tenant) -> None:
    name, browser = unique("mine"), operator(tenant.app)
    list_id = tenant.add_list(name)
    other_tenant.add_list(unique("theirs"))
    query = f"?account={tenant.id}"
    page = browser.get(f"{PATH}{query}")
    assert f'href="{PATH}/{list_id}{query}">{name}<' in page.text
    assert name in words(browser.get(f"{PATH}/{list_id}"))
    assert browser.get(f"{PATH}/{list_id}?account={other_tenant.id}").status_code == 404
    made = browser.post(f"{PATH}{query}", name=unique("new"), field="Email")
    assert made.headers["Location"].endswith(query)
    with tenant.services.database.read() as session:
        types = session.scalars(select(ListField.type).where(ListField.account_id == tenant.id)).all()
    assert types.count("Email") == 2


def test_a_test_key_names_the_copy_of_a_list_by_the_id_of_the_original(tenant: Tenant) -> None:
    list_id, address = tenant.add_list(unique("own")), new_email()
    with tenant.services.database.write() as transaction:
        test_id = refreshed_test_account(transaction, transaction.get_one(Account, tenant.id)).id
        token = issue_key(transaction, test_id, "tests", "standard")[1]
    browser = Browser(tenant.app).sign_in(token)
    assert f'href="{PATH}/{list_id}"' in browser.get(f"{PATH}?id={list_id}").text
    path = browser.post(f"{PATH}/{list_id}/contacts", email=address).headers["Location"]
    assert path.startswith(f"{PATH}/{list_id}/contacts/")
    assert address in browser.get(f"{PATH}/{list_id}").text
    with tenant.services.database.read() as session:
        criteria = Contact.account_id == test_id, Contact.email == address
        assert session.scalars(select(Contact.list_id).where(*criteria)).all() == [-list_id]
    all_ = operator(tenant.app)
    assert address not in all_.get(f"{PATH}/{list_id}").text
    page = all_.get(f"{PATH}/{list_id}?account={test_id}").text
    assert f'href="{path}?account={test_id}">{address}<' in page
    assert all_.post(f"{path}?account={test_id}", first_name="Ann").headers["Location"] == f"{path}?account={test_id}"
