"""OpenAPI descriptions of the query parameters of every collection and every instance."""

from __future__ import annotations

from typing import Any

from app.query.fields import Filter, FilterType, Resource

SCHEMAS: dict[FilterType, dict[str, Any]] = {
    FilterType.INTEGER: {"type": "integer"},
    FilterType.FLOAT: {"type": "number"},
    FilterType.STRING: {"type": "string"},
    FilterType.EMAIL: {"type": "string"},
    FilterType.UUID: {"type": "string", "format": "uuid"},
    FilterType.ENUM: {"type": "string"},
    FilterType.BOOLEAN: {"type": "boolean"},
    FilterType.TIMESTAMP: {"type": "string", "examples": ["2026-01-31T10:00:00Z", "2026-01-31"]},
    FilterType.DATE: {"type": "string", "format": "date"},
    FilterType.DATETIME: {"type": "string", "examples": ["2026-01-31T10:00:00", "2026-01-31"]},
    FilterType.LABEL: {"type": "string", "minLength": 1},
}


TEXT = {"type": "string", "minLength": 1}
FREE_FILTERS = "filters"
ZONE_IS_SHORT = "Their offset is then written `+1000`, without the colon of RFC 3339."
FIELDS_LEAVE_OUT = (
    "Others are missing from the response, even if its schema requires them: this is for clients that read the "
    "JSON themselves."
)


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": "query", "name": name, "description": description, "schema": schema}


def _filter_parameter(filter_: Filter) -> dict[str, Any]:
    """The filter without an operator; an empty value matches null (docs/querying.md#filters)."""
    schema = dict(SCHEMAS[filter_.type])
    if filter_.options:
        schema["enum"] = list(filter_.options)
    if filter_.type is FilterType.LABEL:
        return _parameter(filter_.name, f"Items that have this `{filter_.name}`.", schema)
    text = f"Items whose `{filter_.name}` has this value; an empty value matches null."
    return {**_parameter(filter_.name, text, schema), "allowEmptyValue": True}


def free_filters(text: str, names: str) -> dict[str, Any]:
    """One object for all filters with an operator, whose names are no identifiers of any language, and for list
    fields, which differ from list to list; each entry is a query parameter of its own (docs/openapi.md#filters).
    """
    values = {"type": "string"}
    schema = {"type": "object", "propertyNames": {"pattern": names}, "additionalProperties": values}
    parameter = _parameter(FREE_FILTERS, f"Each entry is sent as a query parameter of its own: {text}", schema)
    # Without an example, references fill in entries that do not exist.
    return {**parameter, "style": "form", "explode": True, "example": {}}


def _operator_filters(resource: Resource, has_list_fields: bool) -> dict[str, Any]:
    operators = "a filter's name with `:ne` (is not this value) or `:in` (is one of these values or in these ranges)"
    if has_list_fields:
        text = f"{operators}, or the key of a list field, with or without operator, such as `plan` or `spend:in`."
        return free_filters(text, "^[a-z0-9_]+([.](email|mobile))?(:(ne|in))?$")
    named = [filter_ for filter_ in resource.filters.values() if not filter_.is_keyed]
    names = "|".join(filter_.name for filter_ in named).replace(".", "[.]")
    forms, text = [f"({names}):(ne|in)"], f"{operators}, such as `{named[0].name}:in`"
    for filter_ in resource.filters.values():
        if filter_.key is not None:
            first = filter_.name.partition(".")[0]
            forms.append(f"{first}[.]{filter_.key.pattern}")
            text += f", or `{first}.` with a key, such as `{first}.order`"
    return free_filters(f"{text}.", f"^({'|'.join(forms)})$" if len(forms) > 1 else f"^{forms[0]}$")


def instance_parameters(resource: Resource) -> list[dict[str, Any]]:
    """`fields`, `expand` and `_tz`."""
    names = ", ".join((*resource.fields, *resource.parts))
    parameters = [
        _parameter("fields", f"Properties to return, separated by commas: {names}. {FIELDS_LEAVE_OUT}", TEXT),
        _parameter("_tz", f"IANA time zone of timestamps, such as Australia/Brisbane. {ZONE_IS_SHORT}", TEXT),
    ]
    if resource.expands:
        parameters.append(_parameter("expand", f"Linked resources to embed: {', '.join(resource.expands)}.", TEXT))
    return parameters


def paged_instance_parameters(resource: Resource, items: str) -> list[dict[str, Any]]:
    """The parameters of an instance that contains a page of `items`, beside those of `instance_parameters`."""
    return [*_paging(f"{items} on the page.", f"{items} to skip."), *instance_parameters(resource)]


def collection_parameters(resource: Resource, *, has_list_fields: bool = False) -> list[dict[str, Any]]:
    """Paging, the parameters of an instance, every filter, and one object for those with operators and for list
    fields."""
    paging = _paging("Items on the page; 0 counts all matching items and returns none.", "Items to skip.")
    return [*paging, *instance_parameters(resource), *filter_parameters(resource, has_list_fields=has_list_fields)]


def filter_parameters(resource: Resource, *, has_list_fields: bool = False) -> list[dict[str, Any]]:
    """Every filter, and one object for those with operators and for list fields."""
    filters = [_filter_parameter(filter_) for filter_ in resource.filters.values() if not filter_.is_keyed]
    return [*filters, _operator_filters(resource, has_list_fields)]


def _paging(limit: str, offset: str) -> list[dict[str, Any]]:
    return [
        _parameter("limit", limit, {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100}),
        _parameter("offset", offset, {"type": "integer", "minimum": 0, "default": 0}),
        _parameter("cursor", "Taken from the links `next` and `prev`; opaque.", TEXT),
    ]
