"""Contacts in the console (docs/console-contents.md#lists-and-contacts)."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

from sqlalchemy import select, update

from app.clock import this_second
from app.contacts.suppress import block, unsubscribe
from app.db.models import Account, AuditEntry, Contact, List, Recipient, Unsubscriber
from tests.api.test_console_lists import BLANK, PATH, older_of
from tests.support.browser import linked, operator, signed_in, words
from tests.support.cases import each
from tests.support.sends import SendsApi
from tests.support.statements import StatementCounter
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_mobile

SCRIPT = "<script>alert(1)</script>"


def path_of(list_id: int, contact_id: int) -> str:
    return f"{PATH}/{list_id}/contacts/{contact_id}"


def contact(tenant: Tenant, contact_id: int) -> Contact | None:
    with tenant.services.database.read() as session:
        return session.get(Contact, contact_id)


def acts(tenant: Tenant) -> list[tuple[str, str | None, list[str]]]:
    """Action, digest of the address, and the names of the attributes."""
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "contact"
        entries = session.scalars(select(AuditEntry).where(*criteria).order_by(AuditEntry.id))
        return [
            (entry.action, entry.address_digest, [change["field"] for change in entry.changes]) for entry in entries
        ]


def test_contacts_are_searched_by_address_state_and_field(tenant: Tenant) -> None:
    list_id = tenant.add_list(fields=FULL_FIELDS)
    ann, bob, cy = (new_email(name) for name in ("ann", "bob", "cy"))
    number = new_mobile()
    tenant.new_contact(list_id, email=ann, mobile=number, first_name=SCRIPT, plan="gold", score=7)
    tenant.new_contact(list_id, email=bob, subscribed={"email": False})
    tenant.new_contact(list_id, email=cy, is_active=False, plan="free")
    with tenant.services.database.write() as transaction:
        block(transaction, tenant.id, "mobile", number, "left us")
    browser, path = signed_in(tenant), f"{PATH}/{list_id}"
    for query, expected in (
        ("", {ann, bob, cy}),
        (f"email={ann.upper()}", {ann}),
        (f"mobile={number}", {ann}),
        ("blocked=true", {ann}),
        ("subscribed=false", {bob}),
        ("is_active=false", {cy}),
        ("plan=gold", {ann}),
        ("plan:in=gold,free&is_active=true", {ann}),
        ("score:in=5..", {ann}),
    ):
        page = browser.get(f"{path}?{query}")
        assert page.status_code == 200
        assert {address for address in (ann, bob, cy) if f">{address}<" in page.text} == expected, query
        assert "<script>" not in page.text
    shown_words = words(browser.get(path))
    assert f"{ann} {number} blocked" in shown_words
    assert f"{bob} unsubscribed" in shown_words
    assert f"{cy} inactive" in shown_words
    answer = browser.get(f"{path}?find=%2B{number[:2]} {number[2:]}&blocked=&subscribed=")
    assert answer.headers["Location"] == f"{path}?mobile={number}"
    assert "No contact matches." in words(browser.get(f"{path}?email=nobody@example.com"))


def test_a_page_costs_the_same_number_of_statements_whatever_it_shows(tenant: Tenant) -> None:
    list_id, moment = tenant.add_list(), this_second()
    rows = [
        {"list_id": list_id, "email": f"p{number:02}@example.com", "creation_time": moment - timedelta(minutes=number)}
        for number in range(70)
    ]
    browser, path, counts = signed_in(tenant), f"{PATH}/{list_id}", []
    for some in (rows[:1], rows[1:]):
        tenant.add_all(Contact, [{**row, **BLANK} for row in some])
        with StatementCounter(tenant.services.database.engine) as counter:
            first = browser.get(path)
        counts.append(counter.count)
    assert counts[0] == counts[1]
    assert "70 contacts" in words(first)
    emails = []
    page = first
    while True:
        emails += [part.split("<")[0] for part in page.text.split('">') if part[:1] == "p" and "@example.com<" in part]
        if not (path := older_of(page)):
            break
        page = browser.get(path)
    assert emails == [row["email"] for row in rows]


def test_the_file_of_a_search_can_be_imported_again_and_is_in_the_audit_log(tenant: Tenant) -> None:
    list_id, ann = tenant.add_list(fields=FULL_FIELDS), new_email("ann")
    tenant.new_contact(list_id, email=ann, first_name="=1+1", spend=5)
    tenant.new_contact(list_id, email=new_email("bob"))
    answer = signed_in(tenant).get(f"{PATH}/{list_id}/contacts.csv?email={ann}")
    head, *rows = csv.reader(io.StringIO(answer.text))
    assert head[1:5] == ["email", "mobile", "first_name", "last_name"]
    assert [dict(zip(head, row, strict=True))["first_name"] for row in rows] == ["'=1+1"]
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.action == "list.exported"
        (entry,) = session.scalars(select(AuditEntry).where(*criteria)).all()
    assert (entry.object_id, entry.counts) == (str(list_id), {"contacts": 1})


def test_a_list_with_a_field_of_the_name_of_the_cursor_has_no_further_pages(tenant: Tenant) -> None:
    list_id, moment = tenant.add_list(fields=(("Email", "Email"), ("Cursor", "Text Field"))), this_second()
    rows = [{"list_id": list_id, "email": f"p{number}@example.com", "creation_time": moment} for number in range(60)]
    tenant.add_all(Contact, [{**row, **BLANK} for row in rows])
    page = signed_in(tenant).get(f"{PATH}/{list_id}?cursor:ne=x")
    assert page.status_code == 200
    assert older_of(page) == ""


def test_a_contact_says_why_it_gets_nothing_and_where_that_ends(tenant: Tenant, sends: SendsApi) -> None:
    address, other = new_email("gone"), tenant.add_list()
    made = tenant.new_contact(sends.list_id, email=address)
    path = path_of(sends.list_id, made["id"])
    browser = signed_in(tenant)
    assert "This contact gets the messages of this list." in words(browser.get(path))
    with tenant.services.database.write() as transaction:
        block(transaction, tenant.id, "email", address, "permanent bounce")
        unsubscribe(transaction, tenant.id, "email", address, None)
        unsubscribe(transaction, tenant.id, "email", address, sends.list_id)
        unsubscribe(transaction, tenant.id, "email", address, other)
    page = browser.get(path)
    text = words(page)
    assert f"{address} has been unsubscribed from all lists since" in text
    assert f"{address} has been unsubscribed from the list" in text
    assert f"{address} has been blocked since" in text
    assert ": permanent bounce." in text
    assert page.text.count('">View suppression<') == 3
    linked_paths = [part.split('"')[0] for part in page.text.split('<a href="') if ">View suppression" in part[:200]]
    assert [browser.get(linked_path).status_code for linked_path in linked_paths] == [200] * 3
    browser.post(path, is_active="false")
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(owner_confirmed=False))
    text = words(browser.get(path))
    assert "The contact is not active. Its messages are skipped." in text
    assert "The account owner has not confirmed the owner's email address" in text


def test_a_contact_without_address_and_one_with_a_flag_alone_say_so(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list(), signed_in(tenant)
    empty = tenant.new_contact(list_id, first_name="Ann")["id"]
    assert "The contact has no address." in words(browser.get(path_of(list_id, empty)))
    flagged = tenant.add(
        Contact,
        **{**BLANK, "subscribed_email": False},
        **{"list_id": list_id, "email": "a@example.com", "email_key": "a@example.com", "creation_time": this_second()},
    )
    assert "a@example.com is unsubscribed, but only for this contact." in words(browser.get(path_of(list_id, flagged)))


def test_a_contact_shows_its_latest_messages(tenant: Tenant, sends: SendsApi) -> None:
    address = new_email("ann")
    contact_id = tenant.new_contact(sends.list_id, email=address)["id"]
    for _ in range(12):
        answer = tenant.api.post("/v1/transactional-sends", sends.email(recipients=[{"contact_id": contact_id}]))
        assert answer.status_code == 202
    page = signed_in(tenant).get(path_of(sends.list_id, contact_id))
    with tenant.services.database.read() as session:
        newest = select(Recipient.uuid).where(Recipient.contact_id == contact_id).order_by(Recipient.id.desc())
        uuids = session.scalars(newest).all()
    assert [uuid for uuid in uuids if f'href="/console/messages/{uuid}"' in page.text] == uuids[:10]
    assert f'href="/console/messages?contact_id={contact_id}">Show all messages to this contact' in page.text


def test_values_are_changed_in_place_and_only_those_that_differ(tenant: Tenant) -> None:
    list_id, ann, number = tenant.add_list(fields=FULL_FIELDS), new_email("Ann"), new_mobile()
    made = tenant.new_contact(list_id, email=ann, first_name="Ann", plan="gold", spend=1.5, last_name="a\r\nb")
    path, browser = path_of(list_id, made["id"]), signed_in(tenant)
    page = browser.get(path).text
    assert 'name="spend" value="1.5"' in page
    assert "<option selected>gold</option>" in page
    form = {"email": ann, "mobile": number, "first_name": "", "plan": "free", "spend": "1.5", "last_name": "a\nb"}
    answer = browser.post(path, **form, is_active="true", double_opt_in="true", id="9", subscribed="x")
    assert (answer.status_code, answer.headers["Location"]) == (303, path)
    row = contact(tenant, made["id"])
    assert row is not None
    assert (row.email, row.mobile, row.double_opt_in) == (ann, number, True)
    assert row.values == {"plan": "free", "spend": 1.5, "last_name": "a\r\nb"}
    ((action, digest, fields),) = acts(tenant)
    assert (action, fields) == ("contact.updated", ["list_id", "double_opt_in", "first_name", "mobile", "plan"])
    assert digest is not None
    assert ann.lower() not in digest
    browser.post(path, plan="free")
    assert len(acts(tenant)) == 1


@each(
    ("form", "status", "said"),
    [
        ({"email": "nobody"}, 422, "email must be an email address"),
        ({"plan": SCRIPT}, 422, "plan must be one of the field's options: free, gold."),
        ({"spend": "much"}, 422, "spend must be a number."),
        ({"born": "2026-02-30"}, 422, "born: 2026-02-30 is not a day of the calendar."),
        ({"email": "taken@example.com"}, 409, "already has it"),
        ({"is_active": "maybe"}, 422, "must be"),
    ],
)
def test_a_wrong_value_is_shown_again_with_what_is_wrong(
    tenant: Tenant, form: dict[str, str], status: int, said: str
) -> None:
    list_id = tenant.add_list(fields=FULL_FIELDS)
    tenant.new_contact(list_id, email="taken@example.com")
    made = tenant.new_contact(list_id, email="ann@example.com", last_name="Lee")
    browser = signed_in(tenant)
    for path in (path_of(list_id, made["id"]), f"{PATH}/{list_id}/contacts"):
        answer = browser.post(path, last_name="Kim", **form)
        assert answer.status_code == status
        assert said in words(answer)
        assert 'name="last_name" value="Kim"' in answer.text
        assert "<script>" not in answer.text
    row = contact(tenant, made["id"])
    assert row is not None
    assert row.values == {"last_name": "Lee"}
    assert acts(tenant) == []


def test_an_address_is_unsubscribed_and_resubscribed_in_place(tenant: Tenant) -> None:
    list_id, ann = tenant.add_list(), new_email("ann")
    contact_id = tenant.new_contact(list_id, email=ann)["id"]
    path, browser = path_of(list_id, contact_id), signed_in(tenant)
    assert f"Unsubscribe {ann} from the list" in words(browser.get(path))
    assert browser.confirm(f"{path}/subscription", kind="email", subscribed="false").status_code == 303
    with tenant.services.database.read() as session:
        criteria = Unsubscriber.account_id == tenant.id
        assert session.execute(select(Unsubscriber.address, Unsubscriber.list_id).where(criteria)).all() == [
            (ann, list_id)
        ]
    assert f"Resubscribe {ann}" in words(browser.get(path))
    browser.confirm(f"{path}/subscription", kind="email", subscribed="true")
    row = contact(tenant, contact_id)
    assert row is not None
    assert row.subscribed_email
    for kind in ("mobile", "is_active", ""):
        answer = browser.post(f"{path}/subscription", kind=kind, subscribed="true")
        assert answer.status_code == 422
        assert f"The contact has no address {kind!r}." in words(answer)
    assert [(action, fields[1:]) for action, _, fields in acts(tenant)] == [("contact.updated", ["subscribed"])] * 2


def test_an_empty_form_adds_no_contact(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list(fields=FULL_FIELDS), signed_in(tenant)
    refused = browser.post(f"{PATH}/{list_id}/contacts", email="", mobile="", last_name="", is_active="true")
    assert refused.status_code == 422
    assert "Enter an address or another value." in words(refused)
    with tenant.services.database.read() as session:
        assert session.scalars(select(Contact.id).where(Contact.list_id == list_id)).all() == []


def test_a_contact_is_added_and_deleted_in_place(tenant: Tenant) -> None:
    list_id, ann, browser = tenant.add_list(fields=FULL_FIELDS), new_email("ann"), signed_in(tenant)
    added = browser.post(f"{PATH}/{list_id}/contacts", email=ann, plan="gold", last_name="")
    path = added.headers["Location"]
    contact_id = int(path.rpartition("/")[2])
    row = contact(tenant, contact_id)
    assert row is not None
    assert (row.email, row.values) == (ann, {"plan": "gold"})
    assert browser.confirm(f"{path}/delete").headers["Location"] == f"{PATH}/{list_id}"
    assert contact(tenant, contact_id) is None
    assert browser.get(path).status_code == browser.post(path).status_code == 404
    (_, created, _), (_, deleted, _) = entries = acts(tenant)
    assert [entry[0] for entry in entries] == ["contact.created", "contact.deleted"]
    assert created is not None
    assert created == deleted


def test_contacts_of_a_system_list_are_for_whom_a_link_has_signed_in(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    contact_id = tenant.new_contact(list_id, email=new_email())["id"]
    with tenant.services.database.write() as transaction:
        transaction.execute(update(List).where(List.id == list_id).values(system=True))
    path, browser = path_of(list_id, contact_id), signed_in(tenant)
    assert 'method="post" action="/console/lists' not in browser.get(path).text + browser.get(f"{PATH}/{list_id}").text
    for form_path, form in (
        (path, {"first_name": "x"}),
        (f"{path}/subscription", {"kind": "email", "confirmed": "1"}),
        (f"{path}/delete", {}),
        (f"{PATH}/{list_id}/contacts", {"email": new_email()}),
    ):
        assert browser.post(form_path, **form).status_code == 422
    assert linked(tenant).post(path, first_name="Ann").status_code == 303
    row = contact(tenant, contact_id)
    assert row is not None
    assert row.values == {"first_name": "Ann"}


def test_an_operator_sees_a_contact_with_its_account(tenant: Tenant) -> None:
    list_id, address = tenant.add_list(), new_email("mine")
    contact_id = tenant.new_contact(list_id, email=address)["id"]
    path = path_of(list_id, contact_id)
    page = operator(tenant.app).get(path)
    assert address in page.text
    assert f"/console/messages?contact_id={contact_id}&amp;account={tenant.id}" in page.text
