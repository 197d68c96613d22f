"""Finds what in a new OpenAPI description breaks clients that were generated from an old one
(docs/openapi.md#breaking-changes).

What clients send may only widen, what they receive may only narrow, and no name that generated code contains may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Description = dict[str, Any]
VERBS = ("get", "post", "patch", "put", "delete")
UPPER = ("maxLength", "maxItems", "maximum")
LOWER = ("minLength", "minItems", "minimum")


def breaking_changes(old: Description, new: Description) -> list[str]:
    """One line per breaking change; empty if there is none."""
    return [
        *_operation_changes(old, new, "paths"),
        *_operation_changes(old, new, "webhooks"),
        *_schema_changes(old, new),
    ]


def _schema_changes(old: Description, new: Description) -> Iterator[str]:
    schemas = new["components"]["schemas"]
    yield from (f"schema {name} is gone" for name in old["components"]["schemas"] if name not in schemas)


def _operation_changes(old: Description, new: Description, section: str) -> Iterator[str]:
    for path, item in old.get(section, {}).items():
        for verb in VERBS:
            if verb in item:
                now = new.get(section, {}).get(path, {}).get(verb)
                place = f"{verb.upper()} {path}"
                if now is None:
                    yield f"{place} is gone"
                else:
                    yield from Comparison(old, new, is_webhook=section == "webhooks").operation(place, item[verb], now)


class Comparison:
    """Compares the parts of one operation. In a webhook the service sends the body, and the client receives it."""

    def __init__(self, old: Description, new: Description, *, is_webhook: bool) -> None:
        self._old, self._new = old, new
        self._is_webhook = is_webhook
        self._seen: set[tuple[str, str, bool]] = set()

    def operation(self, place: str, old: Description, new: Description) -> Iterator[str]:
        """What breaks in one operation."""
        if old.get("operationId") != new.get("operationId"):
            yield f"{place}: operationId {old.get('operationId')} is now {new.get('operationId')}"
        yield from self._parameters(place, old, new)
        before, now = old.get("requestBody"), new.get("requestBody")
        if now is not None and now.get("required") and not (before or {}).get("required"):
            yield f"{place}: a body is now required"
        yield from self._content(f"{place} body", before, now, received=self._is_webhook)
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"{place}: {status} is gone"
            else:
                yield from self._response(f"{place} {status}", response, new["responses"][status])

    def _parameters(self, place: str, old: Description, new: Description) -> Iterator[str]:
        before = self._named(self._old, old)
        now = self._named(self._new, new)
        for key, parameter in now.items():
            was_required = before.get(key, {}).get("required", False)
            if parameter.get("required") and not was_required and not self._is_webhook:
                yield f"{place}: {key} is now required"
        for key, parameter in before.items():
            if key not in now:
                yield f"{place}: {key} is gone"
            else:
                schemas = parameter["schema"], now[key]["schema"]
                yield from self._schema(f"{place} {key}", *schemas, received=self._is_webhook)

    @staticmethod
    def _named(document: Description, operation: Description) -> dict[str, Description]:
        parameters = [_resolved(document, parameter) for parameter in operation.get("parameters", ())]
        return {f"{parameter['in']} {parameter['name']}": parameter for parameter in parameters}

    def _response(self, place: str, old: Description, new: Description) -> Iterator[str]:
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        for header in old.get("headers", {}):
            if header not in new.get("headers", {}):
                yield f"{place}: header {header} is gone"
        yield from self._content(place, old, new, received=not self._is_webhook)

    def _content(
        self, place: str, old: Description | None, new: Description | None, *, received: bool
    ) -> Iterator[str]:
        for media_type, content in (old or {}).get("content", {}).items():
            now = (new or {}).get("content", {}).get(media_type)
            if now is None:
                yield f"{place}: {media_type} is gone"
            else:
                yield from self._schema(place, content["schema"], now["schema"], received=received)

    def _schema(self, place: str, old: Description, new: Description, *, received: bool) -> Iterator[str]:
        key = old.get("$ref", ""), new.get("$ref", ""), received
        if key in self._seen:
            return
        if key[0]:
            self._seen.add(key)
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        yield from _values(place, old, new, received=received)
        yield from self._properties(place, old, new, received=received)
        if "items" in old and "items" in new:
            yield from self._schema(f"{place}[]", old["items"], new["items"], received=received)
        for choice in ("oneOf", "anyOf"):
            for index, (before, now) in enumerate(zip(old.get(choice, ()), new.get(choice, ()), strict=False)):
                yield from self._schema(f"{place}({index})", before, now, received=received)

    def _properties(self, place: str, old: Description, new: Description, *, received: bool) -> Iterator[str]:
        before, now = old.get("properties", {}), new.get("properties", {})
        required_before, required = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted(before):
            if name not in now:
                yield f"{place}.{name} is gone"
            else:
                yield from self._schema(f"{place}.{name}", before[name], now[name], received=received)
        if received:
            yield from (f"{place}.{name} may now be absent" for name in sorted(required_before - required & set(now)))
        else:
            yield from (f"{place}.{name} is now required" for name in sorted(required - required_before))


def _values(place: str, old: Description, new: Description, *, received: bool) -> Iterator[str]:
    """Types, choices and bounds: those that a client sends may only widen, those that it receives only narrow."""
    wide, narrow = (old, new) if received else (new, old)
    if _types(narrow) - _types(wide):
        yield f"{place}: type {sorted(_types(old))} is now {sorted(_types(new))}"
    if "enum" in wide and ("enum" not in narrow or set(narrow["enum"]) - set(wide["enum"])):
        yield f"{place}: the choices {old.get('enum')} are now {new.get('enum')}"
    if old.get("format") != new.get("format"):
        yield f"{place}: format {old.get('format')} is now {new.get('format')}"
    if received:
        return
    for names, sign in ((UPPER, 1), (LOWER, -1)):
        for name in names:
            if name in new and (name not in old or sign * new[name] < sign * old[name]):
                yield f"{place}: {name} {old.get(name)} is now {new[name]}"
    if new.get("pattern") not in (None, old.get("pattern")):
        yield f"{place}: pattern {old.get('pattern')} is now {new['pattern']}"


def _types(schema: Description) -> set[str]:
    types = schema.get("type", ["array", "boolean", "integer", "null", "number", "object", "string"])
    return {types} if isinstance(types, str) else set(types)


def _resolved(document: Description, part: Description) -> Description:
    """The part, or the component to which it refers."""
    resolved = part
    while "$ref" in resolved:
        target: Any = document
        for name in resolved["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        resolved = target
    return resolved
