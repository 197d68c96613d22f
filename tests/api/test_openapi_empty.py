"""What the description forbids and what the API refuses are the same empty values (docs/openapi.md#schemas)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema_rs
import orjson
import pytest
from flask import Flask

from tests.api.test_openapi import Estate, document, new_estate
from tests.support.client import SENDS, Client
from tests.support.definitions import STANDARD, advanced, send
from tests.support.management import MANAGEMENT, SECRET, new_body
from tests.support.tenants import unique

__all__ = ["document"]
MANAGED: dict[str, dict[str, Any]] = {
    "lists": {"stop_words": ["HALT"], "offered_name": "News"},
    "messages": {"from_name": "Acme", "reply_to": "a@example.com"},
    "webhooks": {"events": ["contact"], "secrets": [{"id": "k1", "secret": SECRET}]},
    "domains": {"selector": "spring"},
    "keys": {"test": False},
}
"""Collection of what is set up -> attributes of a new one beside those that it needs."""
CODES = {"limit": "invalid_limit", "offset": "invalid_offset"}
"""Parameter -> the code of an empty value; of others it is `invalid_query_syntax`."""
Path = tuple[str | int, ...]


@pytest.fixture(scope="module")
def estate(app: Flask) -> Estate:
    return new_estate(app)


def is_allowed(document: dict[str, Any], schema: dict[str, Any], value: Any) -> bool:
    """Whether a schema of the description takes the value."""
    whole = {**schema, "components": document["components"]}
    return bool(jsonschema_rs.Draft202012Validator(whole, validate_formats=True).is_valid(value))


def test_an_empty_parameter_is_refused_where_the_description_forbids_it(
    estate: Estate, document: dict[str, Any]
) -> None:
    tried, wrong = set[str](), list[tuple[str, str, bool]]()
    for path, item in document["paths"].items():
        for parameter in item.get("get", {}).get("parameters", ()):
            name = parameter.get("name")
            if parameter.get("in") != "query" or name == "filters":
                continue
            allowed = parameter.get("allowEmptyValue") or is_allowed(document, parameter["schema"], "")
            answer = client_at(estate, path).get(path.format(**estate.ids), {name: ""})
            body = answer.get_json()
            refused = (answer.status_code, body.get("code"), body.get("field"))
            expected = (400, CODES.get(name, "invalid_query_syntax"), name)
            if name == "_tz":
                expected = (400, "invalid_time_zone", name)
            if allowed != (answer.status_code == 200) or (not allowed and refused != expected):
                wrong.append((path, name, allowed))
            if not allowed:
                tried.add(name)
    assert wrong == []
    assert tried == {"limit", "offset", "cursor", "fields", "_tz", "expand", "tag"}


def client_at(estate: Estate, path: str) -> Client:
    """A client with a key that may do all that the path offers."""
    return estate.tenant.client("manager" if path.startswith(MANAGEMENT) else "standard")


def bodies(estate: Estate) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Operations with a body that they accept, as (method, path, body)."""
    files = [{"name": "a.txt", "type": "text/plain", "content": "YQ=="}]
    recipient = {"contact_id": estate.ids["contact_id"], "code": "x", "attachments": files}
    contents = {"list_id": estate.ids["list_id"], "message_id": estate.ids["message_id"]}
    email = {"type": "email", **contents, "group_name": unique("group"), "secret_values": ["code"]}
    yield "POST", SENDS, {**email, "recipients": [recipient]}
    contact = {"plan": "gold", "subscribed": {"email": True}}
    path = f"/v1/lists/{estate.ids['list_id']}/contacts"
    yield "POST", path, {"email": f"{unique('ann')}@example.com", **contact}
    yield "POST", path, {"contacts": [{"email": f"{unique('ann')}@example.com", **contact}]}
    yield "PATCH", path, {"contacts": [{"id": estate.ids["contact_id"], **contact}]}
    yield "PATCH", f"{path}/{estate.ids['contact_id']}", contact
    yield "POST", "/v1/automations/validate", {**STANDARD, "name": unique("a"), "list": "People", "after": "1 day"}
    steps = {**advanced(send("a")), "name": unique("a"), "list": "People"}
    yield "POST", "/v1/automations/validate", {key: steps[key] for key in steps if key not in ("if", "leave_when")}
    yield "POST", f"/v1/automations/{estate.ids['automation_id']}/resume", {"held": "send"}
    for collection, further in MANAGED.items():
        yield "POST", f"{MANAGEMENT}/{collection}", {**new_body(estate.tenant, collection), **further}


EMPTY: tuple[Any, ...] = ("", " ", [])


def operation_at(document: dict[str, Any], path: str) -> str:
    """The path as the description has it."""
    paths: list[str] = list(document["paths"])
    return next(template for template in paths if re.fullmatch(re.sub(r"{\w+}", "[0-9]+", template), path))


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema, or each of its choices, without references."""
    if "$ref" in schema:
        return resolved(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    choices = schema.get("anyOf", schema.get("oneOf"))
    return [alternative for choice in choices for alternative in resolved(document, choice)] if choices else [schema]


def places(
    document: dict[str, Any], schema: dict[str, Any], value: Any, path: Path = ()
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """All attributes that the schema names, and elements of arrays in the body, each with its schema."""
    for alternative in resolved(document, schema):
        for name, inner in alternative.get("properties", {}).items():
            if isinstance(value, dict):
                yield (*path, name), inner
                if name in value:
                    yield from places(document, inner, value[name], (*path, name))
        if "items" in alternative and isinstance(value, list):
            yield (*path, 0), alternative["items"]
            yield from places(document, alternative["items"], value[0], (*path, 0))


def changed(body: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    copy = deepcopy(body)
    place: Any = copy
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return copy


def located(error: dict[str, Any]) -> Path:
    """The place of an error in the body."""
    first = [error["collection"], error["index"]] if error.get("collection") is not None else []
    rest = [int(part) if part.isdigit() else part for part in (error.get("field") or "").split(".") if part]
    return (*first, *rest)


def test_an_empty_attribute_is_refused_where_the_description_forbids_it(
    estate: Estate, document: dict[str, Any]
) -> None:
    """A blank one, too, where the API refuses it as empty. What a type forbids is not tried, nor what has none: that is
    described in words."""
    wrong = []
    for method, path, body in bodies(estate):
        described = document["paths"][operation_at(document, path)][method.lower()]
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        api = client_at(estate, path)
        sent = api.raw(method, path, orjson.dumps(body))
        assert sent.status_code in (200, 201, 202, 204), (path, sent.text)
        for place, inner in places(document, schema, body):
            for value in EMPTY:
                kind = "array" if value == [] else "string"
                kinds = [alternative.get("type", ()) for alternative in resolved(document, inner)]
                if not any(kind == allowed or kind in allowed for allowed in kinds):
                    continue
                changed_body = orjson.dumps(changed(body, place, value))
                answer = api.raw(method, path, changed_body).get_json(silent=True) or {}
                errors = answer.get("_embedded", {}).get("errors") or ([answer] if "code" in answer else [])
                codes = {error["code"] for error in errors if located(error) == place}
                allowed = is_allowed(document, inner, value)
                # An attribute of another choice of bodies is refused for that reason.
                refused = "not_empty" in codes or (bool(codes - {"unexpected_field"}) and value != " ")
                if (allowed and refused) or not (allowed or codes):
                    wrong.append((method, path, place, value, sorted(codes), allowed))
    assert wrong == []
