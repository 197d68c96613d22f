"""The error body with its links and headers, several errors at once, and internal errors (docs/requests.md#errors)."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from app.clock import this_second
from app.db.models import Message
from app.errors import CATALOGUE
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import TIMESTAMP, Client, bad_query, check_error, invalid, not_found
from tests.support.servers import scratch_database
from tests.support.tenants import PLAIN_FIELDS, Tenant, new_email

JSON = "application/json; charset=UTF-8"


# ---------------------------------------------------------------------------------------------- the body


def test_an_error_body_has_exactly_the_documented_members(api: Client) -> None:
    answer = api.get("/v1/messages/999999999")
    body = not_found(answer)
    code = CATALOGUE["not_found"]
    assert TIMESTAMP.fullmatch(body.pop("timestamp"))
    assert body == {
        "id": answer.headers["X-Request-Id"],
        "method": "GET",
        "status": 404,
        "type": "not_found",
        "code": "not_found",
        "message": code.message,
        "developer_message": "There is no message 999999999.",
        "_links": {
            "self": {"href": "/v1/messages/999999999"},
            "error": {"href": "/docs/errors/not_found#not_found"},
        },
    }


def test_a_field_error_has_a_code_and_a_field(api: Client, customers: int) -> None:
    body = invalid(api.post(f"/v1/lists/{customers}/contacts", {"first_name": 5}), "invalid_string", field="first_name")
    assert "first_name" in body["developer_message"]
    assert body["_links"]["error"]["href"] == "/docs/errors/validation_error#invalid_string"
    assert set(body) & {"collection", "index", "fields", "_embedded"} == set()


def test_the_timestamp_is_that_of_the_answer(api: Client) -> None:
    before = this_second()
    moment = datetime.strptime(not_found(api.get("/v1/x"))["timestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert before <= moment <= this_second()


def test_every_answer_has_an_id_of_its_own(api: Client, anon: Client) -> None:
    paths = ("/v1/", "/v1/messages", "/v1/nothing", "/v2/", "/healthz", "/docs/errors", "/nothing", "/v1/?limit=x")
    answers = [client.get(path) for client in (api, anon) for path in paths]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == len(answers)


def test_a_request_id_of_the_client_is_ignored(api: Client) -> None:
    assert api.get("/v1/", headers={"X-Request-Id": "mine"}).headers["X-Request-Id"] != "mine"


def test_every_answer_of_the_api_is_json(api: Client, anon: Client) -> None:
    for path in ("/v1/", "/v1/messages", "/v1/nothing", "/v2/lists", "/nothing", "/v1/?limit=x", "/healthz"):
        for client in (api, anon):
            assert client.get(path).headers["Content-Type"] == JSON, path
    assert api.request("PUT", "/v1/messages").headers["Content-Type"] == JSON


@each("method", ["GET", "POST", "PATCH", "PUT", "DELETE"])
def test_the_method_is_the_verb_of_the_request(api: Client, method: str) -> None:
    assert not_found(api.request(method, "/v1/nothing"))["method"] == method


@each(
    "path", ["/v1/messages/abc", "/v1/a b", "/v1/é☂", '/v1/"><script>', "/v1/%", "/v1/a?b", "/v1/\x00", "/v1/a\r\nb: c"]
)
def test_the_self_link_leads_to_the_path_of_the_request(api: Client, path: str) -> None:
    raw = path.encode().decode("latin-1")
    href = not_found(api.get("/", environ_overrides={"PATH_INFO": raw}))["_links"]["self"]["href"]
    assert href.isascii()
    assert unquote(href) == path
    assert not set(href) & set(' "<>?\r\n\x00')


def test_the_self_link_has_no_query(api: Client) -> None:
    assert bad_query(api.get("/v1/messages?limit=x"), "invalid_limit")["_links"]["self"]["href"] == "/v1/messages"


def test_a_path_that_is_not_utf8_is_not_found(api: Client) -> None:
    not_found(api.get("/", environ_overrides={"PATH_INFO": "/v1/messages/\xff\xfe"}))


def test_the_error_link_leads_to_a_page_with_an_anchor(api: Client, anon: Client) -> None:
    for answer in (api.get("/v1/messages?limit=x"), anon.get("/v1/"), anon.get("/v2/"), api.get("/v1/x")):
        path, _, anchor = answer.get_json()["_links"]["error"]["href"].partition("#")
        page = anon.get(path)
        assert page.status_code == 200
        assert page.mimetype == "text/html"
        assert f'id="{anchor}"' in page.text


# ---------------------------------------------------------------------------------------------- several errors


def test_a_single_error_is_not_listed_again(api: Client) -> None:
    assert "_embedded" not in bad_query(api.get("/v1/messages?limit=x"), "invalid_limit")


def test_all_errors_are_listed_and_the_first_is_reported(api: Client, customers: int) -> None:
    elements = [{"email": new_email()}, {"email": "nope"}, {"first_name": 5}, {"is_active": "yes"}, 7]
    body = invalid(
        api.post(f"/v1/lists/{customers}/contacts", {"contacts": elements}),
        "invalid_email_address",
        collection="contacts",
        index=1,
        field="email",
    )
    listed = body["_embedded"]["errors"]
    assert [(error["code"], error["collection"], error["index"], error["field"]) for error in listed] == [
        ("invalid_email_address", "contacts", 1, "email"),
        ("invalid_string", "contacts", 2, "first_name"),
        ("invalid_boolean", "contacts", 3, "is_active"),
        ("invalid_object", "contacts", 4, None),
    ]
    for error in listed:
        assert set(error) == {"code", "message", "developer_message", "field", "collection", "index"}
        assert error["message"]
        assert error["developer_message"]


def test_errors_have_the_order_of_the_document(api: Client, customers: int) -> None:
    document = {"unknown": 1, "is_active": "x", "mobile": 5, "subscribed": {"mobile": 1, "email": 2}, "email": "x"}
    body = invalid(api.post(f"/v1/lists/{customers}/contacts", document), "unexpected_field", field="unknown")
    fields = [error["field"] for error in body["_embedded"]["errors"]]
    assert fields == ["unknown", "is_active", "mobile", "subscribed.mobile", "subscribed.email", "email"]


def test_missing_attributes_are_reported_after_present_ones(api: Client, customers: int) -> None:
    body = invalid(
        api.patch(f"/v1/lists/{customers}/contacts", {"contacts": [{"email": "x"}, {"id": "x"}]}),
        "invalid_email_address",
    )
    listed = [(error["index"], error["field"], error["code"]) for error in body["_embedded"]["errors"]]
    assert listed == [(0, "email", "invalid_email_address"), (0, "id", "required"), (1, "id", "invalid_integer")]


def test_query_errors_have_the_order_of_the_parameters(api: Client) -> None:
    body = bad_query(api.get("/v1/messages?b=1&limit=x&id=y&_tz=z&q=1&order_by=id"), "parameter_not_supported")
    codes = [error["code"] for error in body["_embedded"]["errors"]]
    assert codes == [
        "parameter_not_supported",
        "invalid_limit",
        "invalid_query_syntax",
        "invalid_time_zone",
        "text_search_not_supported",
        "invalid_order_by",
    ]


@each(("wrong", "listed"), [(99, 99), (100, 100), (101, 100), (1000, 100)])
def test_at_most_100_errors_are_listed(api: Client, customers: int, wrong: int, listed: int) -> None:
    elements = [{"email": f"bad{number}"} for number in range(wrong)]
    body = invalid(
        api.post(f"/v1/lists/{customers}/contacts", {"contacts": elements}), "invalid_email_address", index=0
    )
    assert [error["index"] for error in body["_embedded"]["errors"]] == list(range(listed))


@each("name", ["_schema", "", "0", "a.b", "__proto__", "\x00", "é" * 500])
def test_an_attribute_of_any_name_is_reported_by_its_name(api: Client, customers: int, name: str) -> None:
    answer = api.post(f"/v1/lists/{customers}/contacts", {name: 1})
    invalid(answer, "unexpected_field", field=name)


@each("value", [" ", "example.com", "ftp://example.com", "https://", "https://a b", "javascript:1"])
def test_a_malformed_web_address_is_an_invalid_url(tenant: Tenant, value: str) -> None:
    list_id = tenant.add_list("Sites", (*PLAIN_FIELDS, ("Site", "Website Address / URL")))
    invalid(tenant.api.post(f"/v1/lists/{list_id}/contacts", {"site": value}), "invalid_url", field="site")


# ---------------------------------------------------------------------------------------------- failures


@pytest.mark.both("each fails in its own way")
def test_an_unavailable_database_is_service_unavailable_without_details(
    settings: Settings, tenant: Tenant, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}"
    if settings.database_url.startswith("postgresql"):
        with scratch_database(request.getfixturevalue("postgres")) as url:
            pass
    with app_with(settings, database_url=url) as broken:
        answer = Client(broken, tenant.tokens["standard"]).get("/v1/messages")
    body = check_error(answer, 503, "service_unavailable", "service_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert body["id"] == answer.headers["X-Request-Id"]
    for detail in ("sqlite", "psycopg", "tms_test", str(tmp_path), "SELECT", "Traceback", "operational"):
        assert detail.lower() not in answer.text.lower()


def test_an_internal_error_is_logged_with_its_request_id_and_without_parameters(
    app: Flask, tenant: Tenant, settings: Settings, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    with app_with(settings) as second:
        services = second.extensions["tms"]
        table = Message.__tablename__
        with services.database.engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO hidden_{table}")
        logging.getLogger().addHandler(caplog.handler)
        try:
            answer = Client(second, tenant.tokens["standard"]).get("/v1/messages", {"name": "secret-name"})
        finally:
            with services.database.engine.begin() as connection:
                connection.exec_driver_sql(f"ALTER TABLE hidden_{table} RENAME TO {table}")
    check_error(answer, 503, "service_unavailable")
    (record,) = [logged for logged in caplog.records if logged.levelno >= logging.ERROR]
    assert record.exc_info
    assert record.request_id == answer.headers["X-Request-Id"]  # type: ignore[attr-defined]
    assert "secret-name" not in caplog.text
    assert tenant.tokens["standard"] not in caplog.text


def test_without_redis_only_the_rate_limit_is_missing(settings: Settings, tenant: Tenant) -> None:
    changed = replace(settings, redis_url="unix:///nowhere/redis.sock")
    with app_with(changed, rate_limit=None) as without_limit, app_with(changed) as with_limit:
        for application in (without_limit, with_limit):
            assert Client(application, tenant.tokens["standard"]).get("/v1/messages").status_code == 200


# ---------------------------------------------------------------------------------------------- developer messages


def test_the_message_says_what_would_be_accepted(api: Client, customers: int) -> None:
    """`developer_message` names the field, the value's problem and what would be accepted."""

    def developer_message(answer: TestResponse) -> str:
        return str(answer.get_json()["developer_message"])

    assert developer_message(api.get(f"/v1/lists/{customers}?expand=nix")) == "expand: 'nix' is not one of: contacts."
    assert developer_message(api.get("/v1/transactional-groups?expand=nix")) == (
        "expand is not possible here: 'nix' is not a resource that can be embedded."
    )
    assert developer_message(api.get(f"/v1/lists/{customers}/contacts/999999")) == (
        f"There is no contact with the id 999999 in list {customers}."
    )
    send = developer_message(
        api.post("/v1/transactional-sends", {"type": "email", "recipient": [], "list_id": customers})
    )
    assert send.startswith("recipient is not accepted here; accepted: type, list_id, ")
    assert "recipients" in send


def test_a_key_without_the_scope_gets_its_name(tenant: Tenant, customers: int) -> None:
    answer = tenant.client("report").get(f"/v1/lists/{customers}")
    assert answer.get_json()["developer_message"] == (
        "This needs the scope list.view, which keys of the level report lack. Use a key of the level standard."
    )


def test_a_syntax_error_is_reported_with_its_place(api: Client, customers: int) -> None:
    answer = api.raw("POST", f"/v1/lists/{customers}/contacts", b'{"email": "a@b.cc",}')
    text = answer.get_json()["developer_message"]
    assert text == "The body is not valid JSON in UTF-8: trailing comma is not allowed (line 1, column 19)."
