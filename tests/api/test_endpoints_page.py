"""The pages of endpoints have every endpoint with its scope, and their examples work."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from flask import Flask

from app.http.api import scopes_of
from app.recipients.read import find_recipient
from tests.support.automations import runs_of
from tests.support.captured import capture
from tests.support.cases import each
from tests.support.client import Client
from tests.support.definitions import STANDARD, create
from tests.support.management import new_id
from tests.support.rows import change_recipients
from tests.support.tenants import Tenant

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("endpoints.md", "automation-endpoints.md", "suppressions.md")
TEXT = "\n".join((DOCS / name).read_text("utf-8") for name in PAGES)
SECTION = re.compile(r"^### `(\w+) (\S+)`\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = {(method, path): text for method, path, text in SECTION.findall(TEXT)}
EXAMPLE = re.compile(r"```sh\n((?:(?!```).)*)```\s+(\d{3})", re.DOTALL)
JSON_BLOCK = re.compile(r"```json\n(.*?)```", re.DOTALL)
UUID = "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10"
MANAGEMENT_PAGE = (DOCS / "management.md").read_text("utf-8")
MANAGEMENT_ROUTES = set(re.findall(r"`([A-Z]+) (/v1/management\S*)`", MANAGEMENT_PAGE))
"""The endpoints of that page, which all have one scope."""
EXAMPLES = [
    (route, command, int(status)) for route, text in SECTIONS.items() for command, status in EXAMPLE.findall(text)
]


def routes(app: Flask) -> dict[tuple[str, str], tuple[str, ...]]:
    """(method, path as the page writes it) -> scopes."""
    return {
        (method, re.sub(r"<(?:\w+:)?([^>]*)>", r"{\1}", rule.rule)): scopes_of(app, rule.endpoint, method)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/v1")
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}
    }


def test_the_pages_have_every_endpoint_with_its_scope(app: Flask) -> None:
    assert set(SECTIONS) | MANAGEMENT_ROUTES == set(routes(app))
    for route, scopes in routes(app).items():
        if route in MANAGEMENT_ROUTES:
            assert scopes == ("manage",)
        else:
            assert all(f"`{scope}`" in SECTIONS[route] for scope in scopes), route


def test_every_endpoint_has_an_example() -> None:
    assert {route for route, _, _ in EXAMPLES} == set(SECTIONS)


@dataclass(frozen=True)
class Curl:
    """The request that a curl line makes."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None

    @classmethod
    def read(cls, command: str, ids: dict[str, Any]) -> Curl:
        """The ids of the pages are all 1, and its uuid is always the same; `ids` are those of the test."""
        command = command.replace(UUID, ids["uuid"])
        for name, row_id in ids.items():
            command = re.sub(rf"/{name}/1\b", f"/{name}/{row_id}", command)
        command = command.replace('"list": "Customers"', f'"list": "{ids["lists"]}"')
        command = re.sub(r'"list_id": 1\b', f'"list_id": {ids["lists"]}', command)
        command = re.sub(r'"message_id": 1\b', f'"message_id": {ids["messages"]}', command)
        command = re.sub(r'"id": 1\b', f'"id": {ids["contacts"]}', command)
        words = shlex.split(command.replace("\\\n", " "))
        given: dict[str, list[str]] = {}
        for flag, value in zip(words[1:-1:2], words[2:-1:2], strict=True):
            given.setdefault(flag, []).append(value)
        headers = dict(header.split(": ", 1) for header in given["-H"] if not header.startswith("Authorization"))
        body = given.get("-d")
        return cls(
            given.get("-X", ["GET"])[0], words[-1].removeprefix("$BASE"), headers, body[0].encode() if body else None
        )


@pytest.fixture
def ids(tenant: Tenant, customers: int) -> dict[str, Any]:
    """The ids of objects for every path."""
    message = tenant.add_message(name="Welcome")
    automation = create(tenant, {**STANDARD, "list": str(customers)})
    contact = tenant.new_contact(customers, email="ann@example.com")
    body = {
        "type": "email",
        "list_id": customers,
        "message_id": message,
        "group_name": "First",
        "tags": ["receipt"],
        "recipients": [{"email": "ann@example.com"}],
    }
    answer = tenant.api.post("/v1/transactional-sends", body)
    group = int(answer.get_json()["_links"]["transactional_group"]["href"].rpartition("/")[2])
    uuid = answer.get_json()["_embedded"]["recipients"][0]["uuid"]
    with tenant.services.database.write() as transaction:
        change_recipients(transaction, [find_recipient(transaction, uuid).id], state="delivered")
    return {
        "lists": customers,
        "contacts": contact["id"],
        "messages": message,
        "transactional-groups": group,
        "automations": automation,
        "runs": runs_of(tenant.services, automation)[0].id,
        "inbox": capture(tenant, "ann@example.com"),
        "uuid": uuid,
    }


@each(("route", "command", "status"), EXAMPLES)
def test_every_example_works(
    api: Client, ids: dict[str, Any], route: tuple[str, str], command: str, status: int
) -> None:
    curl = Curl.read(command, ids)
    assert curl.method == route[0]
    answer = api.request(curl.method, curl.path, headers=curl.headers, data=curl.body)
    assert answer.status_code == status, answer.text


def test_every_example_of_management_works(tenant: Tenant, ids: dict[str, Any]) -> None:
    managed = {collection: new_id(tenant, collection) for collection in ("messages", "domains", "senders")}
    examples = EXAMPLE.findall(MANAGEMENT_PAGE)
    assert len(examples) == 9
    for command, status in examples:
        text = command.replace('"message": "Welcome"', f'"message": {ids["messages"]}')
        curl = Curl.read(text, {**ids, **managed})
        answer = tenant.client("manager").request(curl.method, curl.path, headers=curl.headers, data=curl.body)
        assert (answer.status_code, command) == (int(status), command), answer.text


@each("route", [route for route in SECTIONS if JSON_BLOCK.search(SECTIONS[route])])
def test_every_answer_shown_has_the_properties_of_a_real_one(
    api: Client, ids: dict[str, Any], route: tuple[str, str]
) -> None:
    (command, _), *_ = EXAMPLE.findall(SECTIONS[route])
    shown_object = JSON_BLOCK.search(SECTIONS[route])
    assert shown_object
    documented: dict[str, Any] = orjson.loads(shown_object[1])
    curl = Curl.read(command.replace("?expand=contacts", ""), ids)
    real = api.request(curl.method, curl.path, headers=curl.headers, data=curl.body).get_json()
    assert set(documented) <= set(real)
    list_fields = {"first_name", "last_name", "plan", "interests", "spend", "score", "born", "visit", "reply_to"}
    assert set(real) - set(documented) <= list_fields
    assert set(documented["_links"]) == set(real["_links"])
