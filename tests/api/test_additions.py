"""What goes beyond the specification follows the conventions of collections, links and errors
(docs/requests.md#additions, docs/querying.md)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from tests.support.additions import Description, endpoint_of
from tests.support.automations import runs_of
from tests.support.captured import capture
from tests.support.cases import each
from tests.support.client import SENDS, Client, bad_query, check_error, invalid, not_found
from tests.support.definitions import STANDARD, create
from tests.support.description import describe
from tests.support.management import MANAGEMENT, NOUNS, new_id
from tests.support.tenants import Tenant

COLLECTION = {"offset", "limit", "size", "_links", "_embedded"}
BEYOND = 2**62
NAMES = re.compile(r"{([^}]*)}")


@dataclass(frozen=True)
class AddedPath:
    """A path that the specification lacks, with the methods that it has, and what an answer to GET has."""

    path: str
    methods: frozenset[str]
    answer: frozenset[str]

    @property
    def is_collection(self) -> bool:
        """Whether GET answers with the envelope of collections."""
        return self.answer >= COLLECTION

    def href(self, ids: Mapping[str, Any]) -> str:
        """The path of an object."""
        return NAMES.sub(lambda name: str(ids[name[1]]), self.path)


@cache
def added_paths() -> list[AddedPath]:
    """All of them, from the description of this version."""
    return list(_read_added_paths())


def _read_added_paths() -> Iterator[AddedPath]:
    described = Description(describe())
    by_path: dict[str, dict[str, Any]] = {}
    for method, path, operation in described.operations():
        by_path.setdefault(path, {})[method] = operation
    for path, operations in by_path.items():
        if any(endpoint_of(method, path) is None for method in operations):
            answers = described.answers(operations["GET"]) if "GET" in operations else ()
            names = {name for status, properties, _ in answers if status == "200" for name in properties}
            yield AddedPath(path, frozenset(operations), frozenset(names))


def collections() -> list[AddedPath]:
    return [path for path in added_paths() if path.is_collection]


def instances() -> list[AddedPath]:
    return [path for path in added_paths() if "GET" in path.methods and not path.is_collection]


def paths_with_ids() -> list[AddedPath]:
    return [path for path in added_paths() if NAMES.search(path.path)]


def posts() -> list[AddedPath]:
    return [path for path in added_paths() if "POST" in path.methods and endpoint_of("POST", path.path) is None]


@pytest.fixture
def ids(tenant: Tenant, customers: int) -> dict[str, Any]:
    """The ids of two objects of each kind: of one for the paths, and another one for the pages."""
    tenant.add_message(name="Welcome")
    automation = create(tenant, {**STANDARD, "list": str(customers)})
    create(tenant, {**STANDARD, "name": "Another", "list": str(customers)})
    for name in ("ann", "ben"):
        tenant.new_contact(customers, email=f"{name}@example.com")
    content = {"type": "email", "list_id": customers, "group_name": "First", "subject": "Hello", "body_text": "Hello"}
    content["tags"] = ["first second"]
    body = {**content, "recipients": [{"email": "ann@example.com"}, {"email": "ben@example.com"}]}
    answer = tenant.api.post(SENDS, body)
    assert answer.status_code == 202, answer.text
    capture(tenant, "ben@example.com")
    for state in ("unsubscribed", "blocked"):
        assert tenant.api.post("/v1/suppressions", {"state": state, "email": "ann@example.com"}).status_code == 201
    managed = {f"{name}_id": new_id(tenant, collection) for collection, name in NOUNS.items() for _ in range(2)}
    return {
        **managed,
        "secret_id": "k1",
        "list_id": customers,
        "automation_id": automation,
        "run_id": runs_of(tenant.services, automation)[0].id,
        "captured_id": capture(tenant, "ann@example.com"),
        "tag": "first%20second",
        "uuid": answer.get_json()["_embedded"]["recipients"][0]["uuid"],
    }


def client_of(tenant: Tenant, added: AddedPath) -> Client:
    """A client with a key that may do all that the path offers."""
    return tenant.client("manager" if added.path.startswith(MANAGEMENT) else "standard")


def answer_to(api: Client, path: str, query: str = "") -> dict[str, Any]:
    """The body of a successful answer."""
    answer = api.get(f"{path}?{query}" if query else path)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.get_json()
    return body


def items(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a page, whatever they are called."""
    ((_, every),) = page["_embedded"].items()
    return list(every)


@each("added", collections)
def test_a_collection_has_the_envelope_and_pages(tenant: Tenant, ids: dict[str, Any], added: AddedPath) -> None:
    api = client_of(tenant, added)
    path = added.href(ids)
    page = answer_to(api, path)
    assert set(page) == COLLECTION
    assert (page["offset"], page["limit"], page["size"]) == (0, 100, len(items(page)))
    assert page["_links"] == {"self": {"href": path}}
    assert len(items(page)) >= 2
    first = answer_to(api, path, "limit=1")
    assert [items(first), first["size"]] == [items(page)[:1], 1]
    assert items(answer_to(api, first["_links"]["next"]["href"])) == items(page)[1:2]
    assert items(answer_to(api, path, "limit=1&offset=1")) == items(page)[1:2]
    counted = answer_to(api, path, "limit=0")
    assert [items(counted), counted["size"]] == [[], len(items(page))]


@each("added", collections)
def test_every_item_links_to_itself(tenant: Tenant, ids: dict[str, Any], added: AddedPath) -> None:
    """What has no path of its own links to the query that finds it alone."""
    api = client_of(tenant, added)
    for item in items(answer_to(api, added.href(ids))):
        href = item["_links"]["self"]["href"]
        if "?" in href:
            assert items(answer_to(api, href)) == [item]
        else:
            assert answer_to(api, href)["_links"]["self"] == {"href": href}


@each("added", collections)
def test_a_collection_takes_the_common_parameters(tenant: Tenant, ids: dict[str, Any], added: AddedPath) -> None:
    api = client_of(tenant, added)
    path = added.href(ids)
    (item, *_) = items(answer_to(api, path))
    name = next(iter(item))
    assert set(items(answer_to(api, path, f"fields={name}"))[0]) == {name, "_links"}
    assert items(answer_to(api, path, f"{name}={item[name]}")) == [item]
    assert item not in items(answer_to(api, path, f"{name}:ne={item[name]}"))
    times = {
        name for name, value in items(answer_to(api, path, "_tz=Australia/Brisbane"))[0].items() if _is_time(value)
    }
    assert times == {name for name, value in item.items() if isinstance(value, str) and name.endswith("_time")}


def _is_time(value: object) -> bool:
    return isinstance(value, str) and value.endswith("+1000")


@each("added", collections)
def test_a_collection_refuses_what_every_collection_refuses(
    tenant: Tenant, ids: dict[str, Any], added: AddedPath
) -> None:
    api = client_of(tenant, added)
    path = added.href(ids)
    (item, *_) = items(answer_to(api, path))
    name = next(iter(item))
    for query, code in (
        ("nonsense=1", "parameter_not_supported"),
        ("remove_unsubscribers=any", "parameter_not_available"),
        ("q=hello", "text_search_not_supported"),
        (f"order_by={name}", "invalid_order_by"),
        ("limit=1001", "invalid_limit"),
        ("limit=-1", "invalid_limit"),
        ("offset=-1", "invalid_offset"),
        ("fields=nonsense", "invalid_query_syntax"),
        ("cursor=nonsense", "invalid_query_syntax"),
        ("_tz=Nowhere", "invalid_time_zone"),
        (f"{name}:gt=1", "invalid_operator"),
        (f"{name}:in={item[name]},,", "invalid_filter_list"),
    ):
        bad_query(api.get(f"{path}?{query}"), code)


@each("added", instances)
def test_an_instance_links_to_itself_and_takes_the_common_parameters(
    tenant: Tenant, ids: dict[str, Any], added: AddedPath
) -> None:
    api = client_of(tenant, added)
    path = added.href(ids)
    whole = answer_to(api, path)
    assert whole["_links"]["self"] == {"href": path}
    name = next(iter(whole))
    assert set(answer_to(api, path, f"fields={name}")) == {name, "_links"}
    bad_query(api.get(f"{path}?fields=nonsense"), "invalid_query_syntax", field="fields")
    bad_query(api.get(f"{path}?_tz=Nowhere"), "invalid_time_zone")
    bad_query(api.get(f"{path}?nonsense=1"), "parameter_not_supported", field="nonsense")
    bad_query(api.get(f"{path}?{name}=1"), "parameter_not_available", field=name)


@each("added", paths_with_ids)
def test_an_unknown_id_is_not_found(
    tenant: Tenant, other_tenant: Tenant, ids: dict[str, Any], added: AddedPath
) -> None:
    """Each id of the path: one that nothing has, one that is none, and all of them for another account. A wrong query
    or body makes no difference, except for a tag: what was counted of it depends on the zone that the query names."""
    api, names = client_of(tenant, added), NAMES.findall(added.path)
    further = [] if "tag" in names else [("?nonsense=1", b"{")]
    for query, body in ("", b""), *further:
        for name in names:
            for value in (str(uuid.uuid4()) if name == "uuid" else BEYOND, "nonsense", -1):
                wrong = added.href({**ids, name: value})
                for method in added.methods:
                    not_found(api.request(method, wrong + query, data=body))
        for method in added.methods:
            not_found(client_of(other_tenant, added).request(method, added.href(ids) + query, data=body))


@each("added", added_paths)
def test_a_path_tells_its_methods(tenant: Tenant, anon: Client, ids: dict[str, Any], added: AddedPath) -> None:
    api = client_of(tenant, added)
    path = added.href(ids)
    methods = added.methods | {"OPTIONS"} | ({"HEAD"} if "GET" in added.methods else set())
    assert set(anon.request("OPTIONS", path).headers["Allow"].split(", ")) == methods
    for method in {"GET", "POST", "PATCH", "PUT", "DELETE"} - methods:
        answer = api.request(method, path)
        check_error(answer, 405, "method_not_allowed")
        assert set(answer.headers["Allow"].split(", ")) == methods
    for method in added.methods:
        check_error(anon.request(method, path), 401, "api_key_missing")


@each("added", added_paths)
def test_an_error_has_the_path_and_the_page_of_its_code(tenant: Tenant, ids: dict[str, Any], added: AddedPath) -> None:
    api = client_of(tenant, added)
    path = added.href(ids)
    for method in added.methods:
        body = bad_query(api.request(method, f"{path}/?nonsense=1"), "parameter_not_supported", field="nonsense")
        assert body["_links"]["self"]["href"].rstrip("/") == path
        assert api.get(body["_links"]["error"]["href"]).status_code == 200


@each("added", posts)
def test_a_post_reads_its_body_as_every_other(tenant: Tenant, ids: dict[str, Any], added: AddedPath) -> None:
    api = client_of(tenant, added)
    path = added.href(ids)
    check_error(api.raw("POST", path, b"{"), 400, "invalid_request", "invalid_request")
    check_error(api.raw("POST", path, b"{}", "text/csv"), 400, "invalid_request", "invalid_request")
    invalid(api.post(path, []), "invalid_object")
    invalid(api.post(path, {"nonsense": 1}), "unexpected_field", field="nonsense")
    bad_query(api.post(f"{path}?limit=1", {}), "parameter_not_available", field="limit")
