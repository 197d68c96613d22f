"""What there is to attack, read from the OpenAPI description that the running service serves: a new route, parameter or
attribute is attacked by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

METHODS = ("get", "post", "patch", "put", "delete")
PAGE_PARAMETERS = frozenset({"limit", "offset", "cursor", "fields", "_tz", "expand", "filters"})
"""Parameters of collections that are no filters."""
Path = tuple[str | int, ...]
"""The path of a value in a body: names of members and indexes of elements."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `scopes` are those of which a key needs one."""

    method: str
    path: str
    scopes: frozenset[str]
    filters: tuple[str, ...]
    is_collection: bool
    texts: tuple[Path, ...]
    references: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The method and the path, as in a request line."""
        return f"{self.method} {self.path}"

    @property
    def parameters(self) -> list[str]:
        """The names of its path parameters."""
        return re.findall(r"{(\w+)}", self.path)


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """All operations of a description."""
    return [
        _operation(document, method, path, item)
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]


def _operation(document: Mapping[str, Any], method: str, path: str, item: Mapping[str, Any]) -> Operation:
    described = item[method]
    given = [
        _resolved(document, parameter) for parameter in (*item.get("parameters", ()), *described.get("parameters", ()))
    ]
    query = [parameter["name"] for parameter in given if parameter["in"] == "query"]
    is_collection = "cursor" in query and "filters" in query
    schema = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    leaves = list(_leaves(document, schema, ()))
    return Operation(
        method.upper(),
        path,
        frozenset(described["x-required-scopes"]),
        tuple(name for name in query if name not in PAGE_PARAMETERS) if is_collection else (),
        is_collection,
        tuple(dict.fromkeys(where for where, kind in leaves if kind == "string")),
        tuple(dict.fromkeys(where for where, kind in leaves if kind == "integer")),
    )


def _resolved(document: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in node:
        target: Any = document
        for part in node["$ref"].split("/")[1:]:
            target = target[part]
        node = target
    return node


def _leaves(document: Mapping[str, Any], node: Mapping[str, Any], where: Path) -> Iterator[tuple[Path, str]]:
    """The texts and the integers of a body."""
    node = _resolved(document, node)
    for part_of_schema in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
        yield from _leaves(document, part_of_schema, where)
    for name, part_of_schema in node.get("properties", {}).items():
        yield from _leaves(document, part_of_schema, (*where, name))
    if "items" in node:
        yield from _leaves(document, node["items"], (*where, 0))
    kinds = node.get("type", ())
    for kind in ("string", "integer"):
        if where and kind in ([kinds] if isinstance(kinds, str) else kinds):
            yield where, kind


def changed(body: Any, where: Path, value: object) -> Any:
    """A copy of the body with the value in that place; missing objects and arrays on the way are added."""
    if not where:
        return value
    first, rest = where[0], where[1:]
    if isinstance(first, int):
        items = list(body or [])
        head = changed(items[0] if items else None, rest, value)
        return [head, *items[1:]]
    members = dict(body or {})
    members[first] = changed(members.get(first), rest, value)
    return members
