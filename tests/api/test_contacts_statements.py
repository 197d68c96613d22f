"""A request issues as many statements for a thousand contacts as for one
(docs/development.md#fixed-number-of-statements)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.client import Client, ids
from tests.support.contacts import add_webhook, contacts_path
from tests.support.tenants import Tenant, new_email, new_mobile

Cost = Callable[[Callable[[], Any]], int]
MANY = 200


@pytest.fixture
def path(tenant: Tenant, customers: int) -> str:
    add_webhook(tenant)
    return contacts_path(customers)


@pytest.fixture
def cost(count_statements: Callable[[], Any]) -> Cost:
    """The number of statements of a request that must succeed."""

    def measure(request: Callable[[], Any]) -> int:
        with count_statements() as counted:
            response = request()
        assert response.status_code in (200, 201, 204), response.text
        return int(counted.count)

    return measure


def drafts(count: int, **attributes: Any) -> list[dict[str, Any]]:
    return [{"email": new_email(), "mobile": new_mobile(), "score": 1, **attributes} for _ in range(count)]


def test_reading_takes_a_fixed_number_of_statements(api: Client, path: str, cost: Cost) -> None:
    api.post(path, {"contacts": drafts(1)})
    cost_of_one = cost(lambda: api.get(path, {"score": 1}))
    api.post(path, {"contacts": drafts(MANY)})
    assert cost(lambda: api.get(path, {"score": 1, "limit": 1000})) == cost_of_one


@pytest.mark.parametrize("attributes", [{}, {"subscribed": {"email": False, "mobile": True}}])
def test_creating_takes_a_fixed_number_of_statements(
    api: Client, path: str, cost: Cost, attributes: dict[str, Any]
) -> None:
    cost_of_one = cost(lambda: api.post(path, {"contacts": drafts(1, **attributes)}))
    assert cost(lambda: api.post(path, {"contacts": drafts(MANY, **attributes)})) == cost_of_one


@pytest.mark.parametrize("is_subscribed", [True, False])
def test_updating_takes_a_fixed_number_of_statements(api: Client, path: str, cost: Cost, is_subscribed: bool) -> None:
    """Every attribute changes, and flags that had different values before."""
    api.post(path, {"contacts": drafts(MANY + 1, subscribed={"email": not is_subscribed, "mobile": not is_subscribed})})
    first, *others = ids(api.get(path, {"limit": 1000}))
    attributes = {
        "first_name": "x",
        "score": None,
        "is_active": False,
        "subscribed": {"email": is_subscribed, "mobile": is_subscribed},
    }
    cost_of_one = cost(lambda: api.patch(path, {"contacts": [{"id": first, "email": new_email(), **attributes}]}))
    bulk = [{"id": contact_id, **attributes} for contact_id in others]
    bulk = [{**element, "email": new_email()} for element in bulk]
    assert cost(lambda: api.patch(path, {"contacts": bulk})) == cost_of_one


def test_deleting_takes_a_fixed_number_of_statements(api: Client, path: str, cost: Cost) -> None:
    api.post(path, {"contacts": drafts(MANY + 1)})
    first, *others = ids(api.get(path, {"limit": 1000}))
    cost_of_one = cost(lambda: api.delete(path, {"id:in": str(first)}))
    assert cost(lambda: api.delete(path, {"id:in": ",".join(map(str, others))})) == cost_of_one
