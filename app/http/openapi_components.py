"""Parts of the OpenAPI description that all operations share: errors, headers and parameters (docs/openapi.md)."""

from __future__ import annotations

from typing import Any

from app.errors import CATALOGUE, MAX_LISTED_ERRORS
from app.http.api import reference
from app.http.idempotency import HEADER as IDEMPOTENCY_KEY

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
ID = {"type": "integer", "format": "int64", "minimum": 1}
UUID = {"type": "string", "format": "uuid"}

# Codes are added from time to time, so none of them is an `enum`, which would make clients refuse a new one.
TEXTS: dict[str, Any] = {
    "code": {"type": "string", "description": "Open to additions.", "x-extensible-enum": sorted(CATALOGUE)},
    "message": {"type": "string", "description": "For an end user."},
    "developer_message": {"type": "string", "description": "For the integrator."},
}


def _place(nullable: bool) -> dict[str, Any]:
    text: Any = ["string", "null"] if nullable else "string"
    number: Any = ["integer", "null"] if nullable else "integer"
    return {
        "field": {"type": text, "description": "Attribute, dotted where nested."},
        "collection": {"type": text, "description": "Array of the body that contains the element."},
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
    "description": "For a conflict: attribute to the object that has its value.",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
}
ERROR = _object(
    {
        "id": {"type": "string", "description": "The same as X-Request-Id."},
        "method": {"type": "string", "description": "Verb of the request."},
        "status": {"type": "integer", "description": "The same as the status of the response."},
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
    "Allow": _header("Methods of the path, with 405.", TEXT),
    "IdempotentReplayed": _header(
        "That the response is the stored one of an earlier request with the same key.",
        {"type": "string", "enum": ["true"]},
    ),
    "RateLimitLimit": _header("Requests of the key in one window; absent without a rate limit.", COUNT),
    "RateLimitRemaining": _header("Requests that are left in this window.", COUNT),
    "RateLimitReset": _header("Seconds until the next window.", COUNT),
    "RequestId": _header("Id of this request, which also stands in the log.", TEXT, required=True),
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
