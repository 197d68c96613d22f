"""Texts of a running service name commands as this installation spells them, and no file that a wheel lacks
(docs/cli.md)."""

from __future__ import annotations

import re
import tomllib

from tests.support.cases import each
from tests.support.shown_texts import BARE_COMMAND, shown_texts
from tests.support.sources import ROOT

LEFT_OUT = ("bench", "clients", "deploy", "docs", "examples", "tests", "tools")
"""Folders of the checkout that a wheel does not contain."""
LEFT_OUT_FILES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "Procfile",
    "README.md",
    "pyproject.toml",
    "requirements.lock",
)
_TARGETS = "|".join(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
UNKNOWN = re.compile(
    rf"\bflask --app|`flask |\bflask (?:run|[a-z-]+ (?:create|list|show|add))\b|`?\bmake (?:{_TARGETS})`"
    rf"|(?<![-\w/.])(?:{'|'.join(LEFT_OUT)})/|\b[\w-]+\.md\b|\b(?:{'|'.join(map(re.escape, LEFT_OUT_FILES))})"
)
"""What somebody who has installed the package does not have."""


def found_in(text: str) -> list[str]:
    """What the text should not name."""
    return [match[0] for pattern in (UNKNOWN, BARE_COMMAND) for match in pattern.finditer(text)]


def test_no_text_names_a_command_in_another_way_or_a_file_that_a_wheel_lacks() -> None:
    wrong = {(place, name) for place, text in shown_texts() for name in found_in(text)}
    assert wrong == set()


@each(
    "text",
    [
        "Run flask --app wsgi domains add NAME.",
        "no test keys yet: flask keys create NAME",
        "see `domains verify`",
        "then run db compact",
        "like `make run`",
        "read docs/install.md",
        "the unit in deploy/systemd",
        "as in the Procfile",
        "`status` says why",
    ],
)
def test_what_it_is_about_would_be_found(text: str) -> None:
    assert found_in(text)


@each("text", ["Run `tms domains add NAME`.", "/docs/errors", "domains show acme.example", "this makes it so"])
def test_what_every_installation_has_may_be_named(text: str) -> None:
    assert found_in(text) == []


def test_a_wheel_lacks_these_files() -> None:
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*LEFT_OUT, *LEFT_OUT_FILES}.isdisjoint(packed["only-include"])
    assert [name for name in (*LEFT_OUT, *LEFT_OUT_FILES) if not (ROOT / name).exists()] == []
