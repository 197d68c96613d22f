"""Concurrent requests for contacts (docs/contacts.md#identifiers)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, delete, event, select, update
from werkzeug.test import TestResponse

from app.contacts import suppress
from app.contacts.create import create_contacts
from app.contacts.get_or_create import get_or_create_contacts
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.db.models import Contact, List
from app.errors import ServiceError
from app.lists.define import apply_fields, update_list
from app.lists.fields import ListSpec
from app.lists.find import get_list
from app.services import Services
from tests.support.client import Client
from tests.support.contacts import contact, contacts_path, count, entries, find
from tests.support.races import meanwhile
from tests.support.servers import PATIENCE
from tests.support.tenants import Tenant, new_email, new_mobile

THREADS = 4
Request = Callable[[], TestResponse]


def at_once(*requests: Request) -> list[TestResponse]:
    """Runs the requests in threads that start together."""
    barrier = threading.Barrier(len(requests))

    def run(request: Request) -> TestResponse:
        barrier.wait(PATIENCE)
        return request()

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(run, requests))


def statuses(responses: list[TestResponse]) -> list[int]:
    return sorted(response.status_code for response in responses)


def test_a_new_email_is_created_once(tenant: Tenant, api: Client, customers: int) -> None:
    for _ in range(10):
        email = new_email()
        responses = at_once(*[partial(api.post, contacts_path(customers), {"email": email})] * THREADS)
        assert statuses(responses) == [201, *[409] * (THREADS - 1)]
        (created,) = (response.get_json() for response in responses if response.status_code == 201)
        for refused in (response.get_json() for response in responses if response.status_code == 409):
            assert refused["fields"] == {"email": {"contact_id": created["id"]}}
        assert count(tenant, customers, email=email) == 1


def test_overlapping_bulk_requests_in_different_orders_succeed(tenant: Tenant, api: Client, customers: int) -> None:
    for _ in range(5):
        emails = [new_email() for _ in range(50)]
        bodies = [{"contacts": [{"email": email} for email in order]} for order in (emails, emails[::-1])]
        responses = at_once(*(partial(api.post, contacts_path(customers), body) for body in bodies))
        assert statuses(responses) == [204, 409]
        assert count(tenant, customers, **{"email:in": ",".join(emails)}) == 50


def test_of_a_concurrent_update_and_create_of_one_email_one_succeeds(
    tenant: Tenant, api: Client, customers: int
) -> None:
    path = contacts_path(customers)
    created = tenant.new_contact(customers, email=new_email())
    for _ in range(10):
        body = {"email": new_email()}
        responses = at_once(partial(api.patch, f"{path}/{created['id']}", body), partial(api.post, path, body))
        assert statuses(responses) in ([200, 409], [201, 409])
        assert count(tenant, customers, email=body["email"]) == 1


def test_concurrent_updates_of_different_attributes_are_all_stored(tenant: Tenant, api: Client, customers: int) -> None:
    created = tenant.new_contact(customers)
    path = f"{contacts_path(customers)}/{created['id']}"
    for number in range(10):
        bodies: list[dict[str, Any]] = [{"score": number}, {"first_name": str(number)}, {"spend": number + 0.5}]
        responses = at_once(*(partial(api.patch, path, body) for body in bodies))
        assert statuses(responses) == [200] * 3
        updated = contact(tenant, customers, created["id"])
        assert (updated["score"], updated["first_name"], updated["spend"]) == (number, str(number), number + 0.5)


def test_contacts_with_the_same_address_can_be_unsubscribed_at_once(
    tenant: Tenant, api: Client, customers: int
) -> None:
    mobile, path = new_mobile(), contacts_path(customers)
    made = [tenant.new_contact(customers, email=new_email(), mobile=mobile)["id"] for _ in range(THREADS)]
    for is_subscribed in (*(False, True) * 5, False):
        body = {"subscribed": {"mobile": is_subscribed}}
        responses = at_once(*(partial(api.patch, f"{path}/{contact_id}", body) for contact_id in made))
        assert statuses(responses) == [200] * THREADS
        assert count(tenant, customers, **{"subscribed.mobile": str(is_subscribed).lower()}) == THREADS
    assert entries(tenant) == {("mobile", mobile, customers)}


def test_deadlocked_transactions_both_succeed(tenant: Tenant, services: Services, customers: int) -> None:
    """The database aborts one of them, and it is repeated. On SQLite the second waits."""
    first, second = (tenant.new_contact(customers, score=0)["id"] for _ in range(2))
    barrier = threading.Barrier(2)
    runs: list[int] = []

    def add_one(order: tuple[int, int], transaction: Transaction) -> None:
        runs.append(order[0])
        for contact_id in order:
            statement = update(Contact).where(Contact.id == contact_id).values(email=Contact.email.concat("x"))
            transaction.execute(statement, execution_options={"synchronize_session": False})
            if services.database.is_postgresql and contact_id == order[0] and len(runs) <= 2:
                with contextlib.suppress(threading.BrokenBarrierError):
                    barrier.wait(PATIENCE)

    with services.database.write() as transaction:
        transaction.execute(update(Contact).where(Contact.list_id == customers).values(email=""))
    with ThreadPoolExecutor(2) as pool:
        orders = ((first, second), (second, first))
        list(pool.map(lambda order: services.database.transact(partial(add_one, order)), orders))
    with services.database.read() as session:
        emails = session.scalars(select(Contact.email).where(Contact.list_id == customers)).all()
    assert emails == ["xx", "xx"]
    assert len(runs) == (3 if services.database.is_postgresql else 2)


def create(transaction: Transaction, contact_list: ListSpec, email: str) -> None:
    create_contacts(transaction, contact_list, [{"email": email}])


def send_to(transaction: Transaction, contact_list: ListSpec, email: str) -> None:
    get_or_create_contacts(transaction, contact_list, "email", [email])


def move(transaction: Transaction, contact_list: ListSpec, email: str) -> None:
    contact_id = transaction.scalars(select(Contact.id).where(Contact.list_id == contact_list.id)).one()
    update_contacts(transaction, contact_list, [(contact_id, {"email": email})])


@pytest.mark.parametrize("write", [create, send_to, move])
@pytest.mark.parametrize("unsubscribes_first", [True, False])
def test_an_address_that_is_unsubscribed_while_a_contact_gets_it_is_unsubscribed(
    tenant: Tenant,
    services: Services,
    customers: int,
    write: Callable[[Transaction, ListSpec, str], None],
    unsubscribes_first: bool,
) -> None:
    """Whichever of the two commits first, the other one sees it."""
    email = new_email()
    if write is move:
        tenant.new_contact(customers)
    with services.database.read() as session:
        contact_list = get_list(session, tenant.id, customers)

    def contact_gets_it(transaction: Transaction) -> None:
        write(transaction, contact_list, email)

    def unsubscribes(transaction: Transaction) -> None:
        suppress.unsubscribe(transaction, tenant.id, "email", email, customers)

    works = [contact_gets_it, unsubscribes]
    overlap(services, *(works[::-1] if unsubscribes_first else works))
    assert count(tenant, customers, email=email, **{"subscribed.email": "false"}) == 1


def overlap(services: Services, first: Callable[[Transaction], None], second: Callable[[Transaction], None]) -> None:
    """Does the second in another transaction before the first commits."""
    with services.database.write() as transaction:
        first(transaction)
        with meanwhile(services, lambda: services.database.transact(second)):
            transaction.commit()


def identifiers_in(services: Services, list_id: int) -> list[str | None]:
    with services.database.read() as session:
        return list(session.scalars(select(Contact.identifier).where(Contact.list_id == list_id)))


def touch(transaction: Transaction, contact_list: ListSpec, _email: str) -> None:
    contact_id = transaction.scalars(select(Contact.id).where(Contact.list_id == contact_list.id)).one()
    update_contacts(transaction, contact_list, [(contact_id, {"first_name": "Ann"})])


def clear(transaction: Transaction, contact_list: ListSpec, _email: str) -> None:
    contact_id = transaction.scalars(select(Contact.id).where(Contact.list_id == contact_list.id)).one()
    update_contacts(transaction, contact_list, [(contact_id, {"email": None})])


@pytest.mark.parametrize("write", [create, send_to, move, touch, clear])
@pytest.mark.parametrize("allow_duplicates", [True, False])
@pytest.mark.parametrize("changes_first", [True, False])
def test_a_contact_that_is_written_while_its_list_changes_has_the_identifier_of_the_changed_list(
    tenant: Tenant,
    services: Services,
    write: Callable[[Transaction, ListSpec, str], None],
    allow_duplicates: bool,
    changes_first: bool,
) -> None:
    """Whichever of the two commits first, though the write has read the list before."""
    list_id, email = tenant.add_list(allow_duplicates=not allow_duplicates), new_email()
    with services.database.write() as transaction:
        contact_list = get_list(transaction, tenant.id, list_id)
        if write in (move, touch, clear):
            create(transaction, contact_list, email if write is not move else new_email())

    def contact_is_written(transaction: Transaction) -> None:
        write(transaction, contact_list, email)

    def list_changes(transaction: Transaction) -> None:
        update_list(transaction, transaction.get_one(List, list_id), {"allow_duplicates": allow_duplicates})

    works = [contact_is_written, list_changes]
    overlap(services, *(works[::-1] if changes_first else works))
    assert identifiers_in(services, list_id) == [None if allow_duplicates or write is clear else email]


@pytest.mark.parametrize("changes_first", [True, False])
def test_a_field_becomes_an_address_only_before_the_first_contact(
    tenant: Tenant, services: Services, changes_first: bool
) -> None:
    """Whichever of the two commits first, the contact has the identifier that the fields of its list make."""
    list_id, mobile = tenant.add_list(fields=(("Phone", "Mobile Phone"), ("Mail", "Text Field"))), new_mobile()
    with services.database.read() as session:
        contact_list = get_list(session, tenant.id, list_id)
    refusals: list[str] = []

    def contact_is_created(transaction: Transaction) -> None:
        create_contacts(transaction, contact_list, [{"mobile": mobile}])

    def type_changes(transaction: Transaction) -> None:
        try:
            apply_fields(transaction, transaction.get_one(List, list_id), [{"name": "Mail", "type": "Email"}])
        except ServiceError as error:
            refusals.append(error.code)

    works = [contact_is_created, type_changes]
    overlap(services, *(works[::-1] if changes_first else works))
    assert identifiers_in(services, list_id) == [None if changes_first else mobile]
    assert refusals == ([] if changes_first else ["conflict"])


def test_a_list_without_address_fields_may_forbid_duplicates(tenant: Tenant, services: Services) -> None:
    list_id = tenant.add_list(fields=(("First Name", "First Name"),), allow_duplicates=True)
    for _ in range(2):
        tenant.new_contact(list_id, first_name="Ann")
    with services.database.write() as transaction:
        assert update_list(transaction, transaction.get_one(List, list_id), {"allow_duplicates": False})


def test_an_email_is_not_created_again_while_its_list_forbids_duplicates(
    tenant: Tenant, services: Services, api: Client
) -> None:
    list_id, email = tenant.add_list(allow_duplicates=True), new_email()
    api.post(contacts_path(list_id), {"email": email})
    responses: list[TestResponse] = []
    with services.database.write() as transaction:
        update_list(transaction, transaction.get_one(List, list_id), {"allow_duplicates": False})
        with meanwhile(services, lambda: responses.append(api.post(contacts_path(list_id), {"email": email}))):
            transaction.commit()
    assert statuses(responses) == [409]
    assert count(tenant, list_id, email=email) == 1


@pytest.mark.postgresql("on SQLite nothing changes between the refusal and the look")
def test_a_conflict_with_a_contact_that_is_deleted_meanwhile_is_retried(
    tenant: Tenant, services: Services, api: Client, customers: int
) -> None:
    """The index refuses the email, and at the lookup of the existing contact there is none: the request is repeated."""
    email = new_email()
    with services.database.read() as session:
        contact_list = get_list(session, tenant.id, customers)

    def go_away(_connection: Connection) -> None:
        with services.database.write() as transaction:
            transaction.execute(delete(Contact).where(Contact.list_id == customers))

    responses: list[TestResponse] = []
    with services.database.write() as transaction:
        create_contacts(transaction, contact_list, [{"email": email}])
        with meanwhile(services, lambda: responses.append(api.post(contacts_path(customers), {"email": email}))):
            event.listen(services.database.engine, "rollback", go_away, once=True)
            transaction.commit()
    assert statuses(responses) == [201]
    assert count(tenant, customers, email=email) == 1


@pytest.mark.postgresql("on SQLite nothing changes while a send looks")
def test_a_send_creates_a_contact_that_was_deleted_meanwhile(
    tenant: Tenant, services: Services, customers: int
) -> None:
    """Another request creates the contact first, and it is deleted before the send reads it: the send creates one."""
    email = new_email()
    with services.database.read() as session:
        contact_list = get_list(session, tenant.id, customers)

    def go_away(*_: object) -> None:
        with services.database.write() as transaction:
            transaction.execute(delete(Contact).where(Contact.list_id == customers))

    contacts: list[dict[str, int]] = []
    with services.database.write() as transaction:
        create_contacts(transaction, contact_list, [{"email": email}])
        send = partial(get_or_create_contacts, contact_list=contact_list, kind="email", addresses=[email])
        with meanwhile(services, lambda: contacts.append(services.database.transact(send))):
            event.listen(services.database.engine, "after_cursor_execute", go_away, once=True)
            transaction.commit()
    (created,) = find(tenant, customers)
    assert contacts == [{email: created["id"]}]
