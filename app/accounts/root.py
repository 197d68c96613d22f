"""The API root (docs/endpoints.md#api-root)."""

from __future__ import annotations

from typing import Any

from app.accounts.auth import Principal
from app.clock import timestamp
from app.query.conditions import Query
from app.query.fields import Resource

ROOT = Resource(
    name="API root",
    collection="",
    filters={},
    fields=("access_token_scope", "access_token_creation_time", "access_token_expiry_time"),
)
LINKS = {
    "self": {"href": "/v1/"},
    "lists": {"href": "/v1/lists"},
    "messages": {"href": "/v1/messages"},
    "transactional_groups": {"href": "/v1/transactional-groups"},
}


def show_root(principal: Principal, query: Query) -> dict[str, Any]:
    """The root for this key. A valid key never expires (docs/requests.md#keys-and-scopes)."""
    properties = {
        "access_token_scope": ",".join(principal.scopes),
        "access_token_creation_time": timestamp(principal.key_creation_time, query.zone),
        "access_token_expiry_time": None,
    }
    requested = {name: value for name, value in properties.items() if query.fields is None or name in query.fields}
    return {**requested, "_links": LINKS}
