"""Every citation of a page resolves, and nothing is cited that is not in this repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.cases import each
from tests.support.pages import PAGES, anchors, links, unresolved

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "bench", "blueprints", "clients", "docs", "examples", "jobs", "schemas", "tests")
SUFFIXES = {".py", ".md", ".yaml", ".sh", ".html"}
LOOSE_FILES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "README.md",
    "gunicorn.conf.py",
    "pyproject.toml",
    "wsgi.py",
)

CITED = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
NAMED = re.compile(
    r"(?<![\w/.-])(?:app|bench|blueprints|clients|examples|jobs|schemas|tests)/[\w/]+(?:\.[a-z]+)?(?![\w*<{])"
)
TEXTS = "decision" + "s|specification|design|contract"
FOREIGN = re.compile(rf"(?i:\((?:[^()]*[ ;])?(?:{TEXTS}): [^()]*\))|\b(?i:{TEXTS})(?:[:,] [A-Z]|[:,]? \d)")
"""A citation by the name of such a text, in parentheses or at the start of a sentence."""


def is_there(named: str) -> bool:
    """Whether the path is a file or folder, or a module without its suffix."""
    return (ROOT / named).exists() or (ROOT / f"{named}.py").is_file()


def files() -> Iterator[Path]:
    """The source files and pages of the repository."""
    yield from (ROOT / name for name in LOOSE_FILES)
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)


def test_every_cited_page_and_anchor_exists() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {reason}"
        for path in files()
        for cited in CITED.findall(path.read_text("utf-8"))
        if (reason := unresolved(cited, ROOT))
    ]
    assert wrong == []


@each("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    wrong = [
        reason
        for target in links(page)
        if (reason := unresolved(page.name + target if target.startswith("#") else target, page.parent))
    ]
    assert wrong == []


def test_every_path_named_by_a_page_or_a_docstring_exists() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {named}"
        for path in files()
        for named in NAMED.findall(path.read_text("utf-8"))
        if path.name != "CHANGELOG.md" and not is_there(named)
    ]
    assert wrong == []


def test_nothing_outside_the_repository_is_cited() -> None:
    citing = [str(path.relative_to(ROOT)) for path in files() if FOREIGN.search(path.read_text("utf-8"))]
    assert citing == []


def test_anchors_are_those_that_github_makes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## `make run`\n\n## Links, that [lead](x.md) on\n\n## A page\n\n```\n# code\n```\n")
    assert anchors(page) == {"a-page", "make-run", "links-that-lead-on", "a-page-1"}
