"""Every regular expression of the service reads any text in linear time, in each way in which it is used.

The expressions are found, not listed, so a new one is measured, too. The texts consist of characters that occur in the
expression: repetitions of one character, also after another one, with an end that does not match, and two alternating.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from tests.support.cases import each
from tests.support.growth import MOST_GROWTH, growth, seconds
from tests.support.sources import Source, sources

LARGEST = 8 * 1024
"""Characters. If the time is quadratic, this many take twenty times as long as `QUICK` allows."""
QUICK = 300e-9
"""Seconds per character, which is enough only for a linear pass over that many. Slower ones are compared with shorter
texts."""
COMMON = "a0 \n.,"
MOST_CHARACTERS = 10
METHODS = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")

COMPILED_LATER = {
    "app.settings": "reads settings, which the operator writes",
    "app.recipients.redaction": "is made of the names in the settings; a row in the table of readers reads with it",
    "app.sends.accept.senders": "is made of the words of a list; has_stop_word is in the table of readers",
    "app.http.html_pages": "reads a template of its own",
    "app.contacts.blocked": "is made of an address, as it stands; a reply has a thousand characters",
    "app.inbound.email.receive": "is made of up to ten addresses, unchanged; read_reports is in the table of readers",
    "app.addresses": "is made of the numbering plans of the library, and reads 15 digits",
}
"""Modules that make expressions in functions: why they may."""


class PatternUse(NamedTuple):
    """A regular expression, and a method that some module calls on it."""

    name: str
    pattern: re.Pattern[Any]
    method: str


@cache
def pattern_uses() -> list[PatternUse]:
    """Every expression of a module with every method that the service calls."""
    return [
        PatternUse(f"{source.name}.{name}", pattern, method)
        for source in sources()
        for name, pattern in _patterns(source)
        for method in _methods(source, name)
    ]


def _patterns(source: Source) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The expressions that a module compiles, alone or in a table."""
    if "compile" not in source.text:
        return
    assigned = {
        target.id
        for node in source.tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else ())
        if isinstance(target, ast.Name)
    }
    for name, value in vars(importlib.import_module(source.name)).items():
        if name in assigned and isinstance(value, re.Pattern):
            yield name, value
        elif name in assigned and isinstance(value, dict):
            yield from ((name, pattern) for pattern in value.values() if isinstance(pattern, re.Pattern))


def _methods(source: Source, name: str) -> list[str]:
    """The methods called on it: in its own module, and under a public name in others. Without a call it may be
    searched."""
    places = [source] if name.startswith("_") else sources()
    return sorted({method for place in places for called, method in _calls(place) if called == name}) or ["search"]


@cache
def _calls(source: Source) -> set[tuple[str, str]]:
    """The names on which a module calls a method of expressions, with the method; each source is searched once, for
    every process of the tests does this before its first test."""
    return set(re.findall(rf"\b(\w+)\.({'|'.join(METHODS)})\(", source.text))


def texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], Any]]:
    """Makers of texts of a length. A pattern of bytes gets bytes."""
    written = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    characters = "".join(dict.fromkeys(COMMON + re.sub(r"\\.|[()\[\]?|]", "", written)))[:MOST_CHARACTERS]

    def maker(begin: str, word: str, end: str) -> Callable[[int], Any]:
        def make(size: int) -> Any:
            text = begin + word * (size // len(word)) + end
            return text if isinstance(pattern.pattern, str) else text.encode()

        return make

    for first, second in itertools.product(characters, repeat=2):
        yield maker(second, first, "")
    for first, second in itertools.combinations(characters, 2):
        yield maker("", first + second, "!")
    for word in re.findall(r"[A-Za-z]{3,}", written)[:4]:
        yield maker("", word, "!")


def apply(use: PatternUse) -> Callable[[Any], object]:
    """Calls the method on a text; a search goes through the whole text."""
    if use.method == "match":
        return use.pattern.match
    if use.method == "fullmatch":
        return use.pattern.fullmatch
    return lambda text: sum(1 for _ in use.pattern.finditer(text))


@each("use", pattern_uses())
def test_an_expression_reads_any_text_in_linear_time(use: PatternUse) -> None:
    read = apply(use)
    for make in texts(use.pattern):
        if seconds(read, make(LARGEST), 1) > QUICK * LARGEST:
            assert growth(read, make, LARGEST) <= MOST_GROWTH, make(40)


def test_expressions_are_compiled_at_import() -> None:
    """These tests find only expressions that are compiled at import. Each exception has a reason."""
    modules = {
        source.name
        for source in sources()
        for function in source.functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and isinstance(node.ctx, ast.Load)
        and node.attr in (*METHODS, "compile")
    }
    assert modules == set(COMPILED_LATER)
