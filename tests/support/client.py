"""A client of the application for one key: real requests through the whole WSGI stack."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
from flask import Flask
from werkzeug.test import TestResponse

from app.errors import CATALOGUE
from tests.support import coverage

Params = Mapping[str, Any] | Sequence[tuple[str, Any]] | None
SENDS = "/v1/transactional-sends"
TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
PLAIN_PATH = re.compile(r"(/[\w.~-]+)+", re.ASCII)
"""A path of which the link to itself is the same text; others have tests of their own."""
ERROR_MEMBERS = {"code", "message", "developer_message", "field", "collection", "index"}
"""What an error body says of each error."""
OWN_MEMBERS = ("timestamp", "fields", "_embedded")
"""Members of an error body that have tests of their own."""


@dataclass(frozen=True)
class Client:
    """Requests with one key; `token=None` sends no Authorization header."""

    app: Flask
    token: str | None = None

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> TestResponse:
        """One request; `headers` are added to that of the key."""
        all_headers = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        all_headers.update(headers or {})
        query = list(params.items()) if isinstance(params, Mapping) else params
        if query is not None:
            options["query_string"] = _encoded(query)
        answer = self.app.test_client().open(path, method=method, headers=all_headers, **options)
        coverage.note(answer)
        return answer

    def get(self, path: str, params: Params = None, **options: Any) -> TestResponse:
        return self.request("GET", path, params=params, **options)

    def post(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.raw("POST", path, orjson.dumps(body), **options)

    def patch(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.raw("PATCH", path, orjson.dumps(body), **options)

    def delete(self, path: str, params: Params = None, **options: Any) -> TestResponse:
        return self.request("DELETE", path, params=params, **options)

    def raw(
        self, method: str, path: str, data: bytes, content_type: str | None = "application/json", **options: Any
    ) -> TestResponse:
        """Sends bytes as they are."""
        if content_type is not None:
            options["content_type"] = content_type
        return self.request(method, path, data=data, **options)


def _encoded(pairs: Sequence[tuple[str, Any]]) -> str:
    return urlencode([(key, str(value)) for key, value in pairs])


# ---------------------------------------------------------------------------------------------- what is expected


def check_error(
    response: TestResponse, status: int, type_: str, code: str | None = None, **where: Any
) -> dict[str, Any]:
    """Checks the status, type, code and location of an error response, and that the rest of its body follows from them
    (docs/requests.md#errors); returns the body."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.get_json()
    assert (body["status"], body["type"]) == (status, type_), body
    if code is not None:
        assert body["code"] == code, body
    for name, value in where.items():
        assert body.get(name) == value, body
    _check_envelope(response, body)
    return body


def _check_envelope(response: TestResponse, body: Mapping[str, Any]) -> None:
    """Each member of an error body beside the errors themselves is what the request and the code of the first error
    make it, and there is no other member."""
    first: dict[str, Any] = {name: body[name] for name in ERROR_MEMBERS if name in body}
    code, sent = CATALOGUE[body["code"]], response.request.environ
    href = sent["PATH_INFO"] if PLAIN_PATH.fullmatch(sent["PATH_INFO"]) else body["_links"]["self"]["href"]
    assert {name: value for name, value in body.items() if name not in (*OWN_MEMBERS, *ERROR_MEMBERS)} == {
        "id": response.headers["X-Request-Id"],
        "method": sent["REQUEST_METHOD"],
        "status": code.status,
        "type": code.type,
        "_links": {"self": {"href": href}, "error": {"href": f"/docs/errors/{code.type}#{code.code}"}},
    }
    assert TIMESTAMP.fullmatch(body["timestamp"]), body
    errors = body["_embedded"]["errors"] if "_embedded" in body else [first]
    assert ("_embedded" in body) == (len(errors) > 1), "a single error is not listed again"
    assert {name: value for name, value in errors[0].items() if value is not None} == first
    for error in errors:
        assert error.keys() <= ERROR_MEMBERS, error
        assert error["message"] == CATALOGUE[error["code"]].message
        assert error["developer_message"], error


def bad_query(response: TestResponse, code: str, **where: Any) -> dict[str, Any]:
    """400 invalid_request with a filter code."""
    return check_error(response, 400, "invalid_request", code, **where)


def invalid(response: TestResponse, code: str, **where: Any) -> dict[str, Any]:
    """422 validation_error with a code."""
    return check_error(response, 422, "validation_error", code, **where)


def conflict(response: TestResponse, **where: Any) -> dict[str, Any]:
    """409 conflict."""
    return check_error(response, 409, "conflict", **where)


def not_found(response: TestResponse) -> dict[str, Any]:
    """404 not_found."""
    return check_error(response, 404, "not_found")


def items(response: TestResponse, name: str = "contacts") -> list[dict[str, Any]]:
    """The items of a collection."""
    assert response.status_code == 200, response.text
    members: list[dict[str, Any]] = response.get_json()["_embedded"][name]
    return members


def ids(response: TestResponse, name: str = "contacts") -> list[int]:
    """The ids of the items of a collection."""
    return [item["id"] for item in items(response, name)]
