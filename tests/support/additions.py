"""What the API offers beyond its specification, from its description and its code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.accounts.auth import SCOPES as SCOPES_OF_LEVELS
from app.errors import CATALOGUE
from tests.support.specification import (
    CODES,
    ENDPOINTS,
    ERROR,
    EVENT_FIELDS,
    EVENTS,
    HEADERS,
    LEVELS,
    SCOPES,
    Endpoint,
)

Addition = tuple[str, str]
"""A name, and where it is."""
JSON = "application/json"
FILTERS = "filters"
"""Stands for filters by list fields and with operators, which have no fixed names."""


class Description:
    """The description, with its references followed."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def operations(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Method, path and operation of each."""
        for path, item in self._document["paths"].items():
            yield from (
                (method.upper(), path, operation) for method, operation in item.items() if method != "parameters"
            )

    def resolved(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a reference leads to; anything else as it is."""
        while "$ref" in value:
            target: Any = self._document
            for part in value["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            value = target
        return value

    def parameters(self, operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Name of each parameter, and whether it is in the query or a header."""
        for parameter in map(self.resolved, operation.get("parameters", ())):
            yield parameter["name"], parameter["in"]

    def body(self, operation: Mapping[str, Any]) -> set[str]:
        """The attributes of the body."""
        content = operation.get("requestBody", {}).get("content", {})
        return set(self.names(content[JSON]["schema"])) if JSON in content else set()

    def answers(self, operation: Mapping[str, Any]) -> Iterator[tuple[str, set[str], set[str]]]:
        """Status, properties and headers of each."""
        for status, response in operation["responses"].items():
            answer = self.resolved(response)
            content = answer.get("content", {})
            names = set(self.names(content[JSON]["schema"])) if JSON in content else set()
            yield status, names, set(answer.get("headers", ()))

    def events(self) -> Iterator[Mapping[str, Any]]:
        """The properties of each kind of event."""
        for hook in self._document["webhooks"].values():
            batch = self.resolved(hook["post"]["requestBody"]["content"][JSON]["schema"])
            for schema in self.resolved(batch["properties"]["events"]["items"])["oneOf"]:
                yield {name: self.resolved(value) for name, value in self.resolved(schema)["properties"].items()}

    def names(self, schema: Mapping[str, Any], prefix: str = "", above: tuple[int, ...] = ()) -> Iterator[str]:
        """The names of its properties, with dots; those of what is embedded or linked begin anew."""
        schema = self.resolved(schema)
        if id(schema) in above:
            return
        above = (*above, id(schema))
        for kind in ("oneOf", "anyOf", "allOf"):
            for schema_part in schema.get(kind, ()):
                yield from self.names(schema_part, prefix, above)
        if "items" in schema:
            yield from self.names(schema["items"], f"{prefix[:-1]}[]." if prefix else "", above)
        for name, value in schema.get("properties", {}).items():
            yield prefix + name
            if prefix == "_links.":
                continue
            yield from self.names(value, "" if prefix == "_embedded." else f"{prefix}{name}.", above)


def endpoint_of(method: str, path: str) -> Endpoint | None:
    """The endpoint as the specification has it; None for an addition."""
    return ENDPOINTS.get((method, re.sub(r"{[^}]*}", "{}", path)))


def added_endpoints(document: Mapping[str, Any]) -> set[str]:
    """The endpoints of which the specification says nothing."""
    every = Description(document).operations()
    return {f"{method} {path}" for method, path, _ in every if endpoint_of(method, path) is None}


def added_parameters(document: Mapping[str, Any]) -> set[Addition]:
    """Parameters and headers of requests of specified endpoints."""
    described = Description(document)
    return {
        (name, f"{method} {path}")
        for method, path, operation in described.operations()
        if (endpoint := endpoint_of(method, path))
        for name, _ in described.parameters(operation)
        if name != FILTERS and name not in endpoint.query
    }


def added_attributes(document: Mapping[str, Any]) -> set[Addition]:
    """Attributes of bodies of specified endpoints."""
    described = Description(document)
    return {
        (name, f"{method} {path}")
        for method, path, operation in described.operations()
        if (endpoint := endpoint_of(method, path))
        for name in described.body(operation) - endpoint.body
    }


def added_properties(document: Mapping[str, Any]) -> set[Addition]:
    """Properties of answers of specified endpoints, successful ones and errors; a status that is not specified stands
    for all that its answer has."""
    described, additions = Description(document), set()
    for method, path, operation in described.operations():
        endpoint, place = endpoint_of(method, path), f"{method} {path}"
        if endpoint is None:
            continue
        for status, names, _ in described.answers(operation):
            if not status.startswith("2"):
                additions |= {(name, "every error") for name in names - ERROR - {"_embedded"}}
            elif status in endpoint.statuses:
                additions |= {(name, place) for name in names - endpoint.answer}
            else:
                additions.add((status, place))
    return additions


def added_headers(document: Mapping[str, Any]) -> set[str]:
    """Headers of answers of specified endpoints."""
    described = Description(document)
    named = {
        header
        for method, path, operation in described.operations()
        if endpoint_of(method, path)
        for _, _, headers in described.answers(operation)
        for header in headers
    }
    return {header for header in named if header.lower() not in HEADERS}


def added_events(document: Mapping[str, Any]) -> set[Addition]:
    """Events, with their objects."""
    additions = set()
    for properties in Description(document).events():
        (kind,) = properties["object"]["enum"]
        names = properties["event"].get("x-extensible-enum") or properties["event"]["enum"]
        additions |= {(event, kind) for event in set(names) - EVENTS.get(kind, frozenset())}
    return additions


def added_event_properties(document: Mapping[str, Any]) -> set[Addition]:
    """Properties of events of the specified objects."""
    additions = set()
    for properties in Description(document).events():
        (kind,) = properties["object"]["enum"]
        additions |= {(name, kind) for name in set(properties) - EVENT_FIELDS.get(kind, frozenset(properties))}
    return additions


def added_codes() -> set[str]:
    """Codes of errors."""
    return set(CATALOGUE) - CODES


def added_levels_and_scopes() -> set[str]:
    """Access levels, and scopes."""
    scopes = {scope for scopes in SCOPES_OF_LEVELS.values() for scope in scopes}
    return (set(SCOPES_OF_LEVELS) - LEVELS) | (scopes - SCOPES)
