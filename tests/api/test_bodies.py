"""Accepted request bodies, and the errors about others (docs/requests.md#bodies).

The last part sends invalid values for every attribute of every endpoint that writes: each answer is one that the client
can act on, never a failure of the service.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from flask import Flask

from app.http.bodies import MAX_VALUES, json_value
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client, check_error, invalid
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_mobile, new_tenant, unique


@pytest.fixture
def path(customers: int) -> str:
    """The path where contacts are created."""
    return f"/v1/lists/{customers}/contacts"


def bad_request(answer: Any) -> None:
    """Checks for a 400 without a more specific code."""
    check_error(answer, 400, "invalid_request", "invalid_request")


# ---------------------------------------------------------------------------------------------- JSON

MALFORMED = [
    b"",
    b"   \r\n\t",
    b"{",
    b"}",
    b"{'email': 1}",
    b'{"email": "a@example.com",}',
    b"hello",
    b'{"a":1} {"b":2}',
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": -Infinity}',
    b'{"a": 1e400}',
    b'{"a": 01}',
    b'{"a": .5}',
    b'{"a": +1}',
    b'{"a": 0x10}',
    b'{"first_name": "caf\xe9"}',
    b'{"first_name": "\xed\xa0\x80"}',
    b'{"first_name": "\\ud800"}',
    b'{"first_name": "\\udc00\\ud800"}',
    b'{"\\ud800": 1}',
    b'{"first_name": "a\x00b"}',
    b'{"first_name": "a\nb"}',
    b'\xef\xbb\xbf{"first_name": "a"}',
    '{"first_name": "a"}'.encode("utf-16"),
    b"\x00",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    b"// comment\n{}",
]


@each("data", MALFORMED)
def test_a_body_that_is_not_json_in_utf8_is_an_invalid_request(api: Client, path: str, data: bytes) -> None:
    bad_request(api.raw("POST", path, data))
    bad_request(api.raw("PATCH", path, data))


@each("data", [b"[]", b'"text"', b"5", b"null", b"true", b'[{"email": "a@example.com"}]', b"1.5"])
def test_json_that_is_not_an_object_is_an_invalid_object(api: Client, path: str, data: bytes) -> None:
    for method in ("POST", "PATCH"):
        assert "field" not in invalid(api.raw(method, path, data), "invalid_object")


def test_the_answer_does_not_repeat_the_body(api: Client, path: str) -> None:
    assert "secret" not in api.raw("POST", path, b'{"password": "secret" oops').text


def test_the_last_of_repeated_names_counts(api: Client, path: str) -> None:
    answer = api.raw("POST", path, b'{"first_name": 5, "first_name": "Ann"}')
    assert answer.status_code == 201
    assert answer.get_json()["first_name"] == "Ann"


def test_every_unicode_character_is_stored(api: Client, path: str) -> None:
    name = "Zoë \U0001f41d 日本 \u202e \ufffd \ue000 \U0010ffff \x7f \x01"
    answer = api.post(path, {"first_name": name})
    assert answer.status_code == 201
    assert api.get(answer.get_json()["_links"]["self"]["href"]).get_json()["first_name"] == name


# ---------------------------------------------------------------------------------------------- content types


@each(
    "content_type",
    [
        None,
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/merge-patch+json",
        "application/vnd.api+json; version=1",
    ],
)
def test_json_content_types_and_none_are_accepted(api: Client, path: str, content_type: str | None) -> None:
    assert api.raw("POST", path, b"{}", content_type).status_code == 201


@each(
    "content_type",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/jsonp",
        "json",
        "*/*",
        "; charset=utf-8",
        "image/svg+xml",
    ],
)
def test_other_content_types_are_an_invalid_request(api: Client, path: str, content_type: str) -> None:
    bad_request(api.raw("POST", path, b"{}", content_type))


def test_the_content_type_of_a_request_without_body_is_ignored(tenant: Tenant) -> None:
    assert tenant.api.get("/v1/messages", headers={"Content-Type": "text/plain"}).status_code == 200
    path = f"/v1/lists/{tenant.add_list()}/contacts?id=1"
    assert tenant.api.delete(path, headers={"Content-Type": "text/plain"}).status_code == 204


# ---------------------------------------------------------------------------------------------- size


@pytest.fixture(scope="module")
def small(settings: Settings) -> Iterator[Flask]:
    """An application that accepts bodies of up to 1,024 bytes."""
    with app_with(settings, max_request_bytes=1024) as application:
        yield application


def body_of(size: int) -> bytes:
    """A JSON object of this many bytes."""
    return b'{"first_name": "' + b"a" * (size - 18) + b'"}'


@each(("size", "status"), [(1024, 201), (1025, 400), (100_000, 400)])
def test_a_body_over_the_limit_is_an_invalid_request(small: Flask, tenant: Tenant, size: int, status: int) -> None:
    path = f"/v1/lists/{tenant.add_list()}/contacts"
    answer = Client(small, tenant.tokens["standard"]).raw("POST", path, body_of(size))
    assert answer.status_code == status
    if status == 400:
        bad_request(answer)


CHUNKED = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}


@each(("size", "status"), [(1000, 201), (1024, 201), (1025, 400), (100_000, 400)])
def test_a_body_of_unknown_length_is_limited_while_it_is_read(
    small: Flask, tenant: Tenant, size: int, status: int
) -> None:
    path = f"/v1/lists/{tenant.add_list()}/contacts"
    client = Client(small, tenant.tokens["standard"])
    # The bytes beyond the limit are white space: the part before them would be a valid body.
    body = body_of(1000).ljust(size)
    answer = client.raw("POST", path, body, environ_overrides=CHUNKED)
    assert answer.status_code == status
    if status == 400:
        assert "1,024 bytes" in answer.get_json()["developer_message"]


def test_a_body_that_ends_early_is_an_invalid_request(tenant: Tenant) -> None:
    path = f"/v1/lists/{tenant.add_list()}/contacts"
    overrides = {"wsgi.input_terminated": True, "CONTENT_LENGTH": "20"}
    bad_request(tenant.api.raw("POST", path, b"{}", environ_overrides=overrides))
    assert tenant.api.get(path, {"limit": 0}).get_json()["size"] == 0


def test_the_path_is_checked_before_the_size_limit(small: Flask, tenant: Tenant) -> None:
    answer = Client(small, tenant.tokens["standard"]).raw("POST", "/v1/lists/0/contacts", body_of(5000))
    check_error(answer, 404, "not_found")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"contacts": [' + b"[]," * MAX_VALUES + b"[]]}", "200000 values"),
        (b'{"contacts": [' + b'"",' * MAX_VALUES + b'""]}', "200000 values"),
        (b'{"a":' * (MAX_VALUES + 1), "200000 values"),
        (b'{"a": 1' + b',"a":1' * MAX_VALUES + b"}", "200000 values"),
        (b'"' * (4 * MAX_VALUES) + b"," * (MAX_VALUES + 1), "200000 values"),
    ],
)
def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(
    api: Client, path: str, body: bytes, reason: str
) -> None:
    answer = api.raw("POST", path, body)
    bad_request(answer)
    assert reason in answer.get_json()["developer_message"]


@pytest.mark.parametrize("text", ["," * MAX_VALUES, '\\"[{,' * MAX_VALUES, "\\\\"])
def test_values_within_a_string_are_not_counted(text: str) -> None:
    body = {"a": [f"{text}", 1], "b": text}
    assert json_value(orjson.dumps(body)) == body


def test_of_very_many_errors_the_first_hundred_are_reported(api: Client, path: str) -> None:
    """No further ones are created: a body of seven megabytes of unknown attributes took 25 seconds."""
    answer = api.post(path, {"email": "no", **{f"a{number}": 1 for number in range(5000)}})
    errors = answer.get_json()["_embedded"]["errors"]
    assert [error["field"] for error in errors] == ["email", *(f"a{number}" for number in range(99))]
    elements = [{"email": "no"} if number % 2 else {} for number in range(1000)]
    errors = api.post(path, {"contacts": elements}).get_json()["_embedded"]["errors"]
    assert [error["index"] for error in errors] == [*range(1, 200, 2)]


# ---------------------------------------------------------------------------------------------- queries


@each(
    "query",
    [
        "name=\xff",
        "name=%FF",
        "name=%ED%A0%80",
        "name=%00",
        "name:in=%00,%FF",
        "id=%00",
        "\xff=1",
        "%00=1",
        "=",
        "&&&",
        "=1",
        ":in=1",
        "a" * 5000,
        "name=" + "a" * 50_000,
        "id=" + "9" * 5000,
        "limit=" + "9" * 5000,
        "offset=" + "9" * 30,
        "id:in=" + "1.." * 100,
        "creation_time=9999-12-31T23:59:59-1400",
        "creation_time:in=0001-01-01..",
        "creation_time=2026-02-30",
        "name=%",
        "name=%zz",
        "fields=%00",
        "expand=%FF",
        "_tz=%00",
        "_tz=../../etc/passwd",
        "_tz=" + "A" * 5000,
    ],
)
def test_malformed_queries_are_answered(tenant: Tenant, query: str) -> None:
    message = tenant.add_message()
    for path in ("/v1/messages", f"/v1/messages/{message}", f"/v1/messages/{message}/sent-contacts", "/v1/"):
        answer = tenant.api.get(path, environ_overrides={"QUERY_STRING": query})
        assert answer.status_code in (200, 400), (path, answer.text)
        answer.get_json()


@each("query", ["name:ne=a&" * 5000, "a&" * 100_000, "&" * 5000 + "name=a&" * 201])
def test_a_query_with_too_many_parameters_is_refused(tenant: Tenant, query: str) -> None:
    answer = tenant.api.get("/v1/messages", environ_overrides={"QUERY_STRING": query})
    assert (answer.status_code, answer.get_json()["code"]) == (400, "invalid_query_syntax")


def test_parameters_after_very_many_empty_ones_count(tenant: Tenant) -> None:
    tenant.add_message(name="plain")
    answer = tenant.api.get("/v1/messages", environ_overrides={"QUERY_STRING": "&" * 5000 + "name=other"})
    assert answer.get_json()["size"] == 0


def test_bytes_that_are_not_utf8_match_no_text(tenant: Tenant) -> None:
    tenant.add_message(name="plain")
    tenant.add_message(name="%FF")
    for query in ("name=\xff", "name=%FF"):
        answer = tenant.api.get("/v1/messages", environ_overrides={"QUERY_STRING": query})
        assert answer.get_json()["size"] == 0


# ---------------------------------------------------------------------------------------------- every attribute

HUGE = "x" * 200_000
DEEP = orjson.loads(b'{"a":' * 200 + b"1" + b"}" * 200)
VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "minus one": -1,
    "64 bits": 2**63 - 1,
    "more than 64 bits": 2**63,
    "unsigned": 2**64 - 1,
    "float": 1.5,
    "whole float": 1.0,
    "huge float": 1e308,
    "tiny float": 5e-324,
    "empty string": "",
    "blank": " ",
    "text": "text",
    "number in a string": "1",
    "nul": "\x00",
    "nul within": "a\x00b",
    "line breaks": "a\r\nBcc: b@example.com",
    "bidi": "\u202e\u2066",
    "beyond the basic plane": "\U0001f41d",
    "huge string": HUGE,
    "markup": "<script>%%a:HAS%%",
    "sql": "'; DROP TABLE contacts; --",
    "empty array": [],
    "array": [1, "a", None],
    "nested arrays": [[[[]]]],
    "array of objects": [{}],
    "array of many": [{}] * 5000,
    "empty object": {},
    "object": {"email": 1, "id": 1},
    "deep object": DEEP,
    "object with odd names": {"": 1, "_schema": 1, "\x00": 1, "a" * 10_000: 1},
}
FOR_A_DATABASE = {
    *("64 bits", "more than 64 bits", "unsigned", "huge float", "tiny float", "huge string", "sql"),
    *("nul", "nul within", "bidi", "beyond the basic plane", "object with odd names"),
}
"""Values that a database may refuse or change, which are tried on both; the others on SQLite alone, since nothing
else that they meet depends on the database."""
EXTRA_BODIES: dict[str, bytes] = {
    "long name": orjson.dumps({"n" * 1_000_000: 1}),
    "many names": orjson.dumps({f"n{number}": 1 for number in range(20_000)}),
    "big integer": b'{"id": 123456789012345678901234567890, "list_id": 123456789012345678901234567890}',
    "long digits": b'{"score": 0.' + b"1" * 10_000 + b"}",
    "repeated array": b'{"contacts": [{}], "contacts": 5, "recipients": [{}], "recipients": 5}',
}


def contact_attributes() -> dict[str, Any]:
    """A contact with a valid value for every attribute."""
    return {
        "email": new_email(),
        "mobile": new_mobile(),
        "subscribed": {"email": True, "mobile": False},
        "is_active": True,
        "double_opt_in": True,
        "first_name": "Ann",
        "last_name": "Lee",
        "plan": "gold",
        "interests": "tea,cake",
        "spend": 12.5,
        "score": 3,
        "born": "1990-01-31",
        "visit": "2026-01-31T10:00:00",
        "reply_to": "text",
        "site": "https://example.com/",
    }


def email_send(list_id: int, message_id: int) -> dict[str, Any]:
    """A send with a valid value for every attribute of an email."""
    return {
        "type": "email",
        "list_id": list_id,
        "message_id": message_id,
        "group_id": None,
        "group_name": unique("group"),
        "subject": "Hi",
        "from_name": "Acme",
        "from_address": None,
        "reply_to": "reply@example.com",
        "bcc_address": None,
        "body_html": "<p>Hi</p>",
        "body_text": "Hi",
        "unsubscribe_type": None,
        "include_unsubscribed": False,
        "recipient_data_html_encoded": True,
        "recipients": [{"email": new_email(), "name": "Ann", "attachments": [attachment()]}],
        "attachments": [attachment()],
    }


def attachment() -> dict[str, str]:
    """A small file."""
    return {"type": "text/plain", "name": f"{unique('file')}.txt", "content": "aGVsbG8="}


def replaced(document: Any, value: Any) -> Iterator[Any]:
    """The document with the value in the place of each of its members in turn, and with an additional name in each
    object."""
    if isinstance(document, dict):
        yield {**document, "surprise": value}
        for name, inner in document.items():
            yield {**document, name: value}
            for changed in replaced(inner, value):
                yield {**document, name: changed}
    elif isinstance(document, list):
        for place, inner in enumerate(document):
            yield [*document[:place], value, *document[place + 1 :]]
            for changed in replaced(inner, value):
                yield [*document[:place], changed, *document[place + 1 :]]


@pytest.fixture(scope="module")
def writer(app: Flask) -> Tenant:
    """An account for all bodies of this part."""
    return new_tenant(app)


@pytest.fixture(scope="module")
def places(writer: Tenant) -> dict[str, tuple[str, str, Any]]:
    """Every endpoint that takes a body: method, path and a valid body."""
    list_id = writer.add_list("Written", (*FULL_FIELDS, ("Site", "Website Address / URL")))
    message = writer.add_message()
    contact = writer.new_contact(list_id)["id"]
    path = f"/v1/lists/{list_id}/contacts"
    return {
        "create": ("POST", path, contact_attributes()),
        "create many": ("POST", path, {"contacts": [contact_attributes()]}),
        "update": ("PATCH", f"{path}/{contact}", contact_attributes()),
        "update many": ("PATCH", path, {"contacts": [{"id": contact, **contact_attributes()}]}),
        "send": ("POST", "/v1/transactional-sends", email_send(list_id, message)),
    }


PLACES = ("create", "create many", "update", "update many", "send")
PLACES_OF_MANY = ("create many", "update many", "send")
"""Without those of one contact, which is read and stored as each of many."""


def check_answered(answer: Any, sent: Any) -> None:
    """Checks for 2xx, or for an error that describes what is wrong with the request."""
    assert answer.status_code < 500, (answer.text, orjson.dumps(sent)[:300])
    if answer.status_code >= 400:
        body = answer.get_json()
        assert body["code"]
        assert len(answer.data) < 400_000, "the answer repeats the body"


@pytest.mark.sqlite("what depends on the database is below")
@each("value", sorted(VALUES.keys() - FOR_A_DATABASE))
@each("place", PLACES_OF_MANY)
def test_any_value_in_any_place_is_answered(
    writer: Tenant, places: dict[str, tuple[str, str, Any]], place: str, value: str
) -> None:
    try_value(writer, places[place], value)


@each("value", sorted(FOR_A_DATABASE))
@each("place", PLACES_OF_MANY)
def test_a_value_that_a_database_may_refuse_is_answered(
    writer: Tenant, places: dict[str, tuple[str, str, Any]], place: str, value: str
) -> None:
    try_value(writer, places[place], value)


def try_value(writer: Tenant, request: tuple[str, str, Any], value: str) -> None:
    """Puts the value into each part of the document of the request."""
    method, path, document = request
    for body in replaced(document, VALUES[value]):
        check_answered(writer.api.raw(method, path, orjson.dumps(body)), body)


@each("body", EXTRA_BODIES)
@each("place", PLACES)
def test_unusual_bodies_are_answered(
    writer: Tenant, places: dict[str, tuple[str, str, Any]], place: str, body: str
) -> None:
    method, path, _ = places[place]
    check_answered(writer.api.raw(method, path, EXTRA_BODIES[body]), body)


@each("place", PLACES)
def test_the_valid_body_of_each_place_is_accepted(
    writer: Tenant, places: dict[str, tuple[str, str, Any]], place: str
) -> None:
    method, path, document = places[place]
    fresh = orjson.loads(orjson.dumps(document).replace(b"@example.com", b"@fresh.example"))
    answer = writer.api.raw(method, path, orjson.dumps(fresh))
    assert answer.status_code in (200, 201, 202, 204), answer.text
