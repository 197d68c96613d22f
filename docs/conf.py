"""The documentation as a site: `make site` (docs/development.md#pages).

The pages are plain Markdown, which forges show, too. What the site needs beside them is here: the order of the pages,
which is that of the links in index.md, and what Sphinx is to take from them.
"""

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "Transactional messaging service"
extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]
root_doc = "index"

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
smartquotes = False

myst_heading_anchors = 6
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]
suppress_warnings = [
    "misc.highlighting_failure",  # examples are shortened with an ellipsis
    "myst.xref_missing",  # explicit anchors are unknown to it; tests/support/site.py checks every link that was built
]

SECTION = re.compile(r"^## (.+)\n((?:.*\n)*?)(?=^## |\Z)", re.MULTILINE)
LINK = re.compile(r"^- \[[^\]]+\]\(([\w/-]+)\.md\)", re.MULTILINE)


def setup(app: Sphinx) -> None:
    """Extends Sphinx for these pages."""
    app.connect("source-read", add_order)
    app.add_lexer("csv", TextLexer)


def add_order(_app: Sphinx, name: str, source: list[str]) -> None:
    """Appends the navigation to the index, and to the README of a folder of pages."""
    if name == "index":
        for title, links in SECTION.findall(source[0]):
            source[0] += contents(LINK.findall(links), title)
    elif name.endswith("/README"):
        folder = (Path(__file__).parent / name).parent
        source[0] += contents(sorted(page.stem for page in folder.glob("*.md") if page.stem != "README"))


def contents(pages: list[str], title: str = "") -> str:
    """A list of pages that only the navigation shows."""
    options = [":hidden:", *([f":caption: {title}"] if title else [])]
    return "\n\n" + "\n".join(["```{toctree}", *options, "", *pages, "```"]) + "\n"
