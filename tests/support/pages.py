"""The Markdown pages of the repository, for tests of the pages themselves: their anchors, links and tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "clients" / "python" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)

FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]+`")
HEADING = re.compile(r"^#{1,6} +(.*?) *$", re.MULTILINE)
EXPLICIT_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
LINK = re.compile(r"\]\(([^()\s]+)\)")
MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)")
NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def without_code_blocks(page: Path) -> str:
    """The text of a page without its fenced code."""
    return FENCED.sub("", page.read_text("utf-8"))


def anchor_of(title: str) -> str:
    """The anchor that GitHub makes of a heading, the first of that name on its page."""
    return NOT_IN_ANCHORS.sub("", MARKUP.sub(r"\1", title).lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: those that GitHub makes of headings, and explicit ones."""
    text = without_code_blocks(page)
    names: set[str] = set(EXPLICIT_ANCHOR.findall(text))
    seen: Counter[str] = Counter()
    for title in HEADING.findall(text):
        name = anchor_of(title)
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(names)


def links(page: Path) -> Iterator[str]:
    """The targets of the links of a page that lead to files of this repository."""
    for target in LINK.findall(INLINE_CODE.sub("`code`", without_code_blocks(page))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def unresolved(target: str, folder: Path) -> str | None:
    """The reason why a link or citation is broken; None if it resolves. Its path is relative to `folder`."""
    path, _, anchor = target.partition("#")
    page = (folder / path).resolve()
    if not page.exists():
        return f"{target}: there is no such file"
    if anchor and anchor not in anchors(page):
        return f"{target}: the page has no such anchor"
    return None
