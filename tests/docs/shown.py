"""Whether what a page shows is what the service gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

ANYTHING = "…"
"""In shown output: any text within a line."""


def same_text(expected: str, real: str) -> bool:
    """Whether the output is the shown one, line by line."""
    lines = [re.escape(line.rstrip()).replace(ANYTHING, ".*") for line in expected.strip("\n").splitlines()]
    return (
        re.fullmatch("\n".join(lines), "\n".join(line.rstrip() for line in real.strip("\n").splitlines())) is not None
    )


def documents(text: str) -> Iterator[Any]:
    """The JSON documents that were printed one after the other."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        document, position = decoder.raw_decode(text, position)
        yield document
        while position < len(text) and text[position].isspace():
            position += 1


def differences(expected: Any, real: Any, path: str = "") -> Iterator[str]:
    """The differences where a shown answer has something that the real one has not: properties, or values of other
    types. The values themselves are examples, and null stands for one of any type."""
    if expected is None or real is None:
        return
    if not _are_of_one_kind(expected, real):
        yield f"{path or 'the answer'} is {real!r}"
    elif isinstance(expected, dict):
        for name, value in expected.items():
            if name in real:
                yield from differences(value, real[name], f"{path}.{name}".lstrip("."))
            else:
                yield f"{path}.{name}".lstrip(".") + " is not there"
    elif isinstance(expected, list):
        for position, value in enumerate(expected):
            if all(any(differences(value, element)) for element in real):
                yield f"{path}[{position}] is like none of {real!r}"


def _are_of_one_kind(expected: Any, real: Any) -> bool:
    return type(expected) is type(real) or {type(expected), type(real)} == {int, float}


def schema_of(expected: Any, description: dict[str, Any]) -> str | None:
    """The name of a schema that has every property of the object and that it fits; None if there is none."""
    for name, schema in description["components"]["schemas"].items():
        if not isinstance(expected, dict) or not set(expected) <= set(schema.get("properties", ())):
            continue
        whole = {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
        if jsonschema_rs.is_valid(whole, expected):
            return str(name)
    return None
