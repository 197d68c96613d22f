"""The API root (docs/endpoints.md#api-root)."""

from __future__ import annotations

from datetime import UTC, datetime

from app.accounts.auth import SCOPES
from app.clock import this_second
from tests.support.cases import each
from tests.support.client import Client, bad_query
from tests.support.tenants import Tenant, add_key


@each("level", sorted(SCOPES))
def test_every_valid_key_gets_the_scopes_of_its_level(tenant: Tenant, level: str) -> None:
    response = tenant.client(level).get("/v1/")
    assert response.status_code == 200
    assert response.get_json()["access_token_scope"] == ",".join(SCOPES[level])


def test_expiry_is_always_null(api: Client) -> None:
    assert api.get("/v1/").get_json()["access_token_expiry_time"] is None


def test_links_lead_to_the_resources(api: Client) -> None:
    links = api.get("/v1/").get_json()["_links"]
    assert {name: link["href"] for name, link in links.items()} == {
        "self": "/v1/",
        "lists": "/v1/lists",
        "messages": "/v1/messages",
        "transactional_groups": "/v1/transactional-groups",
    }
    for name in ("self", "lists", "messages", "transactional_groups"):
        assert api.get(links[name]["href"]).status_code == 200


def test_fields_and_time_zone_work_on_the_root(api: Client) -> None:
    body = api.get("/v1/", {"fields": "access_token_creation_time", "_tz": "Australia/Brisbane"}).get_json()
    assert set(body) == {"access_token_creation_time", "_links"}
    assert body["access_token_creation_time"].endswith("+1000")


def test_a_filter_is_not_supported(api: Client) -> None:
    bad_query(api.get("/v1/", {"id": 1}), "parameter_not_supported")


def test_the_root_has_exactly_the_documented_properties(tenant: Tenant) -> None:
    created = this_second()
    body = Client(tenant.app, add_key(tenant, "limited")).get("/v1/").get_json()
    assert list(body) == [
        "access_token_scope",
        "access_token_creation_time",
        "access_token_expiry_time",
        "_links",
    ]
    creation_time = datetime.strptime(body["access_token_creation_time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert created <= creation_time <= this_second()


@each("name", ["access_token_scope", "access_token_creation_time", "access_token_expiry_time"])
def test_each_field_can_be_requested_alone(api: Client, name: str) -> None:
    assert set(api.get("/v1/", {"fields": name}).get_json()) == {name, "_links"}


@each(
    ("key", "value", "code"),
    [
        ("fields", "id", "invalid_query_syntax"),
        ("expand", "lists", "invalid_query_syntax"),
        ("_tz", "Nowhere", "invalid_time_zone"),
        ("limit", "1", "parameter_not_available"),
        ("remove_unsubscribers", "any", "parameter_not_available"),
        ("q", "x", "text_search_not_supported"),
        ("order_by", "id", "invalid_order_by"),
    ],
)
def test_invalid_parameters_are_refused(api: Client, key: str, value: str, code: str) -> None:
    bad_query(api.get("/v1/", {key: value}), code, field=key)
