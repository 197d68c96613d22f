"""Names say what they name (docs/architecture.md#words)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "blueprints", "schemas", "jobs", "tests", "tools", "bench", "examples")
EMPTY_NAMES = {"one", "found", "wanted", "shown", "known", "own", "those"}
"""Names that tell nothing about a thing except that somebody has it in mind."""
IRREGULAR_PARTICIPLES = {"Built", "Found", "Held", "Kept", "Known", "Left", "Made", "Seen", "Sent", "Shown", "Told"}
NOUNS_IN_ED = {"Feed", "Need", "Seed", "Speed"}
VAGUE_CONSTANTS = {"BY", "KEPT", "MOST", "RECIPIENT", "SHOWN"}
"""Names of constants that name a kind, not what the constant is."""
REFUSED_NAMES = EMPTY_NAMES | VAGUE_CONSTANTS


def name_bound(node: ast.AST) -> str:
    """The name that the node gives to something, if it does."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return ""


def is_participle(name: str) -> bool:
    """Whether the name of a class is a participle alone, like `Rendered`."""
    words = "".join(" " + letter if letter.isupper() else letter for letter in name.lstrip("_")).split()
    return len(words) == 1 and (
        words[0] in IRREGULAR_PARTICIPLES or (words[0].endswith("ed") and words[0] not in NOUNS_IN_ED)
    )


def refused(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names of a module that the rule refuses."""
    for node in ast.walk(tree):
        name = name_bound(node)
        bare = name.lstrip("_")
        if bare in REFUSED_NAMES or bare.startswith("of_"):
            yield node.lineno, name  # type: ignore[attr-defined]
        elif isinstance(node, ast.ClassDef) and is_participle(name):
            yield node.lineno, name


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_an_empty_word(folder: str) -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.parent.name != "versions"  # a migration stays as it was released
        for line, name in refused(ast.parse(path.read_text("utf-8")))
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("found = 1", ["found"]),
        ("[one for one in ()]", ["one"]),
        ("def of_person(own): ...", ["of_person", "own"]),
        ("class Rendered: ...", ["Rendered"]),
        ("class _Kept: ...", ["_Kept"]),
        ("MOST = 3", ["MOST"]),
        ("class Feed:\n    found_at = 1", []),
        ("class RenderedMail: ...", []),
    ],
)
def test_the_rule_of_names_finds_what_it_refuses(code: str, names: list[str]) -> None:
    assert [name for _, name in refused(ast.parse(code))] == names


def test_no_module_of_the_product_looks_like_a_test() -> None:
    assert [
        path.relative_to(ROOT).as_posix()
        for folder in ("app", "blueprints", "schemas", "jobs")
        for path in (ROOT / folder).rglob("test_*.py")
    ] == []
