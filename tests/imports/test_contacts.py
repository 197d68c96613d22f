"""Importing contacts, whichever way: what rows say, what is wrong with them, and what they do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select

from app.contacts.suppress import block, unsubscribe
from app.db.models import Contact, Event, TriggerFiring
from app.errors import ServiceError
from app.imports.importer import OvertakenImport
from app.privacy.forget import forget
from tests.imports.importing import (
    AT_ONCE,
    IN_SLICES,
    WAYS,
    acts,
    checked,
    contacts_of,
    imported,
    sliced,
    stored,
    tried_out,
)
from tests.support.cases import each
from tests.support.contacts import add_webhook
from tests.support.tenants import FULL_FIELDS, PLAIN_FIELDS, Tenant, new_email

HEAD = "email,mobile,first_name,plan,spend,subscribed.email,is_active\n"


@pytest.mark.parametrize("way", WAYS)
def test_missing_contacts_are_created_and_others_updated(tenant: Tenant, way: str) -> None:
    list_id = tenant.add_list(fields=FULL_FIELDS)
    tenant.new_contact(list_id, email="ann@example.com", first_name="Ann", plan="free", spend=5)
    tenant.new_contact(list_id, email="same@example.com", plan="gold")
    rows = (
        "ANN@example.com,61411111111,,gold,,,",
        "bob@example.com,,Bob,free,7.25,no,true",
        "",
        "same@example.com,,,gold",
    )
    text = HEAD + "\n".join(rows)
    kind = contacts_of(tenant, list_id)
    assert tried_out(tenant.services, kind, text, way).counts == (1, 1, 0)
    assert stored(tenant, list_id).keys() == {"ann@example.com", "same@example.com"}
    assert imported(tenant.services, kind, text, way).counts == (1, 1, 0)
    assert stored(tenant, list_id) == {
        "ANN@example.com": {"first_name": "Ann", "plan": "gold", "spend": 5},
        "same@example.com": {"plan": "gold"},
        "bob@example.com": {"first_name": "Bob", "plan": "free", "spend": 7.25},
    }
    with tenant.services.database.read() as session:
        bob = session.scalars(
            select(Contact).where(Contact.list_id == list_id, Contact.email == "bob@example.com")
        ).one()
        assert (bob.subscribed_email, bob.subscribed_mobile) == (False, True)


@pytest.mark.parametrize("way", WAYS)
def test_an_import_that_changes_nothing_is_not_in_the_audit_log(tenant: Tenant, way: str) -> None:
    list_id = tenant.add_list()
    kind = contacts_of(tenant, list_id)
    text = "email\n" + "".join(f"p{row}@example.com\n" for row in range(150))
    tried_out(tenant.services, kind, text, way)
    assert acts(tenant) == []
    for _ in range(2):
        imported(tenant.services, kind, text, way)
        assert acts(tenant) == [("list.imported", {"rows": 150})]
    imported(tenant.services, kind, f"{text}ann@example.com\nnobody\n", way)
    assert acts(tenant)[1:] == [("list.imported", {"rows": 151})]


def test_an_import_that_goes_on_has_an_entry_of_its_own_if_it_changes_anything(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    kind = contacts_of(tenant, list_id)
    text = "email\n" + "".join(f"p{row}@example.com\n" for row in range(150))
    rows, _ = checked(tenant.services, kind, text)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sliced(tenant.services, kind, rows, text).run(stop)
    assert acts(tenant) == [("list.imported", {"rows": 150})]
    again = sliced(tenant.services, kind, rows, text, resume=True)
    assert again.position.rows_done == 100
    again.run(lambda _: None)
    assert (again.position.rows_done, again.position.created) == (150, 150)
    assert acts(tenant)[1:] == [("list.imported", {"rows": 150, "rows_done_before": 100})]


def test_of_two_processes_with_the_same_import_one_goes_on(tenant: Tenant) -> None:
    kind, text = contacts_of(tenant, tenant.add_list()), "email\nann@example.com\n"
    rows, _ = checked(tenant.services, kind, text)
    first = sliced(tenant.services, kind, rows, text)
    second = sliced(tenant.services, kind, rows, text, resume=True)
    second.run(lambda _: None)
    with pytest.raises(OvertakenImport):
        first.run(lambda _: None)
    third = sliced(tenant.services, kind, rows, text, resume=True)
    sliced(tenant.services, kind, rows, text)
    with pytest.raises(OvertakenImport):
        third.run(lambda _: None)


@pytest.mark.parametrize("way", WAYS)
def test_webhooks_and_automations_learn_of_an_import_and_not_of_a_preview(tenant: Tenant, way: str) -> None:
    list_id = tenant.add_list()
    add_webhook(tenant)
    kind, text = contacts_of(tenant, list_id), "email\nann@example.com\n"
    tried_out(tenant.services, kind, text, way)
    assert heard(tenant) == ([], [])
    imported(tenant.services, kind, text, way)
    assert heard(tenant) == (["created"], ["created"])


def heard(tenant: Tenant) -> tuple[list[str], list[str]]:
    """The events and the triggers of the account."""
    with tenant.services.database.read() as session:
        events = session.scalars(select(Event.payload).where(Event.account_id == tenant.id))
        firings = session.scalars(select(TriggerFiring.action).where(TriggerFiring.account_id == tenant.id))
        return [json.loads(event)["event"] for event in events], list(firings)


@pytest.mark.parametrize("way", WAYS)
def test_mobiles_are_read_as_people_write_them_and_rows_may_be_short(tenant: Tenant, way: str) -> None:
    list_id = tenant.add_list(fields=(("Mobile", "Mobile Phone"), ("First Name", "Text Field")))
    rows = (
        *("mobile;first_name", "+61 411 111 111", "'61422222222;Bob", "'+61 (433) 333-333;Cem"),
        *("0411 111 111;", "+61 (0)411 111 111;", "61411111111.0;", "61455555555;Dan;"),
    )
    done = imported(tenant.services, contacts_of(tenant, list_id), "\n".join(rows), way)
    assert done.counts == (3, 0, 0)
    assert stored(tenant, list_id) == {
        "61411111111": {},
        "61422222222": {"first_name": "Bob"},
        "61433333333": {"first_name": "Cem"},
    }
    wrong = "mobile must be 8 to 15 digits with the country code and no leading plus, such as 61411111111."
    assert done.faults.first == [(5, wrong), (6, wrong), (7, wrong), (8, "has 3 cells, but the header has 2")]
    assert list(done.faults.lines()) == [
        f"3 rows: {wrong}",
        *("  line 5: '0411 111 111'", "  line 6: '+61 (0)411 111 111'", "  line 7: '61411111111.0'"),
        *("1 row: has 3 cells, but the header has 2", "  line 8: has 3 cells, but the header has 2"),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_cell_leaves_a_field_as_it_is_unless_empty_cells_clear(tenant: Tenant, way: str) -> None:
    list_id = tenant.add_list(fields=FULL_FIELDS)
    ann = {"email": "ann@example.com", "first_name": "Ann", "plan": "gold"}
    tenant.new_contact(list_id, **ann, subscribed={"email": False}, is_active=False)
    text = "email,first_name,plan,is_active,subscribed.email\nann@example.com,,,,\nbob@example.com\n"
    assert imported(tenant.services, contacts_of(tenant, list_id), text, way).counts == (1, 0, 0)
    assert stored(tenant, list_id)["ann@example.com"] == {"first_name": "Ann", "plan": "gold"}
    clearing = contacts_of(tenant, list_id, empty_clears=True)
    assert imported(tenant.services, clearing, text, way).counts == (0, 1, 0)
    assert stored(tenant, list_id) == {"ann@example.com": {}, "bob@example.com": {}}
    with tenant.services.database.read() as session:
        contacts = session.scalars(
            select(Contact).where(Contact.list_id == list_id, Contact.email == "ann@example.com")
        )
        after = contacts.one()
        assert (after.subscribed_email, after.is_active) == (False, False)


@pytest.mark.parametrize("way", WAYS)
def test_forgotten_people_who_had_unsubscribed_or_were_blocked_are_left_out(tenant: Tenant, way: str) -> None:
    list_id = tenant.add_list()
    off, blocked, plain = new_email(), new_email(), new_email()
    with tenant.services.database.write() as transaction:
        unsubscribe(transaction, tenant.id, "email", off, None)
        block(transaction, tenant.id, "email", blocked, "by hand")
    for address in (off, blocked, plain):
        forget(tenant.services, [tenant.id], "email", address, wait=0)
    text = f"email,subscribed.email\n{off},yes\n{blocked.upper()},yes\n{plain},yes\n"
    kind = contacts_of(tenant, list_id)
    for run in (tried_out, imported):
        assert run(tenant.services, kind, text, way).counts == (1, 0, 2)
    assert stored(tenant, list_id).keys() == {plain}


@pytest.mark.parametrize("way", WAYS)
def test_rows_with_the_same_email_match_contacts_from_the_oldest_on_where_duplicates_are_allowed(
    tenant: Tenant, way: str
) -> None:
    """A row that the contacts refuse keeps its place among them."""
    list_id = tenant.add_list(allow_duplicates=True)
    for name in ("first", "second"):
        tenant.new_contact(list_id, email="ann@example.com", first_name=name, double_opt_in=name == "first")
    kind = contacts_of(tenant, list_id)
    text = "email,first_name,double_opt_in\nann@example.com,a,no\nANN@example.com,b,\nann@example.com,c,\n"
    done = imported(tenant.services, kind, text, way)
    assert done.counts == (1, 1, 0)
    assert [line for line, _ in done.faults.first] == [2]
    with tenant.services.database.read() as session:
        names = session.scalars(
            select(Contact.values["first_name"].as_string()).where(Contact.list_id == list_id).order_by(Contact.id)
        )
        assert list(names) == ["first", "b", "c"]


def test_what_only_the_contacts_can_refuse_is_found_by_the_check(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    tenant.new_contact(list_id, email="ann@example.com", double_opt_in=True)
    text = "email,double_opt_in\nbob@example.com,no\nann@example.com,no\n"
    rows, faults = checked(tenant.services, contacts_of(tenant, list_id), text)
    assert ([row.line for row in rows], faults.rows, faults.faulty) == ([2], 2, 1)
    assert faults.refusal().startswith("line 3: double_opt_in")
    rows, faults = checked(tenant.services, contacts_of(tenant, list_id), text, done=2)
    assert (len(rows), faults.faulty) == (2, 0)


@each(
    ("text", "error"),
    [
        ("email,plan\na@example.com,gold,more\n", "line 2: has 3 cells, but the header has 2"),
        ("email,plan\na@example.com,gold\nb@example.com,silver\n", "line 3: plan must be one of the field's options"),
        ('email,first_name\na@example.com,"A\nB"\nb@example,C\n', "line 4: email must be an email address"),
        *[
            (f"email,spend\na@example.com,{text}\n", "line 2: spend must be a number.")
            for text in ("much", "1_000", " 5")
        ],
        ("email,mobile\na@example.com,12345678\n", "line 2: mobile must be 8 to 15 digits"),
        ("email\n=?utf-8?q?a?=@example.com\n", "line 2: email must be an email address"),
        ("email,is_active\na@example.com,perhaps\n", "line 2: is_active: The value must be true or false."),
        ("email,mobile\n,61411111111\n", "line 2: email is required, because it identifies the contacts of this list."),
        ("email\na@example.com\nA@example.com\n", "line 3: email: line 2 already has it."),
        ('email\n"a@example.com\n', "line 2: unexpected end of data"),
    ],
)
def test_a_faulty_row_says_what_is_wrong_with_it(tenant: Tenant, text: str, error: str) -> None:
    kind = contacts_of(tenant, tenant.add_list(fields=FULL_FIELDS))
    assert checked(tenant.services, kind, text)[1].refusal().startswith(error)


def test_faults_are_told_by_kind_with_three_examples_and_by_line_the_first_twenty(tenant: Tenant) -> None:
    text = "email,plan\ngood@example.com,\nfirst@example.com,silver\n" + "bad\x1b,\n" * 23
    _, faults = checked(tenant.services, contacts_of(tenant, tenant.add_list(fields=FULL_FIELDS)), text)
    email = "email must be an email address of at most 254 characters, such as ann@example.com."
    said = faults.refusal().split("\n  ")
    assert said[:2] == ["nothing was imported, 24 of 25 rows are faulty:", f"23 rows: {email}"]
    assert said[2:5] == [f"  line {line}: 'bad\\x1b'" for line in (4, 5, 6)]
    assert said[5].startswith("1 row: plan must be one")
    assert said[6:] == ["  line 3: 'silver'"]
    assert [line for line, _ in faults.first] == list(range(3, 23))


def test_a_list_without_addresses_takes_no_file(tenant: Tenant) -> None:
    bare = tenant.add_list(fields=(("Note", "Text Field"),))
    with pytest.raises(ServiceError, match="list_address_field_missing"):
        contacts_of(tenant, bare)


@pytest.mark.parametrize("way", WAYS)
def test_many_rows_take_as_many_statements_as_few(
    tenant: Tenant, way: str, count_statements: Callable[[], Any]
) -> None:
    list_id = tenant.add_list(fields=PLAIN_FIELDS)
    kind = contacts_of(tenant, list_id)

    def statements(numbers: range) -> int:
        text = "email,first_name\n" + "".join(f"p{row}@example.com,P\n" for row in numbers)
        with count_statements() as counter:
            assert imported(tenant.services, kind, text, way).created == len(numbers)
        return int(counter.count)

    assert statements(range(2)) == statements(range(2, 100))


@pytest.mark.parametrize("way", [AT_ONCE, IN_SLICES])
def test_more_rows_than_one_slice_are_imported(tenant: Tenant, way: str) -> None:
    list_id = tenant.add_list()
    text = "email\n" + "".join(f"p{row}@example.com\n" for row in range(1234))
    assert imported(tenant.services, contacts_of(tenant, list_id), text, way).created == 1234
    with tenant.services.database.read() as session:
        assert session.scalar(select(func.count()).where(Contact.list_id == list_id)) == 1234
