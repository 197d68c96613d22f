"""The webhooks in the OpenAPI description: the requests that this service sends (docs/webhooks.md)."""

from __future__ import annotations

from typing import Any

from app.http.api import reference

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
            "ignore those that you do not know.",
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
