"""The OpenAPI description: complete, and valid for real answers (docs/openapi.md)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import orjson
import pytest
import schemathesis
from flask import Flask
from schemathesis.schemas import BaseSchema

from app.accounts.root import ROOT
from app.contacts.read import contact_shape
from app.groups.read import GROUPS
from app.groups.sent_contacts import SENT_CONTACTS
from app.http.api import PUBLIC, scopes_of
from app.inbox.shown import CAPTURED_MESSAGE_SHAPE, INBOX_SHAPE
from app.lists.read import LISTS
from app.messages.read import CONTENT, MESSAGES
from app.query.fields import Resource
from app.recipients.read import RECIPIENT_SHAPE
from app.runs.read import AUTOMATION_SHAPE, AUTOMATIONS_SHAPE, RUNS_SHAPE
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.automations import runs_of
from tests.support.captured import capture
from tests.support.cases import each
from tests.support.client import SENDS, Client
from tests.support.definitions import STANDARD, create
from tests.support.management import NOUNS, body_of, new_id, path_of
from tests.support.management import ROUTES as MANAGEMENT_ROUTES
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_tenant, unique

VERBS = {"get", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    """The description as the API serves it."""
    answer = Client(app).get("/docs/openapi.json")
    assert answer.status_code == 200
    description: dict[str, Any] = answer.get_json()
    return description


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, path, description) of every operation."""
    for path, item in document["paths"].items():
        for method in VERBS & set(item):
            yield method.upper(), path, item[method]


# ---------------------------------------------------------------------------------------------- completeness


def test_it_describes_every_endpoint_and_nothing_else(app: Flask, document: dict[str, Any]) -> None:
    """The console is left out: its pages are for people."""
    endpoints = {
        (method, re.sub(r"<(?:\w+:)?([^>]*)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}
        if PUBLIC not in scopes_of(app, rule.endpoint, method) and not rule.rule.startswith("/console")
    }
    assert document["openapi"] == "3.1.0"
    assert {(method, path) for method, path, _ in operations(document)} == endpoints
    received = [item["post"] for item in document["webhooks"].values()]
    assert {tag["name"] for tag in document["tags"]} == {
        tag
        for operation in (*received, *(described for _, _, described in operations(document)))
        for tag in operation["tags"]
    }


def test_every_operation_has_a_summary_its_scopes_and_the_common_errors(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        assert operation["summary"], (method, path)
        assert operation["security"] == [{"apiKey": []}]
        assert operation["x-required-scopes"], (method, path)
        assert all(f"`{scope}`" in operation["description"] for scope in operation["x-required-scopes"])
        for status in ("400", "401", "403", "404", "405", "429", "503"):
            assert operation["responses"][status] == {"$ref": "#/components/responses/Error"}
        assert [status for status in operation["responses"] if status.startswith("2")], (method, path)


def test_ids_in_paths_are_positive_integers_and_a_uuid_is_a_string(document: dict[str, Any]) -> None:
    for path, item in document["paths"].items():
        described = {
            parameter["name"]: parameter for parameter in item.get("parameters", []) if parameter["in"] == "path"
        }
        assert set(described) == set(re.findall(r"{(\w+)}", path))
        for parameter in described.values():
            assert parameter["required"] is True
            uuid, id_ = {"type": "string", "format": "uuid"}, {"type": "integer", "format": "int64", "minimum": 1}
            text = {"type": "string", "minLength": 1}
            assert parameter["schema"] == {"uuid": uuid, "tag": text, "secret_id": text}.get(parameter["name"], id_)
            assert parameter["description"]


def test_every_query_parameter_is_described_once(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        names = [parameter["name"] for parameter in operation.get("parameters", []) if parameter.get("in") == "query"]
        assert len(names) == len(set(names))
        assert all(parameter["description"] for parameter in operation.get("parameters", []) if "$ref" not in parameter)


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in it."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_resolves_and_every_component_is_used(document: dict[str, Any]) -> None:
    used = set(references(document))
    components = {
        f"#/components/{kind}/{name}"
        for kind in ("headers", "parameters", "responses", "schemas")
        for name in document["components"].get(kind, {})
    }
    assert used == components


@each(
    ("name", "resource"),
    [
        ("Root", ROOT),
        ("ContactList", LISTS.resource),
        ("Contact", contact_shape().resource),
        ("Message", MESSAGES.resource),
        ("MessageContent", CONTENT.resource),
        ("SentContact", SENT_CONTACTS.resource),
        ("Group", GROUPS.resource),
        ("RecipientTimeline", RECIPIENT_SHAPE.resource),
        ("Automation", AUTOMATIONS_SHAPE.resource),
        ("AutomationWithDefinition", AUTOMATION_SHAPE.resource),
        ("Run", RUNS_SHAPE.resource),
        ("CapturedMessage", INBOX_SHAPE.resource),
        ("CapturedMessageWithContent", CAPTURED_MESSAGE_SHAPE.resource),
    ],
)
def test_each_resource_is_described_with_exactly_its_properties(
    document: dict[str, Any], name: str, resource: Resource
) -> None:
    described = set(document["components"]["schemas"][name]["properties"])
    assert described - {"_links", "_embedded"} == set(resource.fields)
    assert ("_embedded" in described) is bool(resource.expands)


def test_the_description_is_the_same_each_time(app: Flask, document: dict[str, Any]) -> None:
    assert Client(app).get("/docs/openapi.json").get_json() == document


# ---------------------------------------------------------------------------------------------- real answers


@dataclass(frozen=True)
class Estate:
    """An account with a resource at every path, and the description of the application."""

    tenant: Tenant
    described: BaseSchema
    loose: BaseSchema
    """The description of the application with nothing required and with times of any form. It fits responses that
    `fields` has narrowed, and times with the offset of `_tz`."""
    ids: dict[str, Any]


@pytest.fixture(scope="module")
def estate(app: Flask) -> Estate:
    return new_estate(app)


def new_estate(app: Flask) -> Estate:
    """A list with a contact, which has entered an automation, a message and a group."""
    tenant = new_tenant(app)
    list_id, message = tenant.add_list("People", FULL_FIELDS), tenant.add_message(name="Welcome")
    automation = create(tenant, {**STANDARD, "list": "People"})
    contact = tenant.new_contact(list_id, email=new_email(), plan="gold", score=1.5)
    send = {
        "type": "email",
        "list_id": list_id,
        "message_id": message,
        "group_name": unique("group"),
        "tags": ["receipt"],
        "recipients": [{"email": new_email()}],
    }
    answer = tenant.api.post(SENDS, send)
    assert answer.status_code == 202, answer.text
    group = int(answer.get_json()["_links"]["transactional_group"]["href"].rpartition("/")[2])
    ids: dict[str, Any] = {"list_id": list_id, "contact_id": contact["id"], "message_id": message, "group_id": group}
    ids["automation_id"], ids["run_id"] = automation, runs_of(tenant.services, automation)[0].id
    ids["captured_id"], ids["tag"] = capture(tenant, new_email()), "receipt"
    ids["uuid"] = answer.get_json()["_embedded"]["recipients"][0]["uuid"]
    ids |= {f"{name}_id": new_id(tenant, noun) for noun, name in NOUNS.items() if f"{name}_id" not in ids}
    ids["secret_id"] = "k1"
    described = schemathesis.openapi.from_wsgi("/docs/openapi.json", app)
    return Estate(tenant, described, schemathesis.openapi.from_dict(loosened(described.raw_schema)), ids)


def loosened(value: Any) -> Any:
    """The description without required properties and without the form of times."""
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if name != "required" or isinstance(inner, bool)}
        return {name: loosened(inner) for name, inner in kept.items() if (name, inner) != ("format", "date-time")}
    return [loosened(inner) for inner in value] if isinstance(value, list) else value


def is_loose(query: Mapping[str, Any]) -> bool:
    """Whether the schema of a response to the query holds only in part (docs/openapi.md#schemas)."""
    return not {"fields", "_tz"}.isdisjoint(query)


READS = [
    ("/v1", ""),
    ("/v1", "fields=access_token_scope"),
    ("/v1/lists", ""),
    ("/v1/lists", "expand=contacts"),
    ("/v1/lists", "limit=0"),
    ("/v1/lists/{list_id}", "expand=contacts&_tz=Asia/Tokyo"),
    ("/v1/lists/{list_id}/contacts", ""),
    ("/v1/lists/{list_id}/contacts", "limit=1&offset=1"),
    ("/v1/lists/{list_id}/contacts/{contact_id}", ""),
    ("/v1/messages", "expand=content"),
    ("/v1/messages/{message_id}", "expand=content"),
    ("/v1/messages/{message_id}/content", "expand=message"),
    ("/v1/messages/{message_id}/sent-contacts", ""),
    ("/v1/transactional-sends", "limit=1"),
    ("/v1/transactional-sends/{uuid}", ""),
    ("/v1/transactional-sends/{uuid}", "fields=state,timeline"),
    ("/v1/transactional-groups", "fields=id,type"),
    ("/v1/transactional-groups/{group_id}", ""),
    ("/v1/inbox", ""),
    ("/v1/inbox/{captured_id}", "fields=content,captured_time&_tz=Asia/Tokyo"),
    ("/v1/inbox/{captured_id}", ""),
    ("/v1/automations", ""),
    ("/v1/automations/{automation_id}", "_tz=Asia/Tokyo"),
    ("/v1/automations/{automation_id}/runs", ""),
    ("/v1/automations/{automation_id}/runs/{run_id}", "_tz=Asia/Tokyo"),
]


def test_the_first_requests_for_the_description_may_come_together(settings: Settings) -> None:
    with app_with(settings) as fresh, ThreadPoolExecutor(8) as clients:
        together = threading.Barrier(8)

        def status(_: int) -> int:
            client = Client(fresh)
            together.wait()
            return client.get("/docs/openapi.json").status_code

        assert list(clients.map(status, range(8))) == [200] * 8


@each(("path", "query"), READS)
def test_real_answers_match_the_description(estate: Estate, path: str, query: str) -> None:
    """Also those to a key that sees less of them, or nothing."""
    described = estate.loose if is_loose(dict(parse_qsl(query))) else estate.described
    for level, statuses in (("standard", {200}), ("report", {200, 403})):
        answer = estate.tenant.client(level).get(f"{path.format(**estate.ids)}?{query}")
        assert answer.status_code in statuses, answer.text
        described[path]["GET"].validate_response(answer)


@each(("method", "rule"), MANAGEMENT_ROUTES)
def test_answers_of_management_match_the_description(estate: Estate, method: str, rule: str) -> None:
    tenant, query = estate.tenant, {"confirm": "contacts"} if method == "DELETE" and "list_id" in rule else None
    body = b"" if method in ("GET", "DELETE") else orjson.dumps(body_of(tenant, method, rule))
    answer = tenant.client("manager").raw(method, path_of(tenant, rule), body, params=query)
    assert answer.status_code == MANAGEMENT_ROUTES[method, rule], answer.text
    estate.described[rule.replace("<", "{").replace(">", "}")][method].validate_response(answer)


def test_a_dry_run_matches_the_description(estate: Estate) -> None:
    body = {
        "type": "email",
        "list_id": estate.ids["list_id"],
        "message_id": estate.ids["message_id"],
        "group_name": unique("group"),
        "recipients": [{"email": new_email()}, {"contact_id": 1}],
    }
    answer = estate.tenant.api.post(f"{SENDS}?dry_run=true", body)
    assert answer.status_code == 200, answer.text
    estate.described[SENDS]["POST"].validate_response(answer)


def test_errors_match_the_description(estate: Estate) -> None:
    described = estate.described["/v1/lists/{list_id}/contacts"]
    path = f"/v1/lists/{estate.ids['list_id']}/contacts"
    api, taken = estate.tenant.api, new_email()
    estate.tenant.new_contact(estate.ids["list_id"], email=taken)
    for status, answer in (
        (400, api.get(path, {"limit": "x", "nonsense": 1})),
        (401, Client(estate.tenant.app).get(path)),
        (403, estate.tenant.client("report").get(path)),
        (404, api.get("/v1/lists/0/contacts")),
    ):
        assert answer.status_code == status
        described["GET"].validate_response(answer)
    for status, answer in (
        (409, api.post(path, {"email": taken})),
        (409, api.post(path, {"contacts": [{"email": taken}, {"email": taken}]})),
        (422, api.post(path, {"email": "x", "mobile": 1})),
        (422, api.post(path, {"contacts": [{"email": "x"}]})),
    ):
        assert answer.status_code == status
        described["POST"].validate_response(answer)
