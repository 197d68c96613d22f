"""Keys, networks, https, and the order in which a request is checked (docs/requests.md#order-of-checks)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from werkzeug.test import TestResponse

from app.accounts.auth import new_token
from app.clock import now
from app.db.models import ApiKey
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client, check_error, conflict, not_found
from tests.support.specification import ENDPOINTS
from tests.support.tenants import Tenant, add_key, new_email, new_tenant

HTTPS = "https://localhost"


# ---------------------------------------------------------------------------------------------- order


@dataclass(frozen=True)
class Request:
    """A valid request that creates a contact; other values make it fail at a certain step."""

    token: str | None
    list_id: int
    body: bytes
    base_url: str = HTTPS
    version: str = "v1"
    client: str = "127.0.0.1"
    method: str = "POST"
    tail: str = ""
    query: str = ""

    def send(self, app: Flask) -> TestResponse:
        """Sends it and returns the answer."""
        return Client(app, self.token).raw(
            self.method,
            f"/{self.version}/lists/{self.list_id}/contacts{self.tail}",
            self.body,
            base_url=self.base_url,
            query_string=self.query,
            environ_overrides={"REMOTE_ADDR": self.client},
        )


@dataclass(frozen=True)
class OrderFixture:
    """What the steps need: an application that requires https, two accounts and an address that is in use."""

    app: Flask
    tenant: Tenant
    spent: Tenant
    list_id: int
    foreign_list: int
    taken: str

    def good(self) -> Request:
        """A request that passes every step."""
        return Request(self.tenant.tokens["standard"], self.list_id, b"{}")


@pytest.fixture(scope="module")
def world(app: Flask, settings: Settings) -> Iterator[OrderFixture]:
    """An account with one network, and another whose keys have used up their rate limit."""
    tenant = new_tenant(app, allowed_networks=["127.0.0.0/8"])
    spent = new_tenant(app, allowed_networks=["127.0.0.0/8"], rate_limit="1/hour")
    list_id, taken = tenant.add_list(), new_email()
    tenant.new_contact(list_id, email=taken)
    for level in ("standard", "limited"):
        spent.client(level).get("/v1/")
    with app_with(settings, require_https=True) as strict:
        yield OrderFixture(strict, tenant, spent, list_id, spent.add_list(), taken)


def wrong_level(world: OrderFixture, request: Request) -> Request:
    """The limited key of the account that the request comes from."""
    accounts = (world.tenant, world.spent)
    owner = next((account for account in accounts if request.token in account.tokens.values()), world.tenant)
    return replace(request, token=owner.tokens["limited"])


def used_up(world: OrderFixture, request: Request) -> Request:
    """The key of the same level of the account that has used up its rate limit."""
    level = "limited" if request.token == world.tenant.tokens["limited"] else "standard"
    return replace(request, token=world.spent.tokens[level])


FAULTS: dict[str, tuple[Any, tuple[int, str, str]]] = {
    "http": (lambda w, r: replace(r, base_url="http://localhost"), (403, "ssl_required", "ssl_required")),
    "version": (lambda w, r: replace(r, version="v2"), (400, "invalid_api_version", "invalid_api_version")),
    "key": (lambda w, r: replace(r, token=new_token()), (401, "api_key_invalid", "api_key_invalid")),
    "network": (lambda w, r: replace(r, client="192.0.2.1"), (403, "ip_restricted", "ip_restricted")),
    "rate": (used_up, (429, "too_many_requests", "too_many_requests")),
    "path": (lambda w, r: replace(r, tail="/1/nothing"), (404, "not_found", "not_found")),
    "method": (lambda w, r: replace(r, method="PUT"), (405, "method_not_allowed", "method_not_allowed")),
    "permission": (wrong_level, (403, "permission_denied", "permission_denied")),
    "id": (lambda w, r: replace(r, list_id=w.foreign_list), (404, "not_found", "not_found")),
    "query": (lambda w, r: replace(r, query="nonsense=1"), (400, "invalid_request", "parameter_not_supported")),
    "body": (lambda w, r: replace(r, body=b"{"), (400, "invalid_request", "invalid_request")),
    "schema": (
        lambda w, r: replace(r, body=b'{"email": "%s", "first_name": 5}' % w.taken.encode()),
        (422, "validation_error", "invalid_string"),
    ),
    "rule": (lambda w, r: replace(r, body=b'{"email": "%s"}' % w.taken.encode()), (409, "conflict", "conflict")),
}
"""In the order of docs/requests.md#order-of-checks: what is wrong with a request, and its answer."""


def test_the_valid_request_passes(world: OrderFixture) -> None:
    assert world.good().send(world.app).status_code == 201


@each("fault", FAULTS)
def test_each_step_can_fail(world: OrderFixture, fault: str) -> None:
    spoil, expected = FAULTS[fault]
    check_error(spoil(world, world.good()).send(world.app), *expected)


@each(("earlier", "later"), list(combinations(FAULTS, 2)))
def test_of_two_faults_the_earlier_step_answers(world: OrderFixture, earlier: str, later: str) -> None:
    request = world.good()
    # The later fault is applied first: some faults choose a body or a key, and those of the earlier one must win.
    for fault in (later, earlier):
        request = FAULTS[fault][0](world, request)
    check_error(request.send(world.app), *FAULTS[earlier][1])


# ---------------------------------------------------------------------------------------------- keys


@each("header", [None, "", "   "])
def test_an_absent_or_empty_authorization_header_is_missing(anon: Client, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    check_error(anon.get("/v1/", headers=headers), 401, "api_key_missing", "api_key_missing")


@each(
    "header",
    ["Bearer", "Bearer ", "Token {}", "Basic {}", "{}", "Bearer{}", "Bearer {}x", "Bearer {} {}", "Bearer\t{}"],
)
def test_an_authorization_header_without_a_valid_key_is_invalid(tenant: Tenant, anon: Client, header: str) -> None:
    token = tenant.tokens["standard"]
    answer = anon.get("/v1/", headers={"Authorization": header.format(token, token)})
    check_error(answer, 401, "api_key_invalid", "api_key_invalid")


@each("token", ["tms_", "\x00", "é", "\udcff", "a" * 100_000, "' OR 1=1 --"])
def test_malformed_tokens_are_invalid(app: Flask, token: str) -> None:
    raw = f"Bearer {token}".encode("utf-8", "surrogateescape").decode("latin-1")
    answer = Client(app).get("/v1/", environ_overrides={"HTTP_AUTHORIZATION": raw})
    check_error(answer, 401, "api_key_invalid")


@each("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_compared_without_case(tenant: Tenant, anon: Client, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {tenant.tokens['report']}"}
    assert anon.get("/v1/", headers=headers).status_code == 200


def test_a_key_in_the_query_is_ignored(tenant: Tenant, anon: Client) -> None:
    check_error(anon.get("/v1/", {"access_token": tenant.tokens["standard"]}), 401, "api_key_missing")


@each("days", [-1, 1, 20_000])
def test_a_key_with_an_expiry_date_is_incompatible_also_before_that_date(tenant: Tenant, days: int) -> None:
    token = add_key(tenant, "standard", expiry_time=now() + timedelta(days=days))
    check_error(Client(tenant.app, token).get("/v1/"), 401, "api_key_invalid")


def test_a_revoked_key_stops_working_at_once(tenant: Tenant) -> None:
    token = add_key(tenant, "standard")
    client = Client(tenant.app, token)
    assert client.get("/v1/").status_code == 200
    with tenant.services.database.write() as transaction:
        newest = transaction.query(ApiKey.id).order_by(ApiKey.id.desc()).limit(1).scalar_subquery()
        transaction.execute(update(ApiKey).where(ApiKey.id == newest).values(revoked_time=now()))
    check_error(client.get("/v1/"), 401, "api_key_invalid")


def test_every_method_except_options_requires_a_key(anon: Client) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE"):
        assert anon.request(method, "/v1/messages").status_code == 401, method


# ---------------------------------------------------------------------------------------------- networks

NETWORKS = ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "198.51.100.9/24"]


@each(
    ("address", "allowed"),
    [
        ("10.255.1.2", True),
        ("11.0.0.1", False),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("198.51.100.200", True),
        ("2001:db8:1::5", True),
        ("2001:db9::1", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:11.1.2.3", False),
        ("2001:db8::1%eth0", True),
        ("", False),
        ("unix:", False),
    ],
)
def test_the_client_must_be_in_a_network_of_the_account(app: Flask, address: str, allowed: bool) -> None:
    api = new_tenant(app, allowed_networks=NETWORKS).api
    answer = api.get("/v1/", environ_overrides={"REMOTE_ADDR": address})
    if allowed:
        assert answer.status_code == 200
    else:
        check_error(answer, 403, "ip_restricted", "ip_restricted")


def test_without_networks_any_client_is_accepted(api: Client) -> None:
    assert api.get("/v1/", environ_overrides={"REMOTE_ADDR": "203.0.113.5"}).status_code == 200


FORWARDED = {"X-Forwarded-For": "203.0.113.1, 10.1.2.3"}


def test_a_forwarded_address_is_ignored_without_trusted_proxies(app: Flask) -> None:
    api = new_tenant(app, allowed_networks=["10.0.0.0/8"]).api
    check_error(api.get("/v1/", headers=FORWARDED), 403, "ip_restricted")


@pytest.mark.parametrize(("hops", "status"), [(1, 200), (2, 403)])
def test_one_forwarded_address_is_trusted_per_proxy(app: Flask, settings: Settings, hops: int, status: int) -> None:
    tenant = new_tenant(app, allowed_networks=["10.0.0.0/8"])
    with app_with(settings, trusted_proxies=hops) as behind:
        assert Client(behind, tenant.tokens["report"]).get("/v1/", headers=FORWARDED).status_code == status


# ---------------------------------------------------------------------------------------------- https


@pytest.fixture(scope="module")
def strict(settings: Settings) -> Iterator[Flask]:
    """An application that requires https and trusts no proxy."""
    with app_with(settings, require_https=True) as application:
        yield application


def test_plain_http_is_refused_for_every_method_and_path(strict: Flask) -> None:
    for method in ("GET", "POST", "OPTIONS", "HEAD", "DELETE"):
        for path in ("/v1/", "/v1/lists", "/v1/nothing", "/v2/lists"):
            assert Client(strict).request(method, path).status_code == 403, (method, path)
    check_error(Client(strict).get("/v1/lists"), 403, "ssl_required", "ssl_required")


def test_https_is_accepted(strict: Flask, tenant: Tenant) -> None:
    assert Client(strict, tenant.tokens["report"]).get("/v1/", base_url=HTTPS).status_code == 200


def test_a_forwarded_scheme_is_ignored_without_trusted_proxies(strict: Flask, tenant: Tenant) -> None:
    answer = Client(strict, tenant.tokens["report"]).get("/v1/", headers={"X-Forwarded-Proto": "https"})
    check_error(answer, 403, "ssl_required")


@each(("scheme", "status"), [("https", 200), ("http", 403), ("https, http", 403)])
def test_the_scheme_forwarded_by_a_trusted_proxy_counts(
    settings: Settings, tenant: Tenant, scheme: str, status: int
) -> None:
    with app_with(settings, require_https=True, trusted_proxies=1) as behind:
        client = Client(behind, tenant.tokens["report"])
        assert client.get("/v1/", headers={"X-Forwarded-Proto": scheme}).status_code == status


def test_probes_and_pages_answer_over_http(strict: Flask) -> None:
    for path in ("/healthz", "/readyz", "/docs/errors"):
        assert Client(strict).get(path).status_code == 200, path


# ---------------------------------------------------------------------------------------------- versions


@each("path", ["/v2", "/v2/", "/v2/lists", "/v10/lists", "/v0/", "/v1.1/lists", "/v1beta/lists"])
def test_another_version_is_invalid_even_without_a_key(anon: Client, path: str) -> None:
    check_error(anon.get(path), 400, "invalid_api_version", "invalid_api_version")


@each("path", ["/", "/lists", "/version/lists", "/v", "/V1/lists", "/vx"])
def test_a_path_without_a_version_is_not_found(anon: Client, path: str) -> None:
    not_found(anon.get(path))


# ---------------------------------------------------------------------------------------------- routing


def test_options_lists_the_methods_without_a_key(anon: Client) -> None:
    answer = anon.request("OPTIONS", "/v1/messages")
    assert answer.status_code == 200
    assert {method.strip() for method in answer.headers["Allow"].split(",")} == {"GET", "HEAD", "OPTIONS"}
    assert answer.data == b""
    assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"


def test_options_of_an_unknown_path_is_not_found(anon: Client) -> None:
    not_found(anon.request("OPTIONS", "/v1/nothing"))


def test_options_of_another_version_is_invalid(anon: Client) -> None:
    check_error(anon.request("OPTIONS", "/v2/lists"), 400, "invalid_api_version")


def test_head_is_get_without_the_body(tenant: Tenant) -> None:
    message = tenant.add_message()
    for path in ("/v1/", "/v1/messages", f"/v1/messages/{message}", "/v1/messages/0", "/v1/messages?limit=x"):
        got, head = tenant.api.get(path), tenant.api.request("HEAD", path)
        assert (head.status_code, head.data) == (got.status_code, b"")
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
        if got.status_code == 200:
            assert head.headers["Content-Length"] == got.headers["Content-Length"]


def test_a_trailing_slash_is_ignored(tenant: Tenant) -> None:
    message = tenant.add_message()
    for path in ("/v1", "/v1/messages", f"/v1/messages/{message}", f"/v1/messages/{message}/content"):
        without, with_slash = tenant.api.get(path), tenant.api.get(path + "/")
        assert without.status_code == with_slash.status_code == 200
        assert without.get_json() == with_slash.get_json()


def test_a_trailing_slash_is_ignored_for_writes(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    assert tenant.api.post(f"/v1/lists/{list_id}/contacts/", {}).status_code == 201


@each("path", ["/v1//messages", "/v1/messages//", "/v1/./messages", "/v1/../v1/"])
def test_other_spellings_of_a_path_are_not_found_and_never_redirected(api: Client, path: str) -> None:
    not_found(api.get("/", environ_overrides={"PATH_INFO": path}))


@pytest.mark.parametrize("path", ["//v1/messages", "/v1//messages"])
def test_other_spellings_of_a_path_require_a_key(anon: Client, path: str) -> None:
    check_error(anon.get("/", environ_overrides={"PATH_INFO": path}), 401, "api_key_missing")


def test_a_wrong_method_lists_the_allowed_ones(api: Client) -> None:
    answer = api.request("PUT", "/v1/messages")
    check_error(answer, 405, "method_not_allowed", "method_not_allowed")
    assert {method.strip() for method in answer.headers["Allow"].split(",")} == {"GET", "HEAD", "OPTIONS"}


@each("method", ["TRACE", "FOO", "QUERY"])
def test_unknown_methods_are_not_allowed(api: Client, method: str) -> None:
    answer = api.get("/v1/messages", environ_overrides={"REQUEST_METHOD": method})
    check_error(answer, 405, "method_not_allowed")


# ---------------------------------------------------------------------------------------------- ids in paths


@each(
    "text",
    [
        "0",
        "-1",
        "+1",
        "1.5",
        "abc",
        "1e3",
        "0x1",
        " 1",
        "1 ",
        "1\n",
        "٣",
        "9" * 30,
        str(2**63),
        "%00",
        "\x00",
        "é",
        "%",
    ],
)
def test_an_id_that_is_not_of_the_account_is_not_found(api: Client, text: str) -> None:
    path = f"/v1/messages/{text}".encode().decode("latin-1")
    for tail in ("", "/content", "/sent-contacts"):
        not_found(api.get("/", environ_overrides={"PATH_INFO": path + tail}))


@each(("method", "path"), [(method, path) for method, path in ENDPOINTS if "{}" in path])
def test_the_path_is_checked_before_the_query(tenant: Tenant, other_tenant: Tenant, method: str, path: str) -> None:
    own_list, list_id = tenant.add_list(), other_tenant.add_list()
    contact = other_tenant.new_contact(list_id, email=new_email())["id"]
    foreign = {"lists": (list_id, contact), "messages": (other_tenant.add_message(),), "transactional-groups": (0,)}
    wrong = [path.format(*foreign[path.split("/")[2]])]
    if path.count("{}") == 2:
        wrong.append(path.format(own_list, contact))
    for href in wrong:
        not_found(tenant.api.raw(method, f"{href}?limit=x&nonsense=1", b"{"))


def test_a_conflict_is_reported_only_for_a_valid_request(tenant: Tenant) -> None:
    list_id, taken = tenant.add_list(), new_email()
    tenant.new_contact(list_id, email=taken)
    conflict(tenant.api.post(f"/v1/lists/{list_id}/contacts", {"email": taken}), field="email")
