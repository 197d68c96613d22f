"""Importing suppressions: what rows say, what is wrong with them, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import select

from app.db.models import BlockedAddress, Contact, List, Unsubscriber
from app.errors import ServiceError
from app.imports.importer import write_at_once
from app.imports.kinds import SuppressionsOfAccount
from tests.imports.importing import acts, checked, imported, tried_out
from tests.support.tenants import Tenant


def kind_of(tenant: Tenant, state: str = "unsubscribed") -> SuppressionsOfAccount:
    return SuppressionsOfAccount(tenant.id, state)


def stored(tenant: Tenant) -> set[tuple[str, Any]]:
    """Address, and the list or the reason of all suppressions of the account."""
    off = select(Unsubscriber.address, Unsubscriber.list_id).where(Unsubscriber.account_id == tenant.id)
    blocked = select(BlockedAddress.address, BlockedAddress.reason).where(BlockedAddress.account_id == tenant.id)
    with tenant.services.database.read() as session:
        return {(row[0], row[1]) for statement in (off, blocked) for row in session.execute(statement)}


def test_rows_say_what_is_suppressed_and_faulty_ones_what_is_wrong(tenant: Tenant, other_tenant: Tenant) -> None:
    list_id, foreign = tenant.add_list("Customers"), other_tenant.add_list("Others")
    text = "\n".join(
        [
            "Address;State;List;List_id;Reason;E-Mail",
            *(
                "Ann@example.com",
                f"bob@example.com;unsubscribed;;{list_id}",
                "dan@example.com; unsubscribed ;Customers",
            ),
            *("cy@example.com;blocked;;;'=1+1", "+61 411 111 111;;;;;ignored", "'61422222222;blocked"),
            *("nobody", f"eve@example.com;;;{foreign}", "eve@example.com;;Others"),
            *(f"eve@example.com;blocked;;{list_id}", "eve@example.com;gone", ";blocked", "fay@example.com;;;;;;"),
            *(f"eve@example.com;blocked;;;{'x' * 256}", "0411 111 111", "61433333333.0"),
            "eve@example.com;blocked;;;a\0b",
        ]
    )
    kind = kind_of(tenant)
    assert tried_out(tenant.services, kind, text).created == 6
    assert (stored(tenant), acts(tenant)) == (set(), [])
    done = imported(tenant.services, kind, text)
    assert stored(tenant) == {
        *(("ann@example.com", None), ("bob@example.com", list_id), ("dan@example.com", list_id)),
        *(("cy@example.com", "=1+1"), ("61411111111", None), ("61422222222", "blocked by hand")),
    }
    mobile = "is neither an email address nor a mobile number such as 61411111111."
    assert done.faults.first == [
        (8, f"'nobody' {mobile}"),
        (9, f"The account has no list '{foreign}'."),
        (10, "The account has no list 'Others'."),
        (11, "A block applies to all lists. Leave the list out."),
        (12, "state: 'gone' is not one of unsubscribed, blocked."),
        (13, "It has no address."),
        (14, "has 7 cells, but the header has 6"),
        (15, "A reason has at most 255 characters."),
        *((16, f"'0411 111 111' {mobile}"), (17, f"'61433333333.0' {mobile}")),
        (18, "A reason must not contain U+0000 or half a surrogate pair."),
    ]
    assert acts(tenant) == [("suppression.imported", {"suppressions": 6})]


def test_what_is_suppressed_already_or_twice_in_the_file_adds_nothing(tenant: Tenant) -> None:
    kind = kind_of(tenant, "blocked")
    text = "email\nann@example.com\nANN@example.com\n"
    assert imported(tenant.services, kind, text).counts == (1, 0, 0)
    assert imported(tenant.services, kind, text).counts == (0, 0, 0)
    assert acts(tenant) == [("suppression.imported", {"suppressions": 1})]


def test_contacts_change_with_their_suppressions(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    for name in ("ann", "bob"):
        tenant.new_contact(list_id, email=f"{name}@example.com")
    text = "email,state\nann@example.com,\nbob@example.com,blocked\ncy@example.com,\n"
    assert imported(tenant.services, kind_of(tenant), text).counts == (3, 2, 0)


def test_a_row_has_one_address(tenant: Tenant) -> None:
    _, faults = checked(tenant.services, kind_of(tenant), "email,mobile\nann@example.com,61411111111\n,\n")
    assert faults.first == [(2, "It needs one address.")]
    assert kind_of(tenant).missing(["state", None]) == "The first line must name a column address, email or mobile."


def test_many_rows_take_as_many_statements_as_few(tenant: Tenant, count_statements: Callable[[], Any]) -> None:
    """However many lists they name. Lists are looked up for a thousand rows at once."""
    lists = [tenant.add_list(f"List {number}") for number in range(20)]

    def statements(numbers: range) -> int:
        rows = "".join(f"p{row}@example.com,{_target(row, lists)}\n" for row in numbers)
        with count_statements() as counter:
            assert imported(tenant.services, kind_of(tenant), f"email,state,list_id\n{rows}").created == len(numbers)
        return int(counter.count)

    assert statements(range(6)) == statements(range(6, 900))


def _target(row: int, lists: Sequence[int]) -> str:
    return ("blocked,", "unsubscribed,", f"unsubscribed,{lists[row % len(lists)]}")[row % 3]


def test_each_address_is_unsubscribed_from_its_own_list_alone(tenant: Tenant) -> None:
    first, second = tenant.add_list("First"), tenant.add_list("Second")
    contacts = {
        (list_id, name): tenant.new_contact(list_id, email=f"{name}@example.com")["id"]
        for list_id in (first, second)
        for name in ("ann", "bob")
    }
    imported(tenant.services, kind_of(tenant), f"email,list_id\nann@example.com,{first}\nbob@example.com,{second}\n")
    with tenant.services.database.read() as session:
        subscribed = {
            key: session.get_one(Contact, contact_id).subscribed_email for key, contact_id in contacts.items()
        }
    assert subscribed == {(first, "ann"): False, (first, "bob"): True, (second, "ann"): True, (second, "bob"): False}


def test_a_list_that_was_deleted_since_it_was_found_is_said_and_nothing_is_added(tenant: Tenant) -> None:
    list_id, kind = tenant.add_list("Customers"), kind_of(tenant)
    text = "address,list\nann@example.com,\nbob@example.com,Customers"
    rows, _ = checked(tenant.services, kind, text)
    with tenant.services.database.write() as transaction:
        transaction.delete(transaction.get_one(List, list_id))
    with pytest.raises(ServiceError) as refused, tenant.services.database.write() as transaction:
        write_at_once(transaction, kind, rows)
    (error,) = refused.value.errors
    assert (error.code, error.field, error.index) == ("invalid_id", "list", 1)
    assert error.developer_message == "The list 'Customers' was deleted."
    assert stored(tenant) == set()


def test_trying_out_writes_nothing(tenant: Tenant, count_statements: Callable[[], Any]) -> None:
    """Trying out waits for nobody who writes, and nobody waits for it."""
    with count_statements() as counter:
        assert tried_out(tenant.services, kind_of(tenant), "address\nann@example.com").created == 1
    assert [
        statement for statement in counter.statements if statement != "BEGIN" and not statement.startswith("SELECT")
    ] == []
