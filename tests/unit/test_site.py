"""What `make site` refuses (docs/development.md#pages)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.site import faults, unsearchable


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site of two pages, a style sheet and a script, with nothing wrong."""
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "style.css").write_text('/* https://a.example */ a { background: url("dot.svg") }')
    (tmp_path / "static" / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "static" / "search.js").write_text('fetch("index.json"); const space = "http://www.w3.org/2000/svg"')
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="static/style.css?v=1"><script src="static/search.js"></script>'
        '<a href="page.html#part">Part</a> <a href="#top">Top</a> <p id="top"> <a href="https://a.example/x">A</a>'
        '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">'
    )
    (tmp_path / "page.html").write_text('<link rel="next" href="index.html"><h2 id="part">Part</h2>')
    return tmp_path


def test_a_site_that_stands_alone_has_no_faults(site: Path) -> None:
    assert list(faults(site)) == []


@pytest.mark.parametrize(
    ("added", "fault"),
    [
        ('<a href="gone.html">', "gone.html: there is no such page"),
        ('<a href="page.html#gone">', "page.html#gone: the page has no such anchor"),
        ('<a href="../secret.html">', "../secret.html: there is no such page"),
        ('<a href="http://a.example/">', "http://a.example/: neither https nor a page of the site"),
        ('<link rel="next" href="gone.html">', "gone.html: there is no such page"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<script>import("//cdn.example/x.js")</script>', "loads //cdn.example/x.js"),
        ('<link rel="preconnect" href="https://fonts.example">', "loads https://fonts.example"),
        ('<img srcset="static/dot.svg 1x, https://cdn.example/2.png 2x">', "loads https://cdn.example/2.png"),
        ('<style>@import "https://fonts.example/a.css";</style>', "loads https://fonts.example/a.css"),
        ('<p style="background: url(//cdn.example/a.png)">', "loads //cdn.example/a.png"),
        ('<img src="static/gone.png">', "loads static/gone.png"),
    ],
)
def test_broken_links_and_whatever_comes_from_elsewhere_are_found(site: Path, added: str, fault: str) -> None:
    with (site / "index.html").open("a") as page:
        page.write(added)
    assert list(faults(site)) == [f"index.html: {fault}"]


def test_style_sheets_and_scripts_are_checked_too(site: Path) -> None:
    (site / "static" / "style.css").write_text("@font-face { src: url(https://fonts.example/a.woff2) }")
    (site / "static" / "search.js").write_text('worker.src = "https://cdn.example/worker.js"')
    assert list(faults(site)) == [
        "static/search.js: loads https://cdn.example/worker.js",
        "static/style.css: loads https://fonts.example/a.woff2",
    ]


def test_a_page_that_the_search_does_not_find_is_found(site: Path) -> None:
    assert list(unsearchable(site)) == [
        "index.html: is not in the search index",
        "page.html: is not in the search index",
    ]
    (site / "searchindex.js").write_text('Search.setIndex({"docnames":["index"],"terms":{}})')
    assert list(unsearchable(site)) == ["page.html: is not in the search index"]
    (site / "searchindex.js").write_text('Search.setIndex({docnames:["index", "page"]})')
    assert list(unsearchable(site)) == []
