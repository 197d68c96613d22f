"""Checks the built site (`make site`): every link leads to a page and an anchor that are there, every page is in the
search index, and nothing is loaded from elsewhere, so that it works offline and tells nobody who reads it.

    python -m tests.support.site FOLDER
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "input", "script", "source", "track", "video"), "src"),
    **{"image": "href", "link": "href", "object": "data", "use": "href"},
}
"""Element -> the attribute that makes a browser load something."""
IN_STYLES = re.compile(r"""(?:@import\s+|url\(\s*)["']?([^"')\s;]+)""")
IN_SCRIPTS = re.compile(r"""(?:fetch|import|importScripts|open|src|href)\s*[(=]\s*["'`]((?:https?:)?//[^"'`]+)""")
INDEXED = re.compile(r'"?docnames"?:\s*(\[[^]]*\])')
MADE_BY_SPHINX = {"genindex", "search"}
COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._inside = tag
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(LOADING.get(tag, "")):
            (self.links if given.get("rel") in RELATIONS else self.loads).append(given[LOADING[tag]])
        self.loads += [candidate.split()[0] for candidate in given.get("srcset", "").split(",") if candidate.strip()]
        self.loads += IN_STYLES.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.loads += (IN_STYLES if self._inside == "style" else IN_SCRIPTS).findall(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


RELATIONS = {"author", "canonical", "help", "index", "next", "prev", "search", "start", "up"}
"""The relations of `link` elements that load nothing."""


def faults(folder: Path) -> Iterator[str]:
    """What is wrong with the site."""
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if file.suffix == ".html":
            page = _page(file)
            yield from (f"{place}: {fault}" for link in page.links if (fault := _broken(link, file, folder)))
            yield from (f"{place}: loads {address}" for address in page.loads if not _is_there(address, file))
        elif file.suffix in (".css", ".js"):
            text = COMMENTS.sub("", file.read_text("utf-8", "replace"))
            addresses = (IN_STYLES if file.suffix == ".css" else IN_SCRIPTS).findall(text)
            yield from (f"{place}: loads {address}" for address in addresses if not _is_there(address, file))


def unsearchable(folder: Path) -> Iterator[str]:
    """The pages that the search does not find."""
    index = folder / "searchindex.js"
    match = INDEXED.search(index.read_text("utf-8")) if index.is_file() else None
    names = set(json.loads(match[1])) if match else set()
    for file in sorted(folder.rglob("*.html")):
        name = str(file.relative_to(folder).with_suffix(""))
        if name not in names | MADE_BY_SPHINX:
            yield f"{name}.html: is not in the search index"


@cache
def _page(file: Path) -> Page:
    return Page(file.read_text("utf-8"))


def _broken(link: str, file: Path, folder: Path) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None if parts.scheme in ("https", "mailto") else f"{link}: neither https nor a page of the site"
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_file() or folder.resolve() not in target.resolve().parents:
        return f"{link}: there is no such page"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _page(target).anchors:
        return f"{link}: the page has no such anchor"
    return None


def _is_there(loaded: str, file: Path) -> bool:
    parts = urlsplit(loaded)
    if parts.scheme == "data" or (not parts.path and parts.fragment):
        return True
    return not parts.scheme and not parts.netloc and (file.parent / unquote(parts.path)).is_file()


def main(folder: Path) -> int:
    """1 if anything is wrong."""
    wrong = [*faults(folder), *unsearchable(folder)]
    print(
        "\n".join(wrong) or f"{folder / 'index.html'}: {len(list(folder.rglob('*.html')))} pages, every link leads on"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
