"""Versions of stored messages in the console (docs/console-contents.md#history-of-a-stored-message)."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

from sqlalchemy import select

from app.accounts.testing import refreshed_test_account
from app.console.stored_messages import MAX_LINES
from app.db.models import Account, AuditEntry, Message, MessageVersion
from app.messages.define import update_message
from tests.support.browser import Browser, linked, operator, signed_in, words
from tests.support.tenants import Tenant, add_key, unique

PATH = "/console/stored-messages"
SCRIPT = "<script>alert(1)</script>"


def stored(tenant: Tenant, message_id: int) -> Message:
    with tenant.services.database.read() as session:
        return session.get_one(Message, message_id)


def write(tenant: Tenant, message_id: int, **attributes: Any) -> None:
    """Changes the message, as a command does."""
    with tenant.services.database.write() as transaction:
        assert update_message(transaction, transaction.get_one(Message, message_id), attributes)


def version_numbers(tenant: Tenant, message_id: int) -> list[int]:
    with tenant.services.database.read() as session:
        numbers = select(MessageVersion.number).where(MessageVersion.message_id == message_id)
        return list(session.scalars(numbers.order_by(MessageVersion.number)))


def test_the_history_says_who_changed_which_fields_when(tenant: Tenant) -> None:
    browser = linked(tenant)
    made = browser.post(PATH, name=unique("message"), type="email")
    path = made.headers["Location"]
    message_id = int(path.rpartition("/")[2])
    name = stored(tenant, message_id).name
    form = {"name": name, "subject": "Hi", "body_html": "<p>one</p>"}
    for _ in range(2):  # of which the second changes nothing
        assert browser.post(path, **form).status_code == 303
    write(tenant, message_id, subject="Hello", from_name="Acme")
    assert f'href="{path}/versions"' in browser.get(path).text
    page = browser.get(f"{path}/versions")
    assert page.status_code == 200
    rows = words(page).partition("Stored message ")[2].partition(" The newest 50 versions are kept")[0]
    with tenant.services.database.read() as session:
        user = session.scalars(select(AuditEntry.actor).where(AuditEntry.account_id == tenant.id)).first()
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME", rows) == (
        "Version Written By Via Changes "
        "3 TIME service – Subject, Sender name "
        f"2 TIME {user} the console Subject, HTML body "
        f"1 TIME {user} the console created"
    )
    assert "<p>one" not in page.text
    assert "&lt;p&gt;one" not in page.text


def test_a_version_shows_what_differs_from_the_one_before_or_from_another(tenant: Tenant) -> None:
    lines = [f"<p>{number}</p>" for number in range(1, 13)]
    message_id = tenant.add_message(subject="Hi", from_name=None, body_html="\n".join(lines), body_text="a\r\nb")
    lines[5] = "<p>six</p>"
    write(tenant, message_id, subject=None, from_name="Acme", body_html="\n".join(lines))
    write(tenant, message_id, body_text="a\nb")
    browser, path = signed_in(tenant), f"{PATH}/{message_id}/versions"
    page = browser.get(f"{path}/2")
    text = words(page)
    assert "Changes since version 1" in text
    assert "Field Version 1 Version 2 Subject Hi nothing Sender name nothing Acme" in text
    assert "HTML body 1 2 Line 3 3 <p>3</p> 4 4 <p>4</p> 5 5 <p>5</p>" in text
    assert "6 − removed: <p>6</p> 6 + added: <p>six</p> 7 7 <p>7</p> 8 8 <p>8</p> 9 9 <p>9</p>" in text
    assert "Text body" not in text.partition("Full content of this version")[0]
    assert "10 10" not in text
    assert "<del>Hi</del>" in page.text
    assert "<ins>Acme</ins>" in page.text
    newest = words(browser.get(f"{path}/3"))
    assert "Text body 2 3 Line 1 − removed: a␍ 1 + added: a 2 2 b" in newest
    assert "This is the current version." in newest
    first = words(browser.get(f"{path}/1"))
    assert "Content Field Version 1" in first
    assert "removed" not in first
    assert "added" not in first
    back = words(browser.get(f"{path}/1?against=3"))
    assert "Changes since version 3" in back
    assert "6 − removed: <p>six</p> 6 + added: <p>6</p>" in back
    assert words(browser.get(f"{path}/3?against=3")).count("No differences.") == 1


def test_texts_of_a_version_are_escaped(tenant: Tenant) -> None:
    message_id = tenant.add_message(subject=SCRIPT, body_html=SCRIPT, body_text=SCRIPT)
    write(tenant, message_id, name=SCRIPT, subject=f"x{SCRIPT}", body_html=f"x{SCRIPT}\n{SCRIPT}", body_text=None)
    browser, path = linked(tenant), f"{PATH}/{message_id}/versions"
    for page in (
        browser.get(path),
        browser.get(f"{path}/1"),
        browser.get(f"{path}/2"),
        browser.get(f"{path}/1?against=2"),
    ):
        assert page.status_code == 200
        assert "alert(1)" in page.text
        assert "<script>" not in page.text


def test_a_version_is_written_back_as_the_newest(tenant: Tenant) -> None:
    message_id = tenant.add_message(subject="Hi", body_html="<p>one</p>")
    write(tenant, message_id, subject="Hello", body_html="<p>two</p>")
    browser, path = linked(tenant), f"{PATH}/{message_id}/versions"
    page = browser.get(f"{path}/1").text
    assert f'action="{path}/1/restore"' in page
    assert "/restore" not in browser.get(f"{path}/2").text
    answer = browser.post(f"{path}/1/restore")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PATH}/{message_id}")
    message = stored(tenant, message_id)
    assert (message.subject, message.body_html) == ("Hi", "<p>one</p>")
    assert browser.post(f"{path}/3/restore").status_code == 303
    assert version_numbers(tenant, message_id) == [1, 2, 3]
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "message"
        entries = session.scalars(select(AuditEntry).where(*criteria).order_by(AuditEntry.id)).all()
    assert entries[-1].action == "message.updated"
    assert [change["field"] for change in entries[-1].changes] == ["body_html", "subject"]
    assert entries[-1].via == "POST /console/stored-messages/<message_id>/versions/<version_number>/restore"


def test_what_cannot_be_written_back_is_said_on_its_page(tenant: Tenant) -> None:
    name = unique("taken")
    message_id = tenant.add_message(name=name)
    write(tenant, message_id, name=unique("other"))
    tenant.add_message(name=name)
    answer = linked(tenant).post(f"{PATH}/{message_id}/versions/1/restore")
    assert answer.status_code == 409
    assert f"the account already has a message '{name}'" in words(answer)
    assert version_numbers(tenant, message_id) == [1, 2]


def test_levels_see_and_write_what_their_scopes_allow(tenant: Tenant) -> None:
    message_id = tenant.add_message()
    write(tenant, message_id, subject="Hello")
    path = f"{PATH}/{message_id}/versions"
    browsers = {level: signed_in(tenant, level) for level in ("report", "limited", "standard")}
    browsers["link"] = linked(tenant)
    for level, browser in browsers.items():
        assert ("/versions" in browser.get(f"{PATH}/{message_id}").text) == (level in ("standard", "link"))
        assert browser.post(f"{path}/2/restore").status_code == (303 if level == "link" else 403), level
    assert "Restore this version" not in words(browsers["standard"].get(f"{path}/1"))
    assert "Restore this version" in words(browsers["link"].get(f"{path}/1"))


def test_another_account_has_no_such_version(tenant: Tenant, other_tenant: Tenant) -> None:
    message_id, own_id = tenant.add_message(subject="Hi"), other_tenant.add_message()
    for number in range(3):
        write(tenant, message_id, subject=f"Hello {number}")
    browser = linked(other_tenant)
    own_path = f"{PATH}/{own_id}/versions"
    for missing in ("2", "0", "x", "1?against=2", "1?against=x", f"1?against={2**63}", f"{2**62}"):
        assert browser.get(f"{own_path}/{missing}").status_code == 404, missing
    assert "There is no version 2. The versions 1 to 1 are kept." in words(browser.get(f"{own_path}/2"))
    assert browser.post(f"{own_path}/2/restore").status_code == 404
    assert stored(tenant, message_id).subject == "Hello 2"


def test_operators_see_and_write_those_of_every_account(tenant: Tenant) -> None:
    message_id, browser = tenant.add_message(subject="Hi"), operator(tenant.app)
    write(tenant, message_id, subject="Hello")
    path, query = f"{PATH}/{message_id}/versions", f"?account={tenant.id}"
    assert f'href="{path}{query}"' in browser.get(f"{PATH}/{message_id}{query}").text
    assert f'href="{path}/1{query}"' in browser.get(f"{path}{query}").text
    page = browser.get(f"{path}/1{query}")
    assert f'action="{path}/1/restore{query}"' in page.text
    assert f'name="account" value="{tenant.id}"' in page.text
    answer = browser.post(f"{path}/1/restore{query}")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PATH}/{message_id}{query}")
    assert stored(tenant, message_id).subject == "Hi"


def test_a_copy_leaves_the_history_to_its_original(tenant: Tenant) -> None:
    message_id = tenant.add_message(subject="Hi")
    write(tenant, message_id, subject="Hello")
    with tenant.services.database.write() as transaction:
        test = refreshed_test_account(transaction, transaction.get_one(Account, tenant.id))
    browser = Browser(tenant.app).sign_in(add_key(Tenant(tenant.app, test.id, test.name, tenant.domain), "standard"))
    page = words(browser.get(f"{PATH}/{message_id}/versions"))
    assert "This message is a copy in a test account. Its history is the history of the original." in page
    assert "Subject Hello" in words(browser.get(f"{PATH}/{message_id}/versions/1"))
    assert browser.get(f"{PATH}/{message_id}/versions/2").status_code == 404


def test_a_page_shows_so_many_lines_of_a_body(tenant: Tenant) -> None:
    message_id = tenant.add_message(body_text="\n".join("a" * 3 * MAX_LINES))
    write(tenant, message_id, body_text="\n".join("b" * 3 * MAX_LINES))
    page = signed_in(tenant).get(f"{PATH}/{message_id}/versions/2").text
    assert page.count('<tr class="removed">') == MAX_LINES
    assert page.count('<tr class="added">') == 0
    assert "This page does not show all differences.</p>" in page
    page = operator(tenant.app).get(f"{PATH}/{message_id}/versions/2?account={tenant.id}").text
    assert f"messages difference {message_id} --version 2 --against 1 --account {tenant.id}</code>" in unescape(page)


def test_a_page_takes_as_many_statements_for_many_versions_as_for_one(
    tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    browser, message_id = signed_in(tenant), tenant.add_message()
    write(tenant, message_id, subject="1")
    paths = (f"{PATH}/{message_id}/versions", f"{PATH}/{message_id}/versions/2")

    def statements() -> list[str]:
        with count_statements() as counter:
            assert [browser.get(path).status_code for path in paths] == [200, 200]
        return [statement for statement in counter.statements if statement.startswith("SELECT")]

    few = statements()
    for number in range(2, 9):
        write(tenant, message_id, subject=str(number))
    assert statements() == few
    version_statements = [
        statement for statement in few if "message_versions" in statement and "body_html" not in statement
    ]
    assert len(version_statements) == 2
