"""Stored messages in the console (docs/console-contents.md#stored-messages)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

from sqlalchemy import func, select
from werkzeug.test import TestResponse

from app.accounts.testing import refreshed_test_account
from app.db.models import Account, AuditEntry, Contact, Message, Recipient
from app.http.console.parts import FRAMED_POLICY, LINKS_DO_NOTHING
from tests.support.browser import Browser, linked, operator, signed_in, words
from tests.support.cases import each
from tests.support.tenants import Tenant, add_key, new_email, new_mobile, unique

PATH = "/console/stored-messages"
SENDS = "/v1/transactional-sends"
HTML = "<p>Dear %%first_name%%,</p>\n<p>%%colour**blue%%</p>\n%%plan:IS:gold%%<b>Gold</b>"


def stored(tenant: Tenant, message_id: int) -> Message:
    with tenant.services.database.read() as session:
        return session.get_one(Message, message_id)


def of(message: Message, **changes: str) -> dict[str, str]:
    """The form of a mail's page."""
    names = ("name", "subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_html", "body_text")
    return {
        **{name: getattr(message, name) or "" for name in names},
        "list": "",
        "address": "",
        "values": "",
        **changes,
    }


def acts(tenant: Tenant) -> list[str]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "message"
        return list(session.scalars(select(AuditEntry.action).where(*criteria).order_by(AuditEntry.id)))


def html_of(browser: Browser, message_id: int, form: dict[str, str]) -> TestResponse:
    answer = browser.post(f"{PATH}/{message_id}/html", **form)
    assert answer.status_code == 200
    assert answer.headers["Content-Security-Policy"] == FRAMED_POLICY
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer


def test_they_are_found_by_name_id_and_type_and_downloaded(tenant: Tenant) -> None:
    name = unique("welcome")
    mail, sms = tenant.add_message(name=name), tenant.add_message(type="sms", subject=None, body_html=None)
    browser = signed_in(tenant, "limited")
    page = words(browser.get(PATH))
    assert f"{name} {mail} email Hi %%first_name**there%%" in page
    assert f" {sms} sms " in page
    for term in (name, str(mail)):
        answer = browser.get(PATH, query_string={"find": term, "type": "", "from": "", "to": ""})
        assert answer.status_code == 303
        page = words(browser.get(answer.headers["Location"]))
        assert f"{name} {mail}" in page
        assert f" {sms} sms" not in page
    assert f"{name} {mail}" not in words(browser.get(f"{PATH}?type=sms"))
    assert browser.get(f"{PATH}?colour=blue").status_code == 400
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv?type=email").text))
    assert [row[head.index("id")] for row in rows] == [str(mail)]
    assert "body_html" not in head


def test_a_page_takes_as_many_statements_for_many_as_for_one(
    tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    browser, first = signed_in(tenant, "limited"), tenant.add_message()

    def statements() -> list[str]:
        with count_statements() as counter:
            assert browser.get(PATH).status_code == 200
        return [statement for statement in counter.statements if statement.startswith("SELECT")]

    few = statements()
    for _ in range(50):
        tenant.add_message()
    assert statements() == few
    page = browser.get(PATH).text
    assert f">{first}<" not in page
    (older,) = re.findall(r'href="([^"]+)" rel="next"', page)
    assert f">{first}<" in browser.get(unescape(older)).text


def test_one_is_created_written_and_deleted(tenant: Tenant) -> None:
    browser, name = linked(tenant), unique("message")
    made = browser.post(PATH, name=f"  {name} ", type="email")
    assert made.status_code == 303
    message_id = int(made.headers["Location"].rpartition("/")[2])
    form = of(stored(tenant, message_id), subject="Hi", body_html="\r\n<p>one</p>\r\n<p>two</p>", reply_to="")
    assert browser.post(f"{PATH}/{message_id}", **form).status_code == 303
    message = stored(tenant, message_id)
    assert (message.name, message.subject, message.body_html, message.body_text, message.reply_to) == (
        *(name, "Hi", "\n<p>one</p>\n<p>two</p>"),
        *(None, None),
    )
    page = browser.get(f"{PATH}/{message_id}").text
    assert ">\n\n&lt;p&gt;one&lt;/p&gt;\n&lt;p&gt;two&lt;/p&gt;</textarea>" in page
    assert "aria-invalid" not in page
    assert 'role="alert"' not in page
    assert browser.post(f"{PATH}/{message_id}", **form).status_code == 303
    assert browser.confirm(f"{PATH}/{message_id}/delete").status_code == 303
    assert browser.get(f"{PATH}/{message_id}").status_code == 404
    assert acts(tenant) == ["message.created", "message.updated", "message.deleted"]


def test_a_text_message_has_a_text_and_a_sender(tenant: Tenant) -> None:
    browser = linked(tenant)
    made = browser.post(PATH, name=unique(), type="sms")
    path = made.headers["Location"]
    page = browser.get(path)
    assert 'name="body_html"' not in page.text
    assert (
        browser.post(path, name="Code", from_address="Acme", body_text="Your code", body_html="<p>").status_code == 303
    )
    message = stored(tenant, int(path.rpartition("/")[2]))
    assert (message.name, message.from_address, message.body_text, message.body_html) == (
        *("Code", "Acme", "Your code"),
        None,
    )


@each(
    ("changes", "status", "text"),
    [
        ({"name": ""}, 422, "name must not be blank"),
        ({"name": "a\tb"}, 422, "name must not contain a control character."),
        ({"subject": "x" * 999}, 422, "subject has 999 characters; at most 998 are accepted."),
        ({"from_address": "nobody"}, 422, "from_address"),
        ({"reply_to": "nobody"}, 422, "reply_to"),
        ({"body_html": "x\0"}, 422, "body_html must not contain the character U+0000."),
        ({"thumbnail_url": "javascript:alert(1)"}, 422, "thumbnail_url"),
        ({"body_text": "x" * (1 << 20) + "y"}, 422, "body_text has"),
    ],
)
def test_what_the_api_would_not_accept_is_refused_at_its_field(
    tenant: Tenant, changes: dict[str, str], status: int, text: str
) -> None:
    browser, message_id = linked(tenant), tenant.add_message()
    message = stored(tenant, message_id)
    (name,) = changes
    answer = browser.post(f"{PATH}/{message_id}", **of(message, **{"from_name": "Kept", **changes}))
    assert answer.status_code == status
    assert f'id="{name}-error"' in answer.text
    assert f'aria-describedby="{name}-error"' in answer.text
    assert text in words(answer)
    assert 'value="Kept"' in answer.text
    assert stored(tenant, message_id).from_name == message.from_name


def test_a_name_is_taken_once(tenant: Tenant) -> None:
    browser, name = linked(tenant), unique()
    message_id = tenant.add_message()
    tenant.add_message(name=name)
    answer = browser.post(f"{PATH}/{message_id}", **of(stored(tenant, message_id), name=name))
    assert answer.status_code == 409
    assert 'id="name-error"' in answer.text
    again = browser.post(PATH, name=name, type="email")
    assert again.status_code == 409
    assert f'value="{name}"' in again.text
    assert browser.post(PATH, name=unique(), type="fax").status_code == 422
    assert browser.post(PATH, name="", type="sms").status_code == 422


def test_the_html_is_that_of_delivery_to_the_byte(tenant: Tenant) -> None:
    list_id, address = tenant.add_list("Customers"), new_email()
    tenant.new_contact(list_id, email=address, first_name="Zoë <b>")
    message_id = tenant.add_message(body_html=HTML, body_text=None)
    values = {"colour": "&lt;red&gt;", "amount": 1}
    recipient: dict[str, Any] = {"email": address, **values}
    body = {"type": "email", "list_id": list_id, "message_id": message_id, "group_name": "x", "recipients": [recipient]}
    (dry_run,) = tenant.api.post(f"{SENDS}?dry_run=true", body).get_json()["_embedded"]["recipients"]
    form = of(stored(tenant, message_id), list="Customers", address=address, values=json.dumps(values))
    browser = signed_in(tenant)
    answer = html_of(browser, message_id, form)
    assert answer.mimetype == "text/html"
    assert answer.text == dry_run["body_html"] + LINKS_DO_NOTHING
    assert "Zoë &lt;b&gt;" in answer.text
    page = browser.post(f"{PATH}/{message_id}/preview", **form)
    assert page.status_code == 200
    assert f"To {address}" in words(page)
    assert dry_run["body_text"].split()[0] in words(page)
    assert "generated from the HTML" in words(page)
    assert "&lt;script" not in page.text


def test_what_is_missing_is_named_with_its_line(tenant: Tenant) -> None:
    message_id = tenant.add_message(body_html=HTML, body_text="%%colour%%\n%%colour%%", subject="For %%who%%")
    browser = signed_in(tenant)
    page = words(browser.post(f"{PATH}/{message_id}/preview", **of(stored(tenant, message_id))))
    assert "HTML body, line 3: %%plan:IS:gold%% has no effect. It appears in the message as written." in page
    assert "HTML body, line 1: first_name has no value. Nothing appears instead." in page
    assert "HTML body, line 2: colour has no value. “blue” appears instead." in page
    assert "Text body, lines 1, 2: colour has no value. Nothing appears instead." in page
    assert "Subject, line 1: who has no value. Nothing appears instead." in page
    values = json.dumps({"first_name": "Ann", "colour": "red", "who": "you"})
    form = of(stored(tenant, message_id), body_html="<p>%%first_name%%</p>", values=values)
    page = words(browser.post(f"{PATH}/{message_id}/preview", **form))
    assert "Every wildcard has a value, and every conditional is complete." in page
    assert "Subject For you" in page


def test_what_would_be_refused_or_skipped_is_shown_all_the_same(tenant: Tenant) -> None:
    list_id, address = tenant.add_list(), new_email()
    tenant.new_contact(list_id, email=address)
    assert linked(tenant).post("/console/suppressions", address=address, state="blocked").status_code == 303
    message_id = tenant.add_message(from_address="hello@elsewhere.example", subject=None)
    browser = signed_in(tenant)
    form = of(stored(tenant, message_id), list=str(list_id), address=address)
    page = words(browser.post(f"{PATH}/{message_id}/preview", **form))
    assert "A send would be refused:" in page
    assert "from_address: the domain elsewhere.example is not configured in the account. Send from one that is" in page
    assert "Neither the request nor the message has a subject." in page
    assert "This address would get nothing: address is blocked." in page
    assert html_of(browser, message_id, form).text == f"<p>Welcome friend</p>{LINKS_DO_NOTHING}"


def test_the_segments_of_a_text_message_are_counted(tenant: Tenant) -> None:
    tenant.add_sender("61400000001")
    message_id = tenant.add_message(type="sms", subject=None, body_html=None, from_address="61400000001", body_text="x")
    browser = signed_in(tenant)

    def preview_of(text: str) -> str:
        form = {"name": "n", "from_address": "61400000001", "body_text": text, "address": new_mobile()}
        return words(browser.post(f"{PATH}/{message_id}/preview", **form))

    assert "Characters 160 Encoding GSM 7-bit Segments 1" in preview_of("x" * 160)
    assert "Characters 161 Encoding GSM 7-bit Segments 2" in preview_of("x" * 161)
    assert "Characters 71 Encoding UCS-2 Segments 2" in preview_of("ж" * 71)
    assert "This message could not be sent" in preview_of("%%nothing%%")


@each(
    ("changes", "text"),
    [
        ({"values": "{"}, "The values are not valid JSON"),
        ({"values": "[1]"}, "The values must be a JSON object."),
        ({"values": '{"a": NaN}'}, "The values are not valid JSON: NaN is not a JSON value."),
        ({"values": '{"a": "\\ud800"}'}, "The values are not valid JSON"),
        ({"values": "[" * 90_000}, "The values are not valid JSON"),
        ({"values": '{"a": "' + "x" * 100_000 + '"}'}, "The values have more than 100,000 characters."),
        ({"values": '{"a b": "c"}'}, "a b: "),
        ({"values": '{"a": true}'}, "a must be a string or a number."),
        ({"list": "Nowhere"}, "the account has no list 'Nowhere'"),
        ({"list": "x\0"}, "the account has no list"),
        ({"address": "nobody"}, "email"),
        ({"subject": "x" * 999}, "subject has 999 characters; at most 998 are accepted."),
        ({"body_html": "x\0"}, "body_html must not contain the character U+0000."),
    ],
)
def test_a_preview_says_what_is_wrong_with_the_form(tenant: Tenant, changes: dict[str, str], text: str) -> None:
    browser, message_id = signed_in(tenant), tenant.add_message()
    form = of(stored(tenant, message_id), **changes)
    answer = browser.post(f"{PATH}/{message_id}/preview", **form)
    assert answer.status_code == 200
    assert text in words(answer)
    framed = html_of(browser, message_id, form)
    assert framed.mimetype == "text/plain"
    assert text in framed.text


def test_a_test_is_sent_as_the_api_sends_it(tenant: Tenant) -> None:
    list_id, address = tenant.add_list(), new_email()
    message_id = tenant.add_message()
    browser = signed_in(tenant)
    form = of(stored(tenant, message_id), list=str(list_id), address=address, subject="Not stored", values='{"n": 1}')
    answer = browser.post(f"{PATH}/{message_id}/test", **form)
    assert answer.status_code == 303
    page = browser.get(answer.headers["Location"])
    assert address in words(page)
    with tenant.services.database.read() as session:
        sent = session.scalars(select(Recipient).where(Recipient.account_id == tenant.id)).one()
        contacts = session.scalar(select(func.count()).where(Contact.list_id == list_id, Contact.email == address))
    assert (sent.email, sent.message_id, sent.list_id, sent.state) == (address, message_id, list_id, "queued")
    assert contacts == 1
    assert answer.headers["Location"] == f"/console/messages/{sent.uuid}"
    for changes, text in (
        ({"address": ""}, "Enter an address to send the test to."),
        ({"list": ""}, "list_id is required: an email goes to contacts of a list."),
        ({"list": "Nowhere"}, "the account has no list 'Nowhere'"),
        ({"values": "{"}, "The values are not valid JSON"),
        ({"address": "nobody"}, "email"),
    ):
        refused = browser.post(f"{PATH}/{message_id}/test", **{**form, **changes})
        assert refused.status_code == 422
        assert text in words(refused)
        assert 'value="Not stored"' in refused.text
        assert ('aria-describedby="values-error"' in refused.text) == ("values" in changes)


def test_a_test_account_has_copies_with_the_ids_of_the_originals(tenant: Tenant) -> None:
    message_id = tenant.add_message()
    with tenant.services.database.write() as transaction:
        test = refreshed_test_account(transaction, transaction.get_one(Account, tenant.id))
    other = Tenant(tenant.app, test.id, test.name, tenant.domain)
    token = add_key(other, "standard")
    browser = Browser(tenant.app).sign_in(token)
    assert f'href="{PATH}/{message_id}"' in browser.get(PATH).text
    page = browser.get(f"{PATH}/{message_id}")
    assert f"Stored message {message_id} " in words(page)
    assert "aria-invalid" not in page.text
    assert browser.post(f"{PATH}/{message_id}/preview", **of(stored(tenant, message_id))).status_code == 200


def test_levels_are_offered_what_their_scopes_allow(tenant: Tenant) -> None:
    message_id = tenant.add_message(body_html="<p>%%x%%</p>")
    path = f"{PATH}/{message_id}"
    limited, standard = (signed_in(tenant, level) for level in ("limited", "standard"))
    page = limited.get(path)
    assert "Preview" not in words(page)
    assert page.text.count(" readonly") == 8
    assert "Save" not in words(standard.get(path))
    assert "Save" in words(linked(tenant).get(path))


def test_a_preview_knows_no_list_of_another_account(tenant: Tenant, other_tenant: Tenant) -> None:
    message_id, list_id = tenant.add_message(), tenant.add_list(unique("theirs"))
    foreign_id = other_tenant.add_message()
    browser = linked(other_tenant)
    form = of(stored(tenant, message_id))
    page = browser.post(f"{PATH}/{foreign_id}/preview", **{**form, "list": str(list_id)})
    assert f"the account has no list '{list_id}'" in words(page)


def test_operators_write_those_of_every_account(tenant: Tenant) -> None:
    message_id, browser = tenant.add_message(), operator(tenant.app)
    path = f"{PATH}/{message_id}"
    assert f'href="{path}?account={tenant.id}"' in browser.get(f"{PATH}?account={tenant.id}").text
    page = browser.get(f"{path}?account={tenant.id}")
    assert f'action="{path}?account={tenant.id}"' in page.text
    assert f'formaction="{path}/preview?account={tenant.id}"' in page.text
    form = of(stored(tenant, message_id), subject="By an operator")
    answer = browser.post(f"{path}?account={tenant.id}", **form)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{path}?account={tenant.id}")
    assert stored(tenant, message_id).subject == "By an operator"
