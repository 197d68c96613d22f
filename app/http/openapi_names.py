"""Names for schemas that a declaration leaves without one (docs/openapi.md#schemas).

Generated code names an inline schema after its place, and a choice that may be null once for each of its parts.
"""

from __future__ import annotations

from typing import Any

from app.http.api import reference


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
