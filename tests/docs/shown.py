"""Whether what a page shows is what the service gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

ANYTHING = "…"
"""In shown output: any text within a line."""


def same_text(shown: str, real: str) -> bool:
    """Whether the output is the shown one, line by line."""
    lines = [re.escape(line.rstrip()).replace(ANYTHING, ".*") for line in shown.strip("\n").splitlines()]
    return (
        re.fullmatch("\n".join(lines), "\n".join(line.rstrip() for line in real.strip("\n").splitlines())) is not None
    )


def documents(text: str) -> Iterator[Any]:
    """The JSON documents that were printed one after the other."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        found, position = decoder.raw_decode(text, position)
        yield found
        while position < len(text) and text[position].isspace():
            position += 1


def differences(shown: Any, real: Any, path: str = "") -> Iterator[str]:
    """Where a shown answer has something that the real one has not: properties, or values of other types. The values
    themselves are examples, and null stands for one of any type."""
    if shown is None or real is None:
        return
    if not _of_one_kind(shown, real):
        yield f"{path or 'the answer'} is {real!r}"
    elif isinstance(shown, dict):
        for name, value in shown.items():
            if name in real:
                yield from differences(value, real[name], f"{path}.{name}".lstrip("."))
            else:
                yield f"{path}.{name}".lstrip(".") + " is not there"
    elif isinstance(shown, list):
        for position, value in enumerate(shown):
            if all(any(differences(value, one)) for one in real):
                yield f"{path}[{position}] is like none of {real!r}"


def _of_one_kind(shown: Any, real: Any) -> bool:
    return type(shown) is type(real) or {type(shown), type(real)} == {int, float}


def schema_of(shown: Any, description: dict[str, Any]) -> str | None:
    """The name of a schema that has every property of the object and that it fits; None if there is none."""
    for name, schema in description["components"]["schemas"].items():
        if not isinstance(shown, dict) or not set(shown) <= set(schema.get("properties", ())):
            continue
        whole = {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
        if jsonschema_rs.is_valid(whole, shown):
            return str(name)
    return None
