"""The names in five central modules can be read without the history of this repository: each word in them is one of
Python or a library, an attribute of the API, a term of docs/glossary.md, or plain English from the lists below."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.cases import each
from tests.support.sources import source

MODULES = (
    "blueprints.sends",
    "app.sends.accept.accept",
    "app.sends.delivery.drain",
    "app.events.dispatch",
    "app.contacts.update",
)
DOCS = Path(__file__).parents[2] / "docs"
API_PAGES = ("endpoints", "sending", "contacts", "webhooks", "requests")

PYTHON = """
    abc annotations append args atexit cache clear daemon dataclass dataclasses datetime discard encode exc
    exception frozen functools future get info init items join logger logging lower mapping monotonic partial register
    self sequence sleep target thread threading typing
"""
SQLALCHEMY = "alchemy bindparam c columns commit execute execution orm select sql sqlalchemy where"
FLASK_AND_HTTP = """
    agent context extra flask header headers json openapi parameters prefix response responses schema user view
    views
"""
LIBRARIES = frozenset(f"{PYTHON} {SQLALCHEMY} {FLASK_AND_HTTP}".split())

VERBS = """
    abort aborted add allow apply began changed collect confirmed decrypt defer delete describe encrypted end ended
    enqueue expired find fire has have log look may must pause paused poll prepare raise reassigned renew renewed
    renewing repeated require resolve run seen shrink skipped start stopping stored withdrawn written
"""
NOUNS = """
    answer builder changes clock database description failure grace half interval issuer job loop moment pairs
    second seconds settings table
"""
OTHERS = """
    after also and as at available before effective free gone idempotent idle left now once private public sendable
    since this unique unreadable unrecorded until with within
"""
ENGLISH = frozenset(f"{VERBS} {NOUNS} {OTHERS}".split())
"""Words that mean here what they mean everywhere. A word of the domain or of the machinery belongs in the glossary
instead."""


def names(module: str) -> Iterator[str]:
    """Every name in a module: of variables, functions, classes, parameters, attributes and modules."""
    for node in ast.walk(source(module).tree):
        for attribute in ("id", "attr", "name", "asname", "arg", "module"):
            if isinstance(name := getattr(node, attribute, None), str):
                yield from name.split(".")


def words(name: str) -> list[str]:
    """The words of a name: `snake_case`, `CamelCase` or both."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


@cache
def vocabulary() -> frozenset[str]:
    """The words of the glossary's terms and of the names in it, and those of the attributes of the API."""
    rows = re.findall(r"^\| (.+?) \| .+? \| (.+?) \|$", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)
    pages = [(DOCS / f"{page}.md").read_text("utf-8") for page in API_PAGES]
    attributes = [name for page in pages for name in re.findall(r"`([a-z_]+)`", page)]
    return frozenset(word for text in (*(cell for row in rows for cell in row), *attributes) for word in words(text))


def forms(word: str) -> set[str]:
    """The word, and those of which it is a plural or a participle."""
    stems = {word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ed"), word.removesuffix("d")}
    return stems | {word.removesuffix("ies") + "y", word.removesuffix("ing")}


@each("module", MODULES)
def test_every_name_is_standard_or_in_the_glossary(module: str) -> None:
    known = vocabulary() | LIBRARIES | ENGLISH
    used = {word: name for name in names(module) for word in words(name) if not hasattr(builtins, word)}
    assert {word: name for word, name in used.items() if not forms(word) & known} == {}
