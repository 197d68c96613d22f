"""Suppressions in the console (docs/console-contents.md#suppressions)."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy import select, update
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse, encode_multipart

from app.addresses import AccountAddress
from app.bulk_actions.run import run_due
from app.clock import now, this_second
from app.console.uploads import MAX_ROWS
from app.contacts.blocked import PERMANENT_BOUNCE, Block, block_addresses
from app.contacts.suppress import block, unsubscribe
from app.db.address_forms import PREFIX
from app.db.models import AuditEntry, BlockedAddress, Contact, Recipient, RecipientStep, Unsubscriber
from app.imports.rows import MAX_FIRST_ROWS
from tests.support.browser import SAME_ORIGIN, Browser, form_of, operator, signed_in, words
from tests.support.cases import each
from tests.support.foreign_files import FOREIGN_FILES
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, new_mobile

PATH = "/console/suppressions"
SCRIPT = "<script>alert(1)</script>"


def suppress(tenant: Tenant, address: str, list_id: int | None = None, reason: str | None = None) -> None:
    """Blocks the address for the reason, or unsubscribes it."""
    kind: Any = "email" if "@" in address else "mobile"
    with tenant.services.database.write() as transaction:
        if reason is not None:
            block(transaction, tenant.id, kind, address, reason)
        else:
            unsubscribe(transaction, tenant.id, kind, address, list_id)


def stored(tenant: Tenant) -> set[tuple[str, str, Any]]:
    """State, address, and the list or the reason of all suppressions of the account."""
    with tenant.services.database.read() as session:
        criteria = Unsubscriber.account_id == tenant.id
        off = select(Unsubscriber.address, Unsubscriber.list_id).where(criteria)
        blocked = select(BlockedAddress.address, BlockedAddress.reason).where(BlockedAddress.account_id == tenant.id)
        return {("unsubscribed", *row) for row in session.execute(off)} | {
            ("blocked", *row) for row in session.execute(blocked)
        }


def acts(tenant: Tenant) -> list[tuple[str, dict[str, Any]]]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "suppression"
        rows = session.execute(select(AuditEntry.action, AuditEntry.counts).where(*criteria).order_by(AuditEntry.id))
        return [(row[0], row[1]) for row in rows]


def entry(browser: Browser, address: str) -> str:
    """The path of the newest suppression of the address."""
    key = "email" if "@" in address else "mobile"
    page = browser.get(f"{PATH}?{key}={address}").text
    return PATH + page.split("<tbody>")[1].split(f'<a href="{PATH}')[1].split('"')[0]


def upload(browser: Browser, content: bytes, state: str = "unsubscribed", query: str = "") -> TestResponse:
    file = FileStorage(io.BytesIO(content), filename="people.csv")
    # In memory: the client of the tests would leave a temporary file of a large one open.
    boundary, body = encode_multipart({"file": file, "file_state": state})
    form = f'multipart/form-data; boundary="{boundary}"'
    return browser.open("POST", f"{PATH}/preview{query}", data=body, content_type=form, headers=SAME_ORIGIN)


def import_previewed(browser: Browser, preview: TestResponse) -> TestResponse:
    """Presses the button of the preview."""
    state, content, *previewed = (
        unescape(part.split('"')[0])
        for name in ("file_state", "content", "shown")
        for part in preview.text.split(f'name="{name}" value="')[1:]
    )
    return browser.post(f"{PATH}/import", content=content, shown=previewed, file_state=state)


def test_a_search_finds_by_address_state_and_day(tenant: Tenant) -> None:
    off, blocked, mobile = new_email("off"), new_email("blocked"), new_mobile()
    browser, day = signed_in(tenant), now().date().isoformat()
    suppress(tenant, off)
    suppress(tenant, blocked.upper(), reason="permanent bounce")
    suppress(tenant, mobile)
    with tenant.services.database.write() as transaction:
        query_of_mobile = update(Unsubscriber).where(
            Unsubscriber.account_id == tenant.id, Unsubscriber.address == mobile
        )
        transaction.execute(query_of_mobile.values(creation_time=this_second() - timedelta(days=400)))
    for query, expected in (
        ("", {off, blocked, mobile}),
        ("state=blocked", {blocked}),
        ("state:ne=blocked", {off, mobile}),
        (f"email={blocked.upper()}", {blocked}),
        (f"mobile={mobile}", {mobile}),
        (f"email:in={off},{blocked}&state=unsubscribed", {off}),
        (f"email:ne={off}", {blocked, mobile}),
        (f"creation_time:in={day}..2100-01-01", {off, blocked}),
    ):
        page = browser.get(f"{PATH}?{query}")
        assert page.status_code == 200
        assert {address for address in (off, blocked, mobile) if f">{address}<" in page.text} == expected, query
    location = urlsplit(browser.get(f"{PATH}?find=%2B{mobile[:2]} {mobile[2:]}&state=").headers["Location"])
    assert (location.path, parse_qsl(location.query)) == (PATH, [("mobile", mobile)])
    refused = browser.get(f"{PATH}?colour=red")
    assert refused.status_code == 400
    assert "colour is not a query parameter" in words(refused)
    assert "No suppression matches." in words(browser.get(f"{PATH}?email=nobody@example.com"))


@each("reply", ["%00", "a%00b", "x" * 60_000])
def test_a_reply_that_nothing_has_finds_nothing_whatever_it_is(tenant: Tenant, reply: str) -> None:
    blocks = {AccountAddress.of(tenant.id, "email", new_email()): Block(PERMANENT_BOUNCE, "550 5.1.1 unknown")}
    tenant.services.database.transact(lambda transaction: block_addresses(transaction, blocks))
    answer = signed_in(tenant).get(f"{PATH}?state=blocked&reply={reply}")
    assert (answer.status_code, "No suppression matches." in words(answer)) == (200, True)


def test_all_that_one_reply_has_blocked_is_previewed_cancelled_and_unblocked(tenant: Tenant) -> None:
    """Only those who may change contacts can unblock. Addresses that have complained are left out."""
    emails, denied = [new_email(f"p{number}") for number in range(3)], f"Relay access denied {SCRIPT}"
    blocks = {
        AccountAddress.of(tenant.id, "email", email): Block(PERMANENT_BOUNCE, f"554 5.7.1 <{email}>: {denied}")
        for email in emails
    }
    tenant.services.database.transact(lambda transaction: block_addresses(transaction, blocks))
    suppress(tenant, "hand@example.com", reason="by hand")
    browser = signed_in(tenant)
    query = "state=blocked&reason=permanent%20bounce&reply=Relay%20access"
    page = browser.get(f"{PATH}?{query}")
    assert "554 5.7.1 &lt;[address]&gt;: Relay access denied &lt;script&gt;" in page.text
    (link,) = re.findall(rf'href="({PATH}/unblock[^"]*)"', page.text)
    assert f"{PATH}/unblock" not in browser.get(PATH).text, "a search of all suppressions is about others, too"
    assert f"{PATH}/unblock" not in browser.get(f"{PATH}?state=blocked&email={emails[0]}").text
    preview = browser.get(unescape(link))
    assert "3 addresses of " in words(preview)
    assert "Nothing has been done yet." in words(preview)
    assert all(email in preview.text for email in emails)
    assert "&lt;script&gt;" in preview.text
    form = form_of(preview, "unblock")
    first = browser.post(f"{PATH}/unblock", **form).headers["Location"]
    assert "Unblock 3 addresses" in words(browser.get(first))
    assert browser.post(f"{first}/cancel").status_code == 303
    assert len(stored(tenant)) == 4
    second = browser.post(f"{PATH}/unblock", **form).headers["Location"]
    tenant.make_bulk_actions_due()
    run_due(tenant.services, time_slice=60)
    assert "Unblocked 3" in words(browser.get(second))
    assert stored(tenant) == {("blocked", "hand@example.com", "by hand")}
    refused = browser.post(f"{PATH}/unblock", **form)
    assert (refused.status_code, "No matching address is blocked" in words(refused)) == (409, True)
    nothing = browser.get(f"{PATH}/unblock?{query}")
    assert "No matching address is blocked" in words(nothing)
    assert browser.post(f"{PATH}/unblock", **{**form, "action": "retry"}).status_code == 422


def test_pages_follow_each_other_by_cursors_across_both_states(tenant: Tenant) -> None:
    moment = this_second()
    expected = []
    for number, model in enumerate([Unsubscriber, BlockedAddress] * 35):
        address, time = f"p{number:02}@example.com", moment - timedelta(seconds=number // 5)
        reason = {"reason": "x"} if model is BlockedAddress else {"list_id": None}
        row_id = tenant.add(model, kind="email", address=address, creation_time=time, **reason)
        expected.append((time, model is BlockedAddress, row_id, address))
    browser, path, listed = signed_in(tenant), PATH, []
    while path:
        page = browser.get(path).text
        listed += [part.split("<")[0] for part in page.split('">') if part[:1] == "p" and "@example.com<" in part[:17]]
        older = [part for part in page.split('<a href="') if 'rel="next"' in part[:400]]
        path = older[0].split('"')[0].replace("&amp;", "&") if older else ""
        assert "offset" not in path
    assert listed == [entry_key[-1] for entry_key in sorted(expected, reverse=True)]
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    assert [row[head.index("address")] for row in rows] == listed
    assert acts(tenant) == [("suppression.exported", {"suppressions": 70})]


def test_a_suppression_says_since_when_and_what_led_to_it(tenant: Tenant, sends: SendsApi) -> None:
    address = new_email("gone")
    answer = tenant.api.post("/v1/transactional-sends", sends.email(recipients=[{"email": address}]))
    uuid = answer.get_json()["_embedded"]["recipients"][0]["uuid"]
    with tenant.services.database.write() as transaction:
        recipient = transaction.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
        step = {"step": "bounced", "detail": f"550 mx.internal {SCRIPT}", "time": now()}
        transaction.add(RecipientStep(account_id=tenant.id, recipient_id=recipient.id, **step))
    suppress(tenant, address, reason="permanent bounce")
    browser = signed_in(tenant)
    page = browser.get(entry(browser, address))
    assert "This address is blocked: permanent bounce." in words(page)
    assert f'<a href="/console/messages/{uuid}">the message bounced</a>' in page.text
    assert "&lt;script&gt;" in page.text
    assert "mx.internal" not in page.text
    operator_page = operator(tenant.app).get(entry(browser, address))
    assert "mx.internal" in operator_page.text
    assert f"/console/messages?email={address.replace('@', '%40')}&amp;account={tenant.id}" in operator_page.text


def test_one_is_added_and_removed_in_place(tenant: Tenant, sends: SendsApi) -> None:
    address, mobile, browser = new_email("ann"), new_mobile(), signed_in(tenant)
    contact = tenant.new_contact(sends.list_id, email=address)["id"]
    assert browser.post(PATH, address=address.upper(), state="blocked", reason="left us").status_code == 303
    assert browser.post(PATH, address=address, state="unsubscribed", list=str(sends.list_id)).status_code == 303
    assert (
        browser.post(PATH, address=f"+{mobile}", state="unsubscribed").headers["Location"] == f"{PATH}?mobile={mobile}"
    )
    assert stored(tenant) == {
        ("blocked", address, "left us"),
        ("unsubscribed", address, sends.list_id),
        ("unsubscribed", mobile, None),
    }
    page = words(browser.get(entry(browser, mobile)))
    assert "This address is unsubscribed from all lists." in page
    with tenant.services.database.read() as session:
        assert not session.get_one(Contact, contact).subscribed_email
    assert "unsubscribed by" in page
    for entry_address in (address, address, mobile):
        assert browser.post(f"{entry(browser, entry_address)}/remove", confirmed="1").status_code == 303
    assert stored(tenant) == set()
    with tenant.services.database.read() as session:
        assert session.get_one(Contact, contact).subscribed_email
    assert [action for action, _ in acts(tenant)] == ["suppression.added"] * 3 + ["suppression.removed"] * 3


@each(
    ("form", "said"),
    [
        ({"address": "nobody", "state": "blocked"}, "'nobody' is neither an email address nor a mobile number"),
        ({"address": "a@b", "state": "blocked"}, "'a@b' is not an email address."),
        ({"address": "a@example.com", "state": SCRIPT}, "is not one of unsubscribed, blocked."),
        (
            {"address": "a@example.com", "state": "blocked", "list": "5"},
            "A block applies to all lists. Leave the list out.",
        ),
        ({"address": "a@example.com", "state": "unsubscribed", "list": "Nowhere"}, "the account has no list 'Nowhere'"),
        ({"address": "a@example.com", "state": "blocked", "reason": "x" * 256}, "at most 255 characters"),
        ({"address": "a@example.com", "state": "blocked", "reason": "a\0b"}, "A reason must not contain U+0000"),
    ],
)
def test_a_wrong_form_is_shown_again_with_what_is_wrong(tenant: Tenant, form: dict[str, str], said: str) -> None:
    answer = signed_in(tenant).post(PATH, **form)
    assert answer.status_code == 422
    assert said in words(answer)
    assert f'value="{form["address"]}"' in answer.text
    assert "<script>" not in answer.text
    assert stored(tenant) == set()


def test_an_import_shows_the_first_faults_before_anything_is_written(tenant: Tenant, sends: SendsApi) -> None:
    browser, list_id = signed_in(tenant), sends.list_id
    lines = [
        "Address;State;List_id;Reason",
        "Ann@example.com;;;",
        f"bob@example.com;unsubscribed;{list_id};",
        "cy@example.com;blocked;;'=1+1",
        "61411111111;;;",
        "nobody;;;",
        "dan@example.com;;999999;",
        f"eve@example.com;blocked;{list_id};",
        f"{SCRIPT}@example.com;;;",
        ";blocked;;",
        "fay@example.com;;;;;;",
    ]
    preview = upload(browser, "\n".join(lines).encode("utf-8-sig"))
    page = words(preview)
    assert "4 suppressions would be added" in page
    assert "6 faulty rows" in page
    assert "6 'nobody' is neither an email address" in page
    assert "7 The account has no list '999999'." in page
    assert "8 A block applies to all lists. Leave the list out." in page
    assert "10 It has no address." in page
    assert "11 has 7 cells, but the header has 4" in page
    assert "<script>" not in preview.text
    assert stored(tenant) == set()
    assert acts(tenant) == []
    assert import_previewed(browser, preview).headers["Location"] == PATH
    expected = {
        ("unsubscribed", "ann@example.com", None),
        ("unsubscribed", "bob@example.com", list_id),
        ("blocked", "cy@example.com", "=1+1"),
        ("unsubscribed", "61411111111", None),
    }
    assert stored(tenant) == expected
    again = upload(browser, browser.get(f"{PATH}.csv").data, "blocked")
    assert "faulty" not in words(again)
    assert "0 suppressions would be added" in words(again)
    assert "4 rows add nothing, because the address is already suppressed or occurs twice in the file." in words(again)
    assert 'name="content"' not in again.text
    more = upload(browser, b"address,state\nann@example.com,\ngus@example.com,blocked\ngus@example.com,blocked\n")
    assert "1 suppression would be added" in words(more)
    assert "Add 1 suppression" in words(more)
    assert [import_previewed(browser, more).status_code for _ in range(2)] == [303, 303]
    assert "The file was imported: 0 added." in words(browser.get(PATH))
    assert stored(tenant) == {*expected, ("blocked", "gus@example.com", "blocked by hand")}
    assert acts(tenant) == [
        ("suppression.imported", {"suppressions": 4}),
        ("suppression.exported", {"suppressions": 4}),
        ("suppression.imported", {"suppressions": 1}),
    ]


@each(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"email\n", "the file has no rows after the header"),
        (b"name\nann@example.com\n", "must name a column address, email or mobile"),
        (b"email\n" + b"a@example.com\n" * (MAX_ROWS + 1), "more than 5,000 rows"),
        (b"x" * (1024 * 1024 + 1), "The file has more than 1,048,576 bytes. Import it with a seed file."),
        (FOREIGN_FILES[0][0], f"{FOREIGN_FILES[0][1]}."),
    ],
)
def test_a_file_that_cannot_be_read_says_so(tenant: Tenant, content: bytes, said: str) -> None:
    answer = upload(signed_in(tenant), content)
    assert answer.status_code == 422
    assert said in words(answer)


def test_of_many_faults_the_first_are_shown_and_a_changed_form_imports_nothing(tenant: Tenant) -> None:
    browser, content = signed_in(tenant), base64.urlsafe_b64encode(b"address\nb@example.com\nx\n").decode()
    page = upload(browser, b"email\na@example.com\n" + b"x\n" * (MAX_FIRST_ROWS + 5))
    assert f"{MAX_FIRST_ROWS + 5} faulty rows" in words(page)
    assert page.text.count("is neither an email address") == MAX_FIRST_ROWS
    forms = (
        ("Choose the file again.", {"content": "§"}),
        (
            "The result of this import has changed since the preview.",
            {"content": content, "shown": ["address", "false", "2", "0"]},
        ),
    )
    for said, form in forms:
        forged = browser.post(f"{PATH}/import", file_state="blocked", **form)
        assert (forged.status_code, said in words(forged)) == (422, True)
    assert stored(tenant) == set()


def test_an_account_finds_and_changes_no_suppression_of_another(tenant: Tenant, other_tenant: Tenant) -> None:
    address = new_email()
    suppress(tenant, address, reason="x")
    path, browser, query = entry(signed_in(tenant), address), signed_in(other_tenant), f"?account={tenant.id}"
    browser.post(f"{PATH}{query}", address="mine@example.com", state="blocked")
    assert stored(tenant) == {("blocked", address, "x")}
    assert stored(other_tenant) == {("blocked", "mine@example.com", "blocked by hand")}
    all_ = operator(tenant.app)
    assert address in all_.get(f"{PATH}{query}").text
    assert all_.post(f"{PATH}{query}", address="b@example.com", state="blocked").status_code == 303
    assert all_.confirm(f"{path}/remove").headers["Location"].endswith(f"account={tenant.id}")
    assert stored(tenant) == {("blocked", "b@example.com", "blocked by hand")}


def test_a_forgotten_address_is_known_by_nothing(tenant: Tenant) -> None:
    row_id = tenant.add(BlockedAddress, kind="email", address=f"{PREFIX}abc", reason="x", creation_time=this_second())
    browser = signed_in(tenant)
    assert "forgotten" in words(browser.get(PATH))
    page = browser.get(f"{PATH}/blocked/{row_id}")
    assert "Forgotten address" in words(page)
    assert "Unblock" not in words(page)
    assert browser.post(f"{PATH}/blocked/{row_id}/remove", confirmed="1").status_code == 409
    for text in (page.text, browser.get(PATH).text, browser.get(f"{PATH}.csv").text):
        assert "forgotten:abc" not in text


def test_a_page_takes_as_many_statements_for_many_as_for_one(
    tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    browser = signed_in(tenant)

    def statements() -> list[str]:
        with count_statements() as counter:
            assert browser.get(PATH).status_code == 200
        return [statement for statement in counter.statements if statement.startswith("SELECT")]

    suppress(tenant, new_email())
    few = statements()
    row = {"kind": "email", "list_id": None, "creation_time": this_second()}
    tenant.add_all(Unsubscriber, [{**row, "address": new_email()} for _ in range(60)])
    many = statements()
    assert len(few) == len(many) == 4
    assert not [statement for statement in many if "count(" in statement.lower()]
