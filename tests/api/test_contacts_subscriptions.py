"""The unsubscribers list and the flags of contacts (docs/contacts.md#subscriptions)."""

from __future__ import annotations

import pytest

from tests.support.client import Client, invalid
from tests.support.contacts import contact, contacts_path, entries, find, resubscribe, unsubscribe
from tests.support.tenants import Tenant, new_email, new_mobile


@pytest.fixture
def path(customers: int) -> str:
    return contacts_path(customers)


def flag(tenant: Tenant, list_id: int, contact_id: int) -> bool:
    """Whether the contact's email is subscribed."""
    return bool(contact(tenant, list_id, contact_id)["subscribed"]["email"])


# ---------------------------------------------------------------------------------------------- writing the flags


def test_false_adds_an_unsubscriber_entry_and_true_removes_it(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    email, mobile = new_email(), new_mobile()
    created = tenant.new_contact(customers, email=email.upper(), mobile=mobile)
    api.patch(f"{path}/{created['id']}", {"subscribed": {"email": False, "mobile": False}})
    assert entries(tenant) == {("email", email, customers), ("mobile", mobile, customers)}
    assert contact(tenant, customers, created["id"])["subscribed"] == {"email": False, "mobile": False}
    api.patch(path, {"contacts": [{"id": created["id"], "subscribed": {"email": True}}]})
    assert entries(tenant) == {("mobile", mobile, customers)}
    assert contact(tenant, customers, created["id"])["subscribed"] == {"email": True, "mobile": False}


def test_false_at_creation_adds_an_unsubscriber_entry(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    first, second = new_email(), new_email()
    tenant.new_contact(customers, email=first, subscribed={"email": False})
    api.post(path, {"contacts": [{"email": second, "subscribed": {"email": False, "mobile": False}}]})
    assert entries(tenant) == {("email", first, customers), ("email", second, customers)}


def test_an_address_without_a_contact_is_remembered(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    email = new_email()
    unsubscribe(tenant, email.upper(), customers)
    invalid(api.post(f"{path}?remove_unsubscribers=list", {"email": email}), "no_subscribed_addresses")


# ---------------------------------------------------------------------------------------------- new contacts


@pytest.mark.parametrize("account_wide", [True, False])
def test_a_new_contact_follows_the_unsubscribers_list(tenant: Tenant, customers: int, account_wide: bool) -> None:
    email = new_email()
    unsubscribe(tenant, email, None if account_wide else customers)
    body = tenant.new_contact(customers, email=email, subscribed={"mobile": True})
    assert body["subscribed"] == {"email": False, "mobile": True}


def test_entries_of_other_lists_and_accounts_do_not_count(tenant: Tenant, other_tenant: Tenant, customers: int) -> None:
    email = new_email()
    unsubscribe(tenant, email, tenant.add_list())
    unsubscribe(other_tenant, email)
    assert tenant.new_contact(customers, email=email)["subscribed"]["email"] is True


@pytest.mark.parametrize("account_wide", [True, False])
def test_an_explicit_true_removes_the_entry(tenant: Tenant, customers: int, account_wide: bool) -> None:
    email = new_email()
    unsubscribe(tenant, email, None if account_wide else customers)
    assert tenant.new_contact(customers, email=email, subscribed={"email": True})["subscribed"]["email"] is True
    assert entries(tenant) == set()


# ---------------------------------------------------------------------------------------------- changed addresses


def test_the_flag_follows_the_new_address(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    gone, fine = new_email(), new_email()
    unsubscribe(tenant, gone, customers)
    created = tenant.new_contact(customers, email=fine)
    target = f"{path}/{created['id']}"
    assert api.patch(target, {"email": gone}).get_json()["subscribed"]["email"] is False
    assert api.patch(target, {"email": fine}).get_json()["subscribed"]["email"] is True
    assert entries(tenant) == {("email", gone, customers)}


def test_an_explicit_flag_applies_to_the_new_address(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    old, new = new_email(), new_email()
    created = tenant.new_contact(customers, email=old)
    body = api.patch(f"{path}/{created['id']}", {"email": new, "subscribed": {"email": False}}).get_json()
    assert (body["email"], body["subscribed"]["email"]) == (new, False)
    assert entries(tenant) == {("email", new, customers)}


def test_an_address_in_another_case_is_the_same_address(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    created = tenant.new_contact(customers, email=new_email(), subscribed={"email": False})
    body = api.patch(f"{path}/{created['id']}", {"email": created["email"].upper()}).get_json()
    assert body["subscribed"]["email"] is False


def test_a_flag_without_an_address_applies_to_the_first_address(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    created = tenant.new_contact(customers, subscribed={"email": False})
    assert created["subscribed"]["email"] is False
    assert entries(tenant) == set()
    email = new_email()
    body = api.patch(f"{path}/{created['id']}", {"email": email}).get_json()
    assert body["subscribed"]["email"] is False
    assert entries(tenant) == {("email", email, customers)}


def test_a_removed_address_resets_its_flag(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    email = new_email()
    created = tenant.new_contact(customers, email=email, subscribed={"email": False})
    target = f"{path}/{created['id']}"
    assert api.patch(target, {"email": None}).get_json()["subscribed"]["email"] is True
    assert api.patch(target, {"email": email}).get_json()["subscribed"]["email"] is False


# ---------------------------------------------------------------------------------------------- shared addresses


def test_contacts_with_the_same_address_share_its_flag(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    mobile = new_mobile()
    first, second = (tenant.new_contact(customers, email=new_email(), mobile=mobile) for _ in range(2))
    elsewhere = tenant.new_contact(tenant.add_list(), mobile=mobile)
    api.patch(f"{path}/{first['id']}", {"subscribed": {"mobile": False}})
    assert {match["id"] for match in find(tenant, customers, **{"subscribed.mobile": "false"})} == {
        first["id"],
        second["id"],
    }
    assert contact(tenant, elsewhere["list_id"], elsewhere["id"]) == elsewhere
    third = tenant.new_contact(customers, email=new_email(), mobile=mobile, subscribed={"mobile": True})
    assert {match["id"] for match in find(tenant, customers, **{"subscribed.mobile": "true"})} == {
        first["id"],
        second["id"],
        third["id"],
    }


def test_the_last_flag_for_an_address_in_a_request_counts(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    mobile = new_mobile()
    contacts = [{"mobile": mobile, "subscribed": {"mobile": is_subscribed}} for is_subscribed in (False, True, False)]
    assert api.post(path, {"contacts": [*contacts, {"mobile": mobile}]}).status_code == 204
    assert [match["subscribed"]["mobile"] for match in find(tenant, customers)] == [False] * 4
    assert entries(tenant) == {("mobile", mobile, customers)}


# ---------------------------------------------------------------------------------------------- links, command line


def test_unsubscribing_from_a_list_sets_the_flags_in_it(tenant: Tenant, customers: int) -> None:
    email = new_email()
    created = tenant.new_contact(customers, email=email)
    elsewhere = tenant.new_contact(tenant.add_list(), email=email)
    assert unsubscribe(tenant, email.upper(), customers) == 1
    assert unsubscribe(tenant, email, customers) == 0
    assert not flag(tenant, customers, created["id"])
    assert flag(tenant, elsewhere["list_id"], elsewhere["id"])
    assert resubscribe(tenant, email, customers) == 1
    assert flag(tenant, customers, created["id"])
    assert entries(tenant) == set()


def test_unsubscribing_from_the_account_sets_the_flags_in_all_lists(
    tenant: Tenant, other_tenant: Tenant, customers: int
) -> None:
    email = new_email()
    mine = [tenant.new_contact(list_id, email=email) for list_id in (customers, tenant.add_list())]
    theirs = other_tenant.new_contact(other_tenant.add_list(), email=email)
    assert unsubscribe(tenant, email) == 2
    assert unsubscribe(tenant, email) == 0
    assert [flag(tenant, created["list_id"], created["id"]) for created in mine] == [False, False]
    assert contact(other_tenant, theirs["list_id"], theirs["id"]) == theirs
    assert resubscribe(tenant, email) == 2
    assert [flag(tenant, created["list_id"], created["id"]) for created in mine] == [True, True]


def test_a_list_entry_remains_after_the_account_wide_one_is_removed(tenant: Tenant, customers: int) -> None:
    email = new_email()
    here = tenant.new_contact(customers, email=email, subscribed={"email": False})
    elsewhere = tenant.new_contact(tenant.add_list(), email=email)
    assert unsubscribe(tenant, email) == 1
    assert resubscribe(tenant, email) == 1
    assert not flag(tenant, customers, here["id"])
    assert flag(tenant, elsewhere["list_id"], elsewhere["id"])


def test_subscribing_to_one_list_does_not_subscribe_to_the_others(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    email = new_email()
    here = tenant.new_contact(customers, email=email)
    elsewhere = tenant.new_contact(tenant.add_list(), email=email)
    unsubscribe(tenant, email)
    body = api.patch(f"{path}/{here['id']}", {"subscribed": {"email": True}}).get_json()
    assert body["subscribed"]["email"] is True
    assert not flag(tenant, elsewhere["list_id"], elsewhere["id"])
    assert entries(tenant) == {("email", email, elsewhere["list_id"])}
