"""How often a request waits for PostgreSQL (docs/benchmark.md#a-distant-database)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.services import Services
from tests.support.apps import close_database
from tests.support.client import Client, ids
from tests.support.contacts import contacts_path
from tests.support.round_trips import counted_round_trips
from tests.support.sends import SendsApi
from tests.support.tenants import new_email

PREPARED_AFTER = 7
"""Requests after which every statement is prepared on the server, which is a round trip of its own, once."""

pytestmark = pytest.mark.postgresql("SQLite runs in the process")

Ask = Callable[[], Any]


@pytest.fixture
def cost(services: Services) -> Callable[[Ask], int]:
    """The number of round trips of a request that has been made before."""

    def measure(ask: Ask) -> int:
        close_database(services)  # so that all requests use one connection, on which nothing is prepared yet
        for _ in range(PREPARED_AFTER):
            ask()
        with counted_round_trips(services.database.engine) as round_trips:
            response = ask()
            assert response.status_code in (200, 202), response.text
            return round_trips.count

    return measure


@pytest.fixture
def contact(api: Client, customers: int) -> str:
    """The path of a contact."""
    path = contacts_path(customers)
    api.post(path, {"email": new_email()})
    return f"{path}/{ids(api.get(path))[0]}"


@pytest.mark.parametrize("query", [{}, {"fields": "email"}])
def test_a_contact_is_read_in_one_round_trip_together_with_the_key(
    api: Client, contact: str, cost: Callable[[Ask], int], query: dict[str, str]
) -> None:
    assert cost(lambda: api.get(contact, query)) == 1


def test_a_send_to_one_known_contact_takes_four_round_trips(sends: SendsApi, cost: Callable[[Ask], int]) -> None:
    """The key; what the send refers to, which begins the transaction; all that it writes; the commit."""
    body = sends.email(recipients=[{"email": new_email()}])
    body["group_name"] = sends.send(body).group.name
    assert cost(lambda: sends.tenant.api.post("/v1/transactional-sends", body)) == 4
