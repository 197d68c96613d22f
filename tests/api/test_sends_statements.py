"""A send issues as many statements for a hundred recipients as for one
(docs/development.md#fixed-number-of-statements)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.contacts import add_webhook
from tests.support.sends import SendsApi, file
from tests.support.tenants import PLAIN_FIELDS, new_email, new_mobile

Body = dict[str, Any]
Cost = Callable[[Body], int]
MANY = 100


@pytest.fixture
def cost(sends: SendsApi, count_statements: Callable[[], Any]) -> Cost:
    """The number of statements of a send to an existing group."""
    add_webhook(sends.tenant)
    groups = {body["type"]: sends.send(body).group.name for body in (sends.email(), sends.sms())}

    def measure(body: Body) -> int:
        body["group_name"] = groups[body["type"]]
        with count_statements() as counted:
            sends.send(body)
        return int(counted.count)

    return measure


def known_contacts(sends: SendsApi, count: int, list_id: int) -> list[Body]:
    """Contacts of the list."""
    contacts = [{"email": new_email(), "mobile": new_mobile()} for _ in range(count)]
    response = sends.tenant.api.post(f"/v1/lists/{list_id}/contacts", {"contacts": contacts})
    assert response.status_code == 204, response.text
    return contacts


@pytest.mark.parametrize("own_files", [[], [file()]])
def test_sends_to_new_contacts_take_a_fixed_number_of_statements(
    sends: SendsApi, cost: Cost, own_files: list[dict[str, str]]
) -> None:
    def body(count: int) -> Body:
        return sends.email(recipients=[{"email": new_email(), "attachments": own_files} for _ in range(count)])

    assert cost(body(1)) == cost(body(MANY)) == cost(body(1))


def test_sends_to_existing_contacts_take_a_fixed_number_of_statements(sends: SendsApi, cost: Cost) -> None:
    def body(count: int) -> Body:
        contacts = known_contacts(sends, count, sends.list_id)
        return sends.email(recipients=[{"email": contact["email"], "x": 1} for contact in contacts])

    assert cost(body(1)) == cost(body(MANY))


def test_sends_by_contact_id_take_a_fixed_number_of_statements(sends: SendsApi, cost: Cost) -> None:
    rows = sends.send(sends.email(recipients=[{"email": new_email()} for _ in range(MANY)])).recipients
    named = [{"contact_id": row.contact_id} for row in rows]
    assert cost(sends.email(recipients=named[:1])) == cost(sends.email(recipients=named))


@pytest.mark.parametrize("duplicates", [False, True])
def test_text_messages_take_a_fixed_number_of_statements(sends: SendsApi, cost: Cost, duplicates: bool) -> None:
    list_id = sends.tenant.add_list(fields=PLAIN_FIELDS, allow_duplicates=duplicates)

    def body(count: int) -> Body:
        return sends.sms(list_id=list_id, recipients=[{"mobile": new_mobile()} for _ in range(count)])

    assert cost(body(1)) == cost(body(MANY))


def test_text_messages_without_a_list_take_a_fixed_number_of_statements(sends: SendsApi, cost: Cost) -> None:
    def body(count: int) -> Body:
        return sends.sms(list_id=None, recipients=[{"mobile": new_mobile()} for _ in range(count)])

    assert cost(body(1)) == cost(body(MANY))


def test_secret_values_take_two_statements_whatever_the_number_of_recipients(sends: SendsApi, cost: Cost) -> None:
    """One draws ids, one inserts the queue entries, which takes one of its own on SQLite in any case."""
    further = 2 if sends.tenant.services.database.is_postgresql else 1

    def body(count: int, **changes: Any) -> Body:
        return sends.email(recipients=[{"email": new_email(), "code": "4711"} for _ in range(count)], **changes)

    secret = {"secret_values": ["code"]}
    assert cost(body(1)) + further == cost(body(1, **secret)) == cost(body(MANY, **secret))
