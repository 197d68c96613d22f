"""The OpenAPI description: flask-smorest collects it from the blueprints, and this module completes it
(docs/openapi.md).

It describes the routes that need a key: pages and probes are not part of the API. What all operations share is added
here instead of at each route: the common errors and headers, the scope that the key needs, and the schema of ids.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import orjson
from flask import Flask
from flask_smorest import Api
from flask_smorest.spec.plugins import FlaskPlugin
from marshmallow import Schema

from app.distribution import VERSION
from app.http.api import PUBLIC, reference, scopes_of
from app.http.console.pages import HOME
from app.http.context import EXTENSION
from app.http.openapi_components import COMMON_HEADERS, COMPONENTS, ID, UUID
from app.http.openapi_names import name_bodies, name_nullable_choices
from app.http.openapi_webhooks import EVENT_BATCH, TAG, WEBHOOKS
from app.services import Services
from app.settings import Settings

COMMON_ERRORS = (400, 401, 403, 404, 405, 429, 503)
"""Errors of every operation; a route declares the others."""

DOCUMENT = "tms.openapi"
VERBS = ("get", "post", "patch", "put", "delete")
INTRODUCTION = (
    "Sends time-sensitive transactional email and SMS, keeps contacts in lists, and reports what became of each "
    "message. Responses may get further properties, and texts such as `reason` further values: ignore what you do not "
    "know."
)
_building = threading.Lock()
"""The collector of the routes is one for all threads."""
LICENCE = {"name": "MIT", "identifier": "MIT"}


class Collector(Api):  # type: ignore[misc]
    """Collects the routes of blueprints and their schemas."""

    DEFAULT_ERROR_RESPONSE_NAME = None


def make_api(app: Flask) -> Collector:
    """The collector of blueprints. It serves no pages of its own: `blueprints/docs.py` does."""
    app.config.update(API_TITLE="Transactional messaging", API_VERSION=VERSION, OPENAPI_VERSION="3.1.0")
    info = {"description": INTRODUCTION, "license": LICENCE}
    return Collector(app, spec_kwargs=deepcopy({"info": info, "components": COMPONENTS}))


def description(app: Flask, events: Sequence[type[Schema]]) -> bytes:
    """The OpenAPI document of the application, with the schemas of the events that webhooks receive, as JSON. Built
    once: the routes of a running application do not change."""
    with _building:
        if DOCUMENT not in app.extensions:
            app.extensions[DOCUMENT] = orjson.dumps(_make_document(app, events))
    document: bytes = app.extensions[DOCUMENT]
    return document


def _make_document(app: Flask, events: Sequence[type[Schema]]) -> dict[str, Any]:
    services: Services = app.extensions[EXTENSION]
    document = _collected(app, events)
    for rule in app.url_map.iter_rules():
        path = FlaskPlugin.flaskpath2openapi(rule.rule)
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}:
            _complete_operation(document["paths"], path, method.lower(), scopes_of(app, rule.endpoint, method))
    for item in document["paths"].values():
        for parameter in item.get("parameters", ()):
            _complete_path_parameter(parameter)
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in _used_tags(document)]
    document["webhooks"] = deepcopy(WEBHOOKS)
    document["tags"].append(TAG)
    name_bodies(document)
    name_nullable_choices(document)
    _add_installation(document, services.settings)
    return document


def _collected(app: Flask, events: Sequence[type[Schema]]) -> dict[str, Any]:
    """What the blueprints declare, and the events."""
    spec = app.extensions["flask-smorest"]["apis"][""]["ext_obj"].spec
    names = [event.__name__.removesuffix("Schema") for event in events]
    for name, event in zip(names, events, strict=True):
        spec.components.schema(name, schema=event)
    document: dict[str, Any] = deepcopy(spec.to_dict())
    schemas = document["components"]["schemas"]
    schemas.pop("PaginationMetadata", None)  # the library's paging, which differs from ours
    schemas |= deepcopy(COMPONENTS["schemas"])  # the library has an Error of its own, and would mix them
    schemas["EventBatch"] = deepcopy(EVENT_BATCH)
    schemas["EventBatch"]["properties"]["events"]["items"] = {"oneOf": [reference("schemas", name) for name in names]}
    return document


def _complete_operation(paths: dict[str, Any], path: str, method: str, scopes: tuple[str, ...]) -> None:
    if PUBLIC in scopes or path.startswith(HOME):
        paths.pop(path, None)  # a page, not an operation for programs
        return
    operation = paths[path][method]
    operation["security"] = [{"apiKey": []}]
    operation["x-required-scopes"] = list(scopes)
    operation["description"] = f"Needs the scope {' or '.join(f'`{scope}`' for scope in scopes)}."
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            response["headers"] = {**COMMON_HEADERS, **response.get("headers", {})}
    for status in COMMON_ERRORS:
        operation["responses"].setdefault(str(status), reference("responses", "Error"))


def _complete_path_parameter(parameter: dict[str, Any]) -> None:
    name = parameter["name"]
    if name == "uuid":
        parameter |= {"schema": UUID, "description": "The uuid of the recipient, from the response to the send."}
    elif name.endswith("_id"):
        parameter |= {"schema": ID, "description": f"The id of the {name.removesuffix('_id')}."}


def _add_installation(document: dict[str, Any], settings: Settings) -> None:
    """What depends on the settings of this installation: its address and its limits."""
    document["servers"] = [{"url": settings.public_url, "description": "This service"}]
    document["info"]["contact"] = {"name": "Reference of this service", "url": f"{settings.public_url}/docs"}
    schemas = document["components"]["schemas"]
    for schema in ("Send", "Recipient"):
        schemas[schema]["properties"]["attachments"]["maxItems"] = settings.max_attachments
    # Base64 has four characters for each three bytes.
    content_length = -(-settings.max_attachment_bytes // 3) * 4
    schemas["Attachment"]["properties"]["content"]["maxLength"] = content_length


def _used_tags(document: dict[str, Any]) -> set[str]:
    return {tag for operation in _operations(document) for tag in operation["tags"]}


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in document["paths"].values():
        yield from (item[verb] for verb in VERBS if verb in item)
