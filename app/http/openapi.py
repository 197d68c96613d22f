"""The OpenAPI description: flask-smorest collects it from the blueprints, and this module completes it.

It describes the routes that need a key: pages and probes are not part of the API. What all operations share is added
here instead of at each route: the common errors, the scope that the key needs, and the schema of ids.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from flask import Flask
from flask_smorest import Api
from flask_smorest.spec.plugins import FlaskPlugin

from app.errors import CATALOGUE, MAX_LISTED_ERRORS
from app.http.api import PUBLIC, scopes_of

COMMON_ERRORS = (400, 401, 403, 404, 405, 429, 503)
"""Errors of every operation; a route declares the others."""

DOCUMENT = "tms.openapi"
ID = {"type": "integer", "format": "int64", "minimum": 1}
TEXT = {"type": "string"}
PLACE: dict[str, Any] = {
    "field": {"type": ["string", "null"], "description": "Attribute, dotted where nested."},
    "collection": {"type": ["string", "null"], "description": "Array of the body that contains the element."},
    "index": {"type": ["integer", "null"], "minimum": 0, "description": "Position of the element, from 0."},
}
TEXTS: dict[str, Any] = {
    "code": {"type": "string", "enum": sorted(CATALOGUE)},
    "message": {"type": "string", "description": "For an end user."},
    "developer_message": {"type": "string", "description": "For the integrator."},
}
LOCATED_ERROR = {
    "type": "object",
    "properties": {**TEXTS, **PLACE},
    "required": [*TEXTS, *PLACE],
    "additionalProperties": False,
}
ERROR = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The same as X-Request-Id."},
        "method": {"type": "string", "description": "Verb of the request."},
        "status": {"type": "integer", "enum": sorted({code.status for code in CATALOGUE.values()})},
        "type": {"type": "string", "enum": sorted({code.type for code in CATALOGUE.values()})},
        **TEXTS,
        **PLACE,
        "timestamp": {"type": "string", "format": "date-time"},
        "fields": {
            "type": "object",
            "description": "For a conflict: attribute to the object that has its value.",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "_links": {
            "type": "object",
            "properties": {
                "self": {"$ref": "#/components/schemas/Link"},
                "error": {"$ref": "#/components/schemas/Link"},
            },
            "required": ["self", "error"],
            "additionalProperties": False,
        },
        "_embedded": {
            "type": "object",
            "properties": {
                "errors": {
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/LocatedError"},
                    "minItems": 2,
                    "maxItems": MAX_LISTED_ERRORS,
                }
            },
            "required": ["errors"],
            "additionalProperties": False,
        },
    },
    "required": ["id", "method", "status", "type", *TEXTS, "timestamp", "_links"],
    "additionalProperties": False,
}
ERROR_RESPONSE = {
    "description": "An error, identified by `code`.",
    "headers": {
        "X-Request-Id": {"description": "Id of this request.", "schema": TEXT},
        "Retry-After": {"description": "Seconds to wait, with 429 and 503.", "schema": {"type": "integer"}},
        "Allow": {"description": "Methods of the path, with 405.", "schema": TEXT},
    },
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
OPTIONS: dict[str, Any] = {
    "info": {
        "description": "Sends time-sensitive transactional email and SMS, keeps contacts in lists, and reports what "
        "became of each message.",
    },
    "components": {
        "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        "responses": {"Error": ERROR_RESPONSE},
        "schemas": {"Error": ERROR, "LocatedError": LOCATED_ERROR},
    },
}


class Collector(Api):  # type: ignore[misc]
    """Collects the routes of blueprints and their schemas."""

    DEFAULT_ERROR_RESPONSE_NAME = None


def make_api(app: Flask) -> Collector:
    """The collector of blueprints. It serves no pages of its own: `blueprints/docs.py` does."""
    app.config.update(API_TITLE="Transactional messaging", API_VERSION="1.0.2", OPENAPI_VERSION="3.1.0")
    return Collector(app, spec_kwargs=deepcopy(OPTIONS))


def description(app: Flask) -> dict[str, Any]:
    """The OpenAPI document of the application. Built once: the routes of a running application do not change."""
    if DOCUMENT not in app.extensions:
        app.extensions[DOCUMENT] = _make_document(app)
    document: dict[str, Any] = app.extensions[DOCUMENT]
    return document


def _make_document(app: Flask) -> dict[str, Any]:
    spec = app.extensions["flask-smorest"]["apis"][""]["ext_obj"].spec
    document: dict[str, Any] = deepcopy(spec.to_dict())
    document["components"]["schemas"].pop("PaginationMetadata", None)  # the library's paging, which differs from ours
    for rule in app.url_map.iter_rules():
        path = FlaskPlugin.flaskpath2openapi(rule.rule)
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}:
            _complete_operation(document["paths"], path, method.lower(), scopes_of(app, rule.endpoint, method))
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in _used_tags(document)]
    return document


def _complete_operation(paths: dict[str, Any], path: str, method: str, scopes: tuple[str, ...]) -> None:
    if PUBLIC in scopes:
        paths.pop(path, None)
        return
    operation = paths[path][method]
    operation["security"] = [{"apiKey": [scope]} for scope in scopes]
    for status in COMMON_ERRORS:
        operation["responses"].setdefault(str(status), {"$ref": "#/components/responses/Error"})
    for parameter in paths[path].get("parameters", ()):
        if parameter["name"].endswith("id"):
            parameter["schema"] = ID


def _used_tags(document: dict[str, Any]) -> set[str]:
    operations = (operation for path in document["paths"].values() for operation in path.values())
    return {tag for operation in operations if isinstance(operation, dict) for tag in operation["tags"]}
