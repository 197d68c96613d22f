"""No view makes an answer whose size grows with the account, unless it is produced as its client reads it
(docs/proxy.md#slow-clients)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.cases import each
from tests.support.sources import ROOT

BOUND = "FILE_ROWS"
BOUNDED = {
    ("searches.py", "day_file"),  # the hours of a day
    ("domains.py", "records_file"),  # the records of one domain
    ("domains.py", "domains_file"),  # app.console.domains.MOST
    ("keys.py", "keys_file"),  # app.console.keys.MOST
    ("webhooks.py", "webhooks_file"),  # app.console.webhooks.MOST
}
"""Files whose rows something else bounds."""
STREAMED = {("messages.py", "all_messages"), ("people.py", "_export")}
"""Views whose answer has no bound: their tests show that they keep nothing while their reader takes its time."""
VIEWS = sorted([*(ROOT / "blueprints").rglob("*.py"), ROOT / "app" / "http" / "console" / "searches.py"])
MADE = ("csv_file", "table_file")
"""Functions that make a file at once."""


def calls(inside: ast.AST, *names: str) -> bool:
    """Whether the code calls a function of one of these names."""
    called = (node.func for node in ast.walk(inside) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id in names for function in called)


def definitions(path: Path) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """The classes and functions of a module."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node


def names(inside: ast.AST) -> set[str]:
    """The names that the code uses."""
    return {node.id for node in ast.walk(inside) if isinstance(node, ast.Name)}


@each("path", VIEWS)
def test_a_file_that_is_made_at_once_has_a_bound(path: Path) -> None:
    unbounded = [
        definition.name
        for definition in definitions(path)
        if definition.name not in MADE
        and calls(definition, *MADE)
        and BOUND not in names(definition)
        and (path.name, definition.name) not in BOUNDED
    ]
    assert unbounded == [], f"read no more rows than {BOUND}, or use csv_stream"


def test_what_is_streamed_has_its_tests() -> None:
    streamed = {
        (path.name, definition.name)
        for path in VIEWS
        for definition in definitions(path)
        if calls(definition, "csv_stream", "person_document")
    }
    assert streamed == STREAMED
