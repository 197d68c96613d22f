"""The number of a list's contacts is counted as they change (docs/querying.md#counting)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, update

from app.contacts.upsert import upsert_contacts
from app.db.database import Transaction
from app.db.models import Contact, ContactCount
from app.lists.find import get_list
from tests.cli.conftest import Cli
from tests.support.client import SENDS, conflict, ids
from tests.support.contacts import contacts_path, count
from tests.support.races import at_once
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_email, new_mobile, unique


def present(tenant: Tenant, list_id: int) -> int:
    """The number of the contacts themselves; the `size` of `limit=0` must agree."""
    statement = select(func.count()).select_from(Contact).where(Contact.list_id == list_id)
    with tenant.services.database.read() as session:
        contacts_present = session.execute(statement).scalar_one()
    assert count(tenant, list_id) == contacts_present
    return contacts_present


def drafts(number: int) -> list[dict[str, str]]:
    return [{"email": new_email(), "mobile": new_mobile()} for _ in range(number)]


def test_every_change_through_the_api_is_counted(tenant: Tenant, customers: int) -> None:
    api, path = tenant.api, contacts_path(customers)
    assert present(tenant, customers) == 0
    first = tenant.new_contact(customers, email=new_email())
    api.post(path, {"contacts": drafts(20)})
    assert present(tenant, customers) == 21
    unsubscribed = {"email": new_email()}
    api.post(path, {**unsubscribed, "subscribed": {"email": False}})
    api.post(f"{path}?remove_unsubscribers=any", {"contacts": [unsubscribed, *drafts(2)]})
    assert present(tenant, customers) == 24
    conflict(api.post(path, {"contacts": [*drafts(5), {"email": first["email"]}]}))
    assert present(tenant, customers) == 24
    some = ids(api.get(path))[:3]
    api.patch(path, {"contacts": [{"id": contact_id, "is_active": False} for contact_id in some]})
    assert present(tenant, customers) == 24
    api.delete(path, {"id:in": ",".join(map(str, [*some, *some, 2**40]))})
    api.delete(f"{path}/{first['id']}")
    api.delete(path, {"id": first["id"]})
    assert present(tenant, customers) == 20


def test_contacts_that_a_send_creates_are_counted(tenant: Tenant, customers: int) -> None:
    known_email = tenant.new_contact(customers, email=new_email())["email"]
    body = {
        "type": "email",
        "list_id": customers,
        "group_name": unique("group"),
        "subject": "A subject",
        "body_text": "A body",
        "recipients": [{"email": known_email}, *({"email": new_email()} for _ in range(3))],
    }
    assert tenant.api.post(SENDS, body).status_code == 202
    assert present(tenant, customers) == 4


def test_imports_and_deletions_on_the_command_line_are_counted(
    cli: Cli, tenant: Tenant, customers: int, tmp_path: Path
) -> None:
    emails, file = [new_email() for _ in range(4)], tmp_path / "people.csv"
    cli.text("contacts", "create", f"email={emails[0]}", "--list", "Customers")
    file.write_text("\n".join(["email", *emails]), "utf-8")
    cli.text("contacts", "import", str(file), "--list", "Customers")
    assert present(tenant, customers) == 4
    file.write_text("\n".join(["email", new_email(), "nonsense"]), "utf-8")
    cli.refused("contacts", "import", str(file), "--list", "Customers")
    cli.text("contacts", "delete", emails[0], "--list", "Customers")
    assert present(tenant, customers) == cli.json("lists", "show", "Customers")["contacts"] == 3
    cli.text("lists", "delete", "Customers", "--yes")
    with tenant.services.database.read() as session:
        assert session.scalars(select(ContactCount.slot).where(ContactCount.list_id == customers)).all() == []


def test_a_rollback_counts_nothing(tenant: Tenant, customers: int) -> None:
    def create(transaction: Transaction) -> None:
        upserted = upsert_contacts(transaction, get_list(transaction, tenant.id, customers), drafts(3))
        assert upserted.created == 3
        raise RuntimeError

    with pytest.raises(RuntimeError):
        tenant.services.database.transact(create)
    assert present(tenant, customers) == 0


def test_writers_at_the_same_moment_are_all_counted(tenant: Tenant, customers: int) -> None:
    api, path = tenant.api, contacts_path(customers)
    api.post(path, {"contacts": drafts(12)})
    some = ids(api.get(path))
    creations = [lambda: api.post(path, {"contacts": drafts(5)})] * 6
    # Two of each pair delete the same contact.
    deletions = [
        lambda contact_id=contact_id: api.delete(path, {"id": contact_id}) for contact_id in some[:3] for _ in range(2)
    ]
    for response in at_once([*creations, *deletions]):
        assert response.status_code == 204
    assert present(tenant, customers) == 12 + 30 - 3


def test_counting_costs_a_request_one_statement_at_most_and_reading_no_contact(
    tenant: Tenant, customers: int, count_statements: Callable[[], StatementCounter]
) -> None:
    path = contacts_path(customers)
    with count_statements() as counted:
        tenant.api.post(path, {"contacts": drafts(1000)})
    assert len([statement for statement in counted.statements if "contact_counts" in statement]) == 1
    with count_statements() as counted:
        assert count(tenant, customers) == 1000
    assert [statement for statement in counted.statements if "FROM contacts" in statement] == []


def test_a_recount_repairs_what_was_changed_in_the_database_itself(cli: Cli, tenant: Tenant, customers: int) -> None:
    tenant.api.post(contacts_path(customers), {"contacts": drafts(5)})
    with tenant.services.database.write() as transaction:
        gone = select(Contact.id).where(Contact.list_id == customers).limit(2)
        transaction.execute(
            delete(Contact).where(Contact.id.in_(gone.scalar_subquery())),
            execution_options={"synchronize_session": False},
        )
    assert count(tenant, customers) == 5
    (row,) = cli.json("lists", "recount")
    assert (row["id"], row["counted"], row["contacts"]) == (customers, 5, 3)
    assert present(tenant, customers) == 3
    with tenant.services.database.write() as transaction:
        transaction.execute(update(ContactCount).where(ContactCount.list_id == customers).values(contacts=-7))
    (row,) = cli.json("lists", "recount")
    assert (row["counted"] < 0, row["contacts"], present(tenant, customers)) == (True, 3, 3)
