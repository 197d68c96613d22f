"""Headers and other parts of responses (docs/requests.md#responses)."""

from __future__ import annotations

from flask import Flask

from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client, check_error, not_found
from tests.support.tenants import Tenant


@each("header", [None, "Basic eDp5", "Bearer unknown"])
@each("path", ["/v1", "/v1/lists", "/v1/nothing"])
def test_a_401_names_the_authentication_scheme(anon: Client, path: str, header: str | None) -> None:
    answer = anon.get(path, headers={"Authorization": header} if header else {})
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_other_answers_do_not_ask_for_authentication(api: Client) -> None:
    for answer in (api.get("/v1"), api.get("/v1/nothing"), api.post("/v1/lists", {})):
        assert "WWW-Authenticate" not in answer.headers


@each("path", ["/v1", "/v1/", "/v1/lists", "/v1/lists/"])
def test_options_and_a_wrong_method_list_the_allowed_methods_with_and_without_a_slash(api: Client, path: str) -> None:
    answer = api.request("OPTIONS", path)
    assert answer.status_code == 200
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}
    refused = api.post(path, {})
    check_error(refused, 405, "method_not_allowed")
    assert set(refused.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}


@each("coding", ["gzip", "GZIP", "br", "deflate", "zstd", "gzip, gzip", "x-made-up"])
@each("method", ["POST", "PATCH"])
def test_a_compressed_body_is_refused_with_an_explanation(
    api: Client, customers: int, method: str, coding: str
) -> None:
    headers = {"Content-Encoding": coding}
    answer = api.raw(method, f"/v1/lists/{customers}/contacts", b"\x1f\x8b\x08\x00", headers=headers)
    body = check_error(answer, 400, "invalid_request", "invalid_request")
    assert "Content-Encoding" in body["developer_message"]
    assert coding.lower() in body["developer_message"]


def test_the_identity_encoding_is_accepted(api: Client, customers: int) -> None:
    headers = {"Content-Encoding": "identity"}
    assert api.post(f"/v1/lists/{customers}/contacts", {"first_name": "Ada"}, headers=headers).status_code == 201


def test_the_error_about_a_too_large_body_names_the_limit(settings: Settings, tenant: Tenant) -> None:
    path = f"/v1/lists/{tenant.add_list()}/contacts"
    with app_with(settings, max_request_bytes=2048) as small:
        answer = Client(small, tenant.tokens["standard"]).raw("POST", path, b"x" * 2049)
    assert "2,048 bytes" in check_error(answer, 400, "invalid_request")["developer_message"]


@each("method", ["MADEUP", "PROPFIND", "M-SEARCH", "PUT", "DELETE"])
def test_an_error_names_the_method_as_it_was_sent(api: Client, method: str) -> None:
    assert check_error(api.request(method, "/v1/lists"), 405, "method_not_allowed")["method"] == method


def test_a_method_in_lower_case_is_named_in_lower_case(app: Flask, tenant: Tenant) -> None:
    answer = tenant.api.get("/v1/lists/0", environ_overrides={"REQUEST_METHOD": "get"})
    assert not_found(answer)["method"] == "get"
