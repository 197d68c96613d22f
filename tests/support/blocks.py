"""The fenced code blocks of a Markdown page, with what a test needs to run them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pages import HEADING as TITLE_OF_SECTION
from tests.support.pages import anchor_of

FENCE = re.compile(r"( *)(`{3,}|~{3,}) *([^\s`]*) *([^`]*)")
TITLE = re.compile(r'title="([^"]+)"')
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")
HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)


@dataclass
class Block:
    """One block. `language` is the first word behind the fence, `title` the name of the file that it shows."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str
    section: str
    """The anchor of the heading above it."""
    before: str
    """The text between the last block, or the beginning of the page, and this one."""
    after: str = field(default="", repr=False)
    """The text between this block and the next one, or the end of the page."""

    @property
    def not_run(self) -> str | None:
        """The reason why it cannot be run, as the comment in front of it says."""
        comment = NOT_RUN.search(self.before)
        return comment[1] if comment else None

    @property
    def begins_section(self) -> bool:
        """Whether no other block stands between its heading and it."""
        return HEADING.search(self.before) is not None

    @property
    def place(self) -> str:
        """The page and the line of the block, for messages."""
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    page_blocks: list[Block] = []
    text: list[str] = []
    section = ""
    lines = enumerate(page.read_text("utf-8").splitlines(), 1)
    for number, line in lines:
        if not (opening := FENCE.fullmatch(line)):
            text.append(line)
            continue
        before = "\n".join(text)
        if page_blocks:
            page_blocks[-1].after = before
        section = ([section] + [anchor_of(title) for title in TITLE_OF_SECTION.findall(before)])[-1]
        title = TITLE.search(opening[4])
        inside = textwrap.dedent("".join(f"{line}\n" for line in _inside(lines, opening[2])))
        page_blocks.append(Block(page, number, opening[3], title[1] if title else None, inside, section, before))
        text = []
    if page_blocks:
        page_blocks[-1].after = "\n".join(text)
    return page_blocks


def _inside(lines: Iterator[tuple[int, str]], fence: str) -> Iterator[str]:
    for _, line in lines:
        if line.strip() == fence:
            return
        yield line
