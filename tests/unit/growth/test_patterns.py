"""Every regular expression of the service reads any text in linear time, in each way in which it is used.

The expressions are found, not listed: a new one is measured, too. The texts are made of the characters that occur in
the expression: runs of one, runs behind another one, with an end that does not fit, and two in turn.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from tests.support.growth import MOST_GROWTH, growth, seconds
from tests.support.sources import Source, sources

LARGEST = 8 * 1024
"""Characters. Where the time is a square, this many take twenty times as long as `QUICK` allows."""
QUICK = 300e-9
"""Seconds for a character, in which nothing but a straight way leads through so many. What takes longer is measured
against shorter ones."""
COMMON = "a0 \n.,"
MOST_CHARACTERS = 10
METHODS = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")

MADE_LATER = {
    "app.settings": "reads settings, which the operator writes",
    "app.recipients.redaction": "is made of the names in the settings; a row in the table of readers reads with it",
    "app.sends.accept.stop_words": "is made of the words of a list; has_stop_word is in the table of readers",
    "app.http.html_pages": "reads a template of its own",
    "app.addresses": "is made of the numbering plans of the library, and reads 15 digits",
}
"""Modules that make expressions in functions: why they may."""


class Used(NamedTuple):
    """An expression, and a way in which some module uses it."""

    name: str
    pattern: re.Pattern[Any]
    method: str


@cache
def used() -> list[Used]:
    """Every expression of a module in every way in which the service uses it."""
    return [
        Used(f"{one.name}.{name}", pattern, method)
        for one in sources()
        for name, pattern in _patterns(one)
        for method in _methods(one, name)
    ]


def _patterns(one: Source) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Those that a module makes, alone or in a table."""
    if not any(isinstance(node, ast.Attribute) and node.attr == "compile" for node in ast.walk(one.tree)):
        return
    made = {
        target.id
        for node in one.tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else ())
        if isinstance(target, ast.Name)
    }
    for name, value in vars(importlib.import_module(one.name)).items():
        if name in made and isinstance(value, re.Pattern):
            yield name, value
        elif name in made and isinstance(value, dict):
            yield from ((name, pattern) for pattern in value.values() if isinstance(pattern, re.Pattern))


def _methods(one: Source, name: str) -> list[str]:
    """How it is used: by its own module, and under a public name by others. One that is handed on may be searched."""
    places = [one] if name.startswith("_") else sources()
    found = {method for place in places for method in re.findall(rf"\b{name}\.(\w+)\(", place.path.read_text("utf-8"))}
    return sorted(found & set(METHODS)) or ["search"]


def texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], Any]]:
    """Makers of texts of a length. A pattern of bytes gets bytes."""
    written = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    characters = "".join(dict.fromkeys(COMMON + re.sub(r"\\.|[()\[\]?|]", "", written)))[:MOST_CHARACTERS]

    def maker(begin: str, word: str, end: str) -> Callable[[int], Any]:
        def make(size: int) -> Any:
            text = begin + word * (size // len(word)) + end
            return text if isinstance(pattern.pattern, str) else text.encode()

        return make

    for one, other in itertools.product(characters, repeat=2):
        yield maker(other, one, "")
    for one, other in itertools.combinations(characters, 2):
        yield maker("", one + other, "!")
    for word in re.findall(r"[A-Za-z]{3,}", written)[:4]:
        yield maker("", word, "!")


def apply(one: Used) -> Callable[[Any], object]:
    """The use of an expression on a text; a search goes through all of it."""
    if one.method == "match":
        return one.pattern.match
    if one.method == "fullmatch":
        return one.pattern.fullmatch
    return lambda text: sum(1 for _ in one.pattern.finditer(text))


@pytest.mark.parametrize("one", used(), ids=lambda one: f"{one.name}.{one.method}")
def test_an_expression_reads_any_text_in_linear_time(one: Used) -> None:
    read = apply(one)
    for make in texts(one.pattern):
        if seconds(read, make(LARGEST), 1) > QUICK * LARGEST:
            assert growth(read, make, LARGEST) <= MOST_GROWTH, make(40)


def test_expressions_are_made_once() -> None:
    """So that they are found here. Those that are not have a reason."""
    found = {
        one.name
        for one in sources()
        for function in one.functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and isinstance(node.ctx, ast.Load)
        and node.attr in (*METHODS, "compile")
    }
    assert found == set(MADE_LATER)
