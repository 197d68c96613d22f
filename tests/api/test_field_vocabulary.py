"""Field types for plugins, tested over HTTP with a plugin (docs/body-errors.md#values-of-a-body)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app.settings import Settings
from tests.support.apps import app_with_plugins
from tests.support.cases import each
from tests.support.client import Client, invalid
from tests.support.plugins import install
from tests.support.tenants import new_tenant

PATH = "/v1/vocabulary"


@pytest.fixture(scope="module")
def with_plugin(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An application with the vocabulary installed as a package of its own."""
    folder: Path = tmp_path_factory.mktemp("plugin")
    with pytest.MonkeyPatch.context() as patch:
        install(folder, patch, {"vocabulary": "tests.support.vocabulary"})
        with app_with_plugins(settings) as app:
            yield app


@pytest.fixture(scope="module")
def client(with_plugin: Flask) -> Client:
    """A key of the application."""
    return new_tenant(with_plugin).client("report")


@each(
    "body",
    [
        {},
        {"word": "abc"},
        {"word": "🐝🐝🐝🐝🐝"},
        {"share": 0},
        {"share": 100.0},
        {"share": 0.5},
        {"weight": -1e300},
        {"price": 0.01},
        {"price": 7},
        {"flags": 0},
        {"flags": 4},
        {"flags": 5},
        {"parts": [{"name": "a"}, {"name": "b", "size": 2}]},
        {"words": []},
        {"words": ["a", "b"]},
    ],
)
def test_valid_values_are_accepted_unchanged(client: Client, body: dict[str, Any]) -> None:
    answer = client.post(PATH, body)
    assert answer.status_code == 200, answer.text
    assert answer.get_json() == body


@each(
    ("field", "value", "code"),
    [
        ("word", "ab", "too_short"),
        ("word", "abcdef", "too_long"),
        ("word", 5, "invalid_string"),
        ("word", None, "invalid_string"),
        ("share", -0.1, "invalid_range"),
        ("share", 100.1, "invalid_range"),
        ("share", "50", "invalid_number"),
        ("share", True, "invalid_number"),
        ("weight", None, "invalid_number"),
        ("weight", [], "invalid_number"),
        ("price", 0, "invalid_positive_number"),
        ("price", -1, "invalid_positive_number"),
        ("price", "1", "invalid_positive_number"),
        ("price", None, "invalid_positive_number"),
        ("price", True, "invalid_positive_number"),
        ("flags", 2, "invalid_bitfield"),
        ("flags", 7, "invalid_bitfield"),
        ("flags", -1, "invalid_bitfield"),
        ("flags", 1.0, "invalid_bitfield"),
        ("flags", False, "invalid_bitfield"),
        ("flags", "1", "invalid_bitfield"),
        ("flags", 2**64 - 1, "invalid_bitfield"),
        ("parts", {}, "invalid_collection"),
        ("parts", None, "invalid_collection"),
        ("parts", ["a"], "invalid_collection"),
        ("parts", [{"name": "a"}, None], "invalid_collection"),
        ("parts", [], "not_empty"),
        ("parts", [{"name": "a"}] * 4, "too_long"),
        ("words", {}, "invalid_array"),
        ("words", ["a", "b", "c"], "too_long"),
    ],
)
def test_an_invalid_value_has_its_own_code(client: Client, field: str, value: Any, code: str) -> None:
    body = invalid(client.post(PATH, {field: value}), code, field=field)
    assert field in body["developer_message"]


@each(
    ("body", "code", "where"),
    [
        ({"parts": [{"name": "a"}, {"size": 1}]}, "required", ("parts", 1, "name")),
        ({"parts": [{"name": ""}]}, "not_empty", ("parts", 0, "name")),
        ({"parts": [{"name": "a", "size": "x"}]}, "invalid_integer", ("parts", 0, "size")),
        ({"parts": [{"name": "a", "more": 1}]}, "unexpected_field", ("parts", 0, "more")),
        ({"words": ["a", 5]}, "invalid_string", ("words", 1, None)),
    ],
)
def test_errors_in_elements_name_collection_index_and_field(
    client: Client, body: dict[str, Any], code: str, where: tuple[str, int, str | None]
) -> None:
    collection, index, field = where
    invalid(client.post(PATH, body), code, collection=collection, index=index, field=field)


def test_the_openapi_description_contains_the_bounds(with_plugin: Flask) -> None:
    document = Client(with_plugin).get("/docs/openapi.json").get_json()
    assert document["components"]["schemas"]["Vocabulary"]["properties"] == {
        "word": {"type": "string", "minLength": 3, "maxLength": 5},
        "share": {"type": "number", "minimum": 0, "maximum": 100},
        "weight": {"type": "number"},
        "price": {"type": "number", "exclusiveMinimum": 0},
        "flags": {"type": "integer", "minimum": 0, "maximum": 5},
        "parts": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"$ref": "#/components/schemas/Part"},
        },
        "words": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "string", "minLength": 1, "maxLength": 10_000},
        },
    }
