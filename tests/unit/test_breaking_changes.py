"""Which changes of a description break generated clients (docs/openapi.md#breaking-changes)."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import orjson

from tests.support.breaking_changes import breaking_changes
from tests.support.cases import each
from tests.support.description import RELEASED, describe

OLD: dict[str, Any] = orjson.loads(RELEASED.read_bytes())
SEND = "POST /v1/transactional-sends"
DECIDED: dict[str, str] = {}
"""Changes that break clients all the same, with the reason."""
CORRECTED: tuple[str, ...] = ()
"""Patterns of what the API of the last release refuses, too, though its description allows it: no client can have sent
it with success. Name the test that sends it."""


def test_this_version_breaks_no_client_of_the_last_release() -> None:
    """What to do if it must break one: make a new version of the API. The release stores its description."""
    changes = [change for change in breaking_changes(OLD, describe()) if change not in DECIDED]
    assert [change for change in changes if not any(re.fullmatch(pattern, change) for pattern in CORRECTED)] == []


def schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    schema_of_name: dict[str, Any] = document["components"]["schemas"][name]
    return schema_of_name


def operation(document: dict[str, Any], path: str, verb: str) -> dict[str, Any]:
    operation_of_path: dict[str, Any] = document["paths"][path][verb]
    return operation_of_path


def parameter(document: dict[str, Any], name: str) -> dict[str, Any]:
    parameters = operation(document, "/v1/messages", "get")["parameters"]
    matching: dict[str, Any] = next(parameter for parameter in parameters if parameter["name"] == name)
    return matching


def rename_link(new: dict[str, Any]) -> None:
    """Renames the schema `Link`, in every reference too."""
    references = orjson.dumps(new).replace(b'/schemas/Link"', b'/schemas/Reference"')
    renamed = orjson.loads(references)
    schemas = renamed["components"]["schemas"]
    schemas["Reference"] = schemas.pop("Link")
    new.clear()
    new.update(renamed)


Change = Callable[[dict[str, Any]], Any]
SENDS = "/v1/transactional-sends"

BREAKING: list[tuple[str, Change]] = [
    ("GET /v1 is gone", lambda new: new["paths"].pop("/v1")),
    (
        f"{SEND}: operationId sends.create is now send",
        lambda new: operation(new, SENDS, "post").update(operationId="send"),
    ),
    ("GET /v1/messages: query name is gone", lambda new: parameter(new, "name").update(name="title")),
    ("GET /v1/messages: query name is now required", lambda new: parameter(new, "name").update(required=True)),
    (
        "GET /v1/messages query type: the choices ['email', 'sms'] are now ['email']",
        lambda new: parameter(new, "type")["schema"].update(enum=["email"]),
    ),
    (
        "GET /v1/messages query limit: maximum 1000 is now 500",
        lambda new: parameter(new, "limit")["schema"].update(maximum=500),
    ),
    (f"{SEND} body.track_opens is gone", lambda new: schema(new, "Send")["properties"].pop("track_opens")),
    (f"{SEND} body.subject is now required", lambda new: schema(new, "Send")["required"].append("subject")),
    (
        f"{SEND} body.subject: maxLength 998 is now 100",
        lambda new: schema(new, "Send")["properties"]["subject"].update(maxLength=100),
    ),
    (
        f"{SEND} body.subject: type ['null', 'string'] is now ['string']",
        lambda new: schema(new, "Send")["properties"]["subject"].update(type="string"),
    ),
    (
        "GET /v1/transactional-groups 200._embedded.transactional-groups[].sent is gone",
        lambda new: schema(new, "Group")["properties"].pop("sent"),
    ),
    (
        "GET /v1/transactional-groups 200._embedded.transactional-groups[].sent may now be absent",
        lambda new: schema(new, "Group")["required"].remove("sent"),
    ),
    (
        "GET /v1/messages 200._embedded.messages[].name: type ['string'] is now ['null', 'string']",
        lambda new: schema(new, "Message")["properties"]["name"].update(type=["string", "null"]),
    ),
    (
        "GET /v1/messages 200._embedded.messages[].type: the choices ['email', 'sms'] are now ['email', 'sms', 'push']",
        lambda new: schema(new, "Message")["properties"]["type"]["enum"].append("push"),
    ),
    (
        "GET /v1/transactional-sends/{uuid} 200.uuid: format uuid is now None",
        lambda new: schema(new, "RecipientTimeline")["properties"]["uuid"].pop("format"),
    ),
    (
        f"{SEND} 202: header Idempotent-Replayed is gone",
        lambda new: operation(new, SENDS, "post")["responses"]["202"]["headers"].pop("Idempotent-Replayed"),
    ),
    (f"{SEND}: 409 is gone", lambda new: operation(new, SENDS, "post")["responses"].pop("409")),
    ("schema Link is gone", rename_link),
    (
        "POST events body.events[](0).list_id may now be absent",
        lambda new: schema(new, "ContactEvent")["required"].remove("list_id"),
    ),
]
COMPATIBLE: list[Change] = [
    lambda new: new["paths"].update({"/v1/more": deepcopy(new["paths"]["/v1"])}),
    lambda new: schema(new, "Message")["properties"].update(colour={"type": "string"}),
    lambda new: schema(new, "Message")["properties"]["subject"].update(type="string"),
    lambda new: schema(new, "Send")["properties"].update(colour={"type": "string"}),
    lambda new: schema(new, "Send")["properties"]["type"]["enum"].append("push"),
    lambda new: schema(new, "Send")["properties"]["subject"].update(maxLength=2000),
    lambda new: schema(new, "Send")["required"].remove("type"),
    lambda new: schema(new, "Error")["properties"]["code"]["x-extensible-enum"].append("a_new_code"),
    lambda new: parameter(new, "limit")["schema"].update(maximum=5000),
    lambda new: operation(new, "/v1/messages", "get")["parameters"].append(
        {"in": "query", "name": "colour", "schema": {"type": "string"}}
    ),
]


@each(("line", "change"), BREAKING)
def test_a_breaking_change_is_found(line: str, change: Change) -> None:
    new = deepcopy(OLD)
    change(new)
    assert line in breaking_changes(OLD, new)


@each("change", COMPATIBLE)
def test_an_addition_is_none(change: Change) -> None:
    new = deepcopy(OLD)
    change(new)
    assert breaking_changes(OLD, new) == []
