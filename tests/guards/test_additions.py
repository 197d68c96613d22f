"""docs/requests.md#additions lists all that the API has beyond its specification, and nothing else."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tests.support import additions
from tests.support.description import describe
from tests.support.sources import ROOT
from tests.support.specification import ENDPOINTS

SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\| --- .*\n((?:\|.*\n?)+)", re.MULTILINE)
EVERY_COLLECTION = {place for place, endpoint in ENDPOINTS.items() if {"limit", "offset"} <= endpoint.query}


def section(title: str) -> str:
    """The text of a section of the list."""
    _, _, text = (ROOT / "docs" / "requests.md").read_text("utf-8").partition("\n## Additions\n")
    sections: dict[str, str] = dict(SECTION.findall(text))
    return sections[title]


def tables(title: str) -> list[list[list[str]]]:
    """The cells of the tables of a section."""
    texts = TABLE.findall(section(title))
    return [[[cell.strip() for cell in row.strip("|").split(" | ")] for row in text.splitlines()] for text in texts]


def listed(title: str, number: int = 0) -> set[tuple[str, str]]:
    """Each name of the first column of a table with each place of the second."""
    return {
        (name, place)
        for first, second, *_ in tables(title)[number]
        for name in re.findall(r"`([^`]+)`", first)
        for place in places(second)
    }


def places(cell: str) -> set[str]:
    """Endpoints or objects that a cell names, or what it says in words about many."""
    named_places = set(re.findall(r"`([^`]+)`", cell))
    if "every collection" in cell:
        named_places |= {
            f"{method} {path}" for method, path, _ in _operations() if _short(method, path) in EVERY_COLLECTION
        }
    return named_places | ({"every error"} if "every error" in cell else set())


def _short(method: str, path: str) -> tuple[str, str]:
    return method, re.sub(r"{[^}]*}", "{}", path)


@cache
def document() -> dict[str, Any]:
    """The description of this version."""
    return describe()


def _operations() -> list[tuple[str, str, Any]]:
    return list(additions.Description(document()).operations())


def test_every_specified_endpoint_exists() -> None:
    assert set(ENDPOINTS) - {_short(method, path) for method, path, _ in _operations()} == set()


def test_it_lists_every_endpoint() -> None:
    endpoints = {name for row in tables("Endpoints")[0] for name in re.findall(r"`([^`]+)`", row[0])}
    managing = re.compile(r"\w+ (/v1/management/).*")
    assert endpoints == {managing.sub(r"\1…", endpoint) for endpoint in additions.added_endpoints(document())}


def test_it_lists_every_parameter() -> None:
    assert listed("Parameters") == additions.added_parameters(document())


def test_it_lists_every_attribute_of_a_body() -> None:
    assert listed("Attributes of bodies") == additions.added_attributes(document())


def test_it_lists_every_property_of_an_answer() -> None:
    assert listed("Properties of answers") == additions.added_properties(document())


def test_it_lists_every_header_of_an_answer() -> None:
    headers = {name for row in tables("Headers of answers")[0] for name in re.findall(r"`([^`]+)`", row[0])}
    assert headers == additions.added_headers(document())


def test_it_lists_every_event_and_every_property_of_one() -> None:
    assert listed("Events") == additions.added_events(document())
    assert listed("Events", 1) == additions.added_event_properties(document())


def test_it_lists_every_scope_level_and_code() -> None:
    named = set(re.findall(r"`([^`]+)`", section("Scopes and codes")))
    assert named == additions.added_levels_and_scopes() | additions.added_codes()
