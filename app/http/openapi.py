"""The OpenAPI description: flask-smorest collects it from the blueprints, and this module completes it
(docs/openapi.md).

It describes the routes that need a key: pages and probes are not part of the API. What all operations share is added
here instead of at each route: the common errors and headers, the scope that the key needs, and the schema of ids.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from copy import deepcopy
from textwrap import dedent
from typing import Any

import orjson
from flask import Flask
from flask_smorest import Api
from flask_smorest.spec.plugins import FlaskPlugin
from marshmallow import Schema

from app.distribution import VERSION
from app.errors import CATALOGUE, MAX_LISTED_ERRORS
from app.first_setup.first_send import curl, first_mail
from app.http.api import PUBLIC, reference, scopes_of
from app.http.console.navigation import HOME
from app.http.context import EXTENSION
from app.http.idempotency import HEADER as IDEMPOTENCY_KEY
from app.services import Services
from app.settings import Settings

# Parts of the OpenAPI description that all operations share: errors, headers and parameters (docs/openapi.md).

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
ID = {"type": "integer", "format": "int64", "minimum": 1}
UUID = {"type": "string", "format": "uuid"}

# Codes are added from time to time, so none of them is an `enum`, which would make clients refuse a new one.
TEXTS: dict[str, Any] = {
    "code": {
        "type": "string",
        "description": "What is wrong. More codes may be added.",
        "x-extensible-enum": sorted(CATALOGUE),
    },
    "message": {"type": "string", "description": "A sentence for an end user."},
    "developer_message": {"type": "string", "description": "What exactly is wrong, for the integrator."},
}


def _place(nullable: bool) -> dict[str, Any]:
    text: Any = ["string", "null"] if nullable else "string"
    number: Any = ["integer", "null"] if nullable else "integer"
    return {
        "field": {"type": text, "description": "Name of the attribute, with dots where it is nested."},
        "collection": {"type": text, "description": "The array of the body that contains the element."},
        "index": {"type": number, "minimum": 0, "description": "Position of the element, from 0."},
    }


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """An object that may get further properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }


LOCATED_ERROR = _object({**TEXTS, **_place(nullable=True)})
LISTED_ERRORS = {
    "type": "array",
    "items": reference("schemas", "LocatedError"),
    "minItems": 2,
    "maxItems": MAX_LISTED_ERRORS,
}
CONFLICTS = {
    "type": "object",
    "description": "For a conflict: each attribute with the object that already has its value.",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
}
ERROR = _object(
    {
        "id": {"type": "string", "description": "The same as the header `X-Request-Id`."},
        "method": {"type": "string", "description": "HTTP method of the request."},
        "status": {"type": "integer", "description": "HTTP status of the response."},
        "type": {
            "type": "string",
            "description": "Family of the code.",
            "x-extensible-enum": sorted({code.type for code in CATALOGUE.values()}),
        },
        **TEXTS,
        **_place(nullable=False),
        "timestamp": {"type": "string", "format": "date-time"},
        "fields": CONFLICTS,
        "_links": reference("schemas", "ErrorLinks"),
        "_embedded": reference("schemas", "ErrorEmbedded"),
    },
    ["id", "method", "status", "type", *TEXTS, "timestamp", "_links"],
)
SCHEMAS = {
    "Error": ERROR,
    "ErrorEmbedded": _object({"errors": LISTED_ERRORS}),
    "ErrorLinks": _object({"self": reference("schemas", "Link"), "error": reference("schemas", "Link")}),
    "LocatedError": LOCATED_ERROR,
}


def _header(description: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"description": description, "schema": schema, **({"required": True} if required else {})}


HEADERS = {
    "Allow": _header("Methods that the path has, with 405.", TEXT),
    "IdempotentReplayed": _header(
        "`true` if this is the stored response to an earlier request with the same key.",
        {"type": "string", "enum": ["true"]},
    ),
    "RateLimitLimit": _header("Requests that the key may make in one window; absent without a rate limit.", COUNT),
    "RateLimitRemaining": _header("Requests that the key has left in this window.", COUNT),
    "RateLimitReset": _header("Seconds until the next window.", COUNT),
    "RequestId": _header("Id of this request, as in the log.", TEXT, required=True),
    "RetryAfter": _header("Seconds to wait, with 429 and 503, and with 409 for a request in progress.", COUNT),
    "WWWAuthenticate": _header("`Bearer`, with 401.", TEXT),
}
COMMON_HEADERS = {
    "X-Request-Id": reference("headers", "RequestId"),
    "RateLimit-Limit": reference("headers", "RateLimitLimit"),
    "RateLimit-Remaining": reference("headers", "RateLimitRemaining"),
    "RateLimit-Reset": reference("headers", "RateLimitReset"),
}
"""Headers of every response to a request with a valid key."""

ERROR_RESPONSE = {
    "description": "An error, identified by `code`.",
    "headers": {
        **COMMON_HEADERS,
        "Allow": reference("headers", "Allow"),
        "Retry-After": reference("headers", "RetryAfter"),
        "WWW-Authenticate": reference("headers", "WWWAuthenticate"),
    },
    "content": {"application/json": {"schema": reference("schemas", "Error")}},
}
IDEMPOTENCY_KEY_PARAMETER = {
    "in": "header",
    "name": IDEMPOTENCY_KEY,
    "description": "A repeated request with the same key gets the first response again, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "order-4711-confirmation",
}
COMPONENTS: dict[str, Any] = {
    "headers": HEADERS,
    "parameters": {"IdempotencyKey": IDEMPOTENCY_KEY_PARAMETER},
    "responses": {"Error": ERROR_RESPONSE},
    "schemas": SCHEMAS,
    "securitySchemes": {
        "apiKey": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key. What it may do follows from its access level.",
        }
    },
}


# Names for schemas that a declaration leaves without one (docs/openapi.md#schemas).
#
# Generated code names an inline schema after its place, and a choice that may be null once for each of its parts.


def name_bodies(document: dict[str, Any]) -> None:
    """Makes a component of each inline body that has a title."""
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                if "title" in content["schema"]:
                    name = content["schema"].pop("title")
                    document["components"]["schemas"][name] = content["schema"]
                    content["schema"] = reference("schemas", name)


def name_nullable_choices(document: dict[str, Any]) -> None:
    """Makes a component of each enumeration that may be null: `Send.priority` becomes `SendPriority` or null."""
    schemas = document["components"]["schemas"]
    for schema, described in list(schemas.items()):
        for attribute, value in described.get("properties", {}).items():
            if None in value.get("enum", ()):
                name = schema + attribute.title().replace("_", "")
                schemas[name] = {"type": "string", "enum": [choice for choice in value["enum"] if choice is not None]}
                others = {key: inner for key, inner in value.items() if key not in ("type", "enum")}
                choices = [reference("schemas", name), {"type": "null"}]
                described["properties"][attribute] = {**others, "anyOf": choices}


# The webhooks in the OpenAPI description: the requests that this service sends (docs/webhooks.md).

MAX_EVENTS = 1000
TAG = {"name": "webhooks", "description": "Requests that this service sends to the URLs of an account's webhooks"}
EVENT_BATCH: dict[str, Any] = {
    "type": "object",
    "properties": {"events": {"type": "array", "minItems": 1, "maxItems": MAX_EVENTS}},
    "required": ["events"],
}
SIGNATURE = {
    "in": "header",
    "name": "Service-Signature",
    "required": True,
    "description": "JSON Web Tokens (HS256), one for each secret of the webhook, separated by commas; a valid one is "
    "enough. The claim `body_sha256` is the SHA-256 of the body's bytes.",
    "schema": {"type": "string"},
}
WEBHOOKS: dict[str, Any] = {
    "events": {
        "post": {
            "operationId": "webhooks.receive",
            "summary": "Receives a batch of events, in the order in which they happened.",
            "description": "Events are delivered at least once. More kinds of events and more properties may be added: "
            "ignore unknown ones.",
            "tags": [TAG["name"]],
            "security": [],
            "parameters": [SIGNATURE],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": reference("schemas", "EventBatch")}},
            },
            "responses": {
                "2XX": {"description": "The batch is accepted, and is not sent again."},
                "410": {"description": "The webhook is deleted at once."},
                "default": {"description": "The same batch is sent again, with growing delays, for a day."},
            },
        }
    }
}


COMMON_ERRORS = (400, 401, 403, 404, 405, 429, 503)
"""Errors of every operation; a route declares the others."""

DOCUMENT = "tms.openapi"
VERBS = ("get", "post", "patch", "put", "delete")
INTRODUCTION = (
    "Sends time-sensitive transactional email and SMS, keeps contacts in lists, and reports what became of each "
    "message. Responses may get further properties, and texts such as `reason` further values: ignore what you do not "
    "know."
)
FIRST_SEND = """## A first send

Put a key in place of `KEY`, and your own address behind `email`. `Authorize` below takes the same key.

```sh
{command}
```

It answers 202 with a uuid. `GET /v1/transactional-sends/` with that uuid shows what became of the message.

## This API"""
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
        if name not in spec.components.schemas:  # another application with these routes may have been described before
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


TEXT_PARAMETERS = {"tag": "A tag of sends.", "secret_id": "The id of the secret, such as `k1`."}
"""Parameters of paths that are any text, with what they are."""


def _complete_path_parameter(parameter: dict[str, Any]) -> None:
    name = parameter["name"]
    if name == "uuid":
        parameter |= {"schema": UUID, "description": "The uuid of the recipient, from the response to the send."}
    elif name in TEXT_PARAMETERS:
        parameter |= {"schema": {"type": "string", "minLength": 1}, "description": TEXT_PARAMETERS[name]}
    elif name.endswith("_id"):
        parameter |= {"schema": ID, "description": f"The id of the {name.removesuffix('_id')}."}


def _first_send(settings: Settings) -> str:
    """A command that sends a mail to somebody, who becomes a contact of the first list."""
    return dedent(curl(settings.public_url, "KEY", first_mail(1, "you@example.com")))


def _add_installation(document: dict[str, Any], settings: Settings) -> None:
    """What depends on the settings of this installation: its address and its limits."""
    document["servers"] = [{"url": settings.public_url, "description": "This service"}]
    document["info"]["description"] = f"{FIRST_SEND.format(command=_first_send(settings))}\n\n{INTRODUCTION}"
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
