"""OpenAPI descriptions of the query parameters of every collection and every instance."""

from __future__ import annotations

from typing import Any

from app.query.fields import Filter, FilterType, Resource

SCHEMAS: dict[FilterType, dict[str, Any]] = {
    FilterType.INTEGER: {"type": "integer"},
    FilterType.FLOAT: {"type": "number"},
    FilterType.STRING: {"type": "string"},
    FilterType.EMAIL: {"type": "string"},
    FilterType.ENUM: {"type": "string"},
    FilterType.BOOLEAN: {"type": "boolean"},
    FilterType.TIMESTAMP: {"type": "string", "examples": ["2026-01-31T10:00:00Z", "2026-01-31"]},
    FilterType.DATE: {"type": "string", "format": "date"},
    FilterType.DATETIME: {"type": "string", "examples": ["2026-01-31T10:00:00", "2026-01-31"]},
}


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": "query", "name": name, "description": description, "schema": schema}


def _filter_parameters(filter_: Filter) -> list[dict[str, Any]]:
    schema = dict(SCHEMAS[filter_.type])
    if filter_.options:
        schema["enum"] = list(filter_.options)
    text = {"type": "string"}
    return [
        _parameter(filter_.name, f"Items whose {filter_.name} is this value.", schema),
        _parameter(f"{filter_.name}:ne", f"Items whose {filter_.name} is not this value.", schema),
        _parameter(
            f"{filter_.name}:in", f"Items whose {filter_.name} is one of these values or in these ranges.", text
        ),
    ]


def instance_parameters(resource: Resource) -> list[dict[str, Any]]:
    """`fields`, `expand` and `_tz`."""
    text = {"type": "string"}
    names = ", ".join(resource.fields)
    parameters = [
        _parameter("fields", f"Properties to return, separated by commas: {names}.", text),
        _parameter("_tz", "IANA time zone of timestamps, such as Australia/Brisbane.", text),
    ]
    if resource.expands:
        parameters.append(_parameter("expand", f"Linked resources to embed: {', '.join(resource.expands)}.", text))
    return parameters


def paged_instance_parameters(resource: Resource, items: str) -> list[dict[str, Any]]:
    """As `instance_parameters`, for an instance that contains a page of `items`."""
    return [*_paging(f"{items} on the page.", f"{items} to skip."), *instance_parameters(resource)]


def collection_parameters(resource: Resource) -> list[dict[str, Any]]:
    """Paging, the parameters of an instance, and every filter with its operators."""
    paging = _paging("Items on the page; 0 counts all matching items and returns none.", "Items to skip.")
    filters = [parameter for filter_ in resource.filters.values() for parameter in _filter_parameters(filter_)]
    return [*paging, *instance_parameters(resource), *filters]


def _paging(limit: str, offset: str) -> list[dict[str, Any]]:
    return [
        _parameter("limit", limit, {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100}),
        _parameter("offset", offset, {"type": "integer", "minimum": 0, "default": 0}),
        _parameter("cursor", "Only in the links next and prev; opaque.", {"type": "string"}),
    ]
