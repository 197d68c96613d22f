"""`make screenshots`: pictures of every page in both schemes and on a telephone, in `var/screenshots`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from tests.browser.console import Watched, launch_options, running_console

FOLDER = Path("var/screenshots")
SCREENS = {"wide": (1280, 800), "telephone": (390, 844)}


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running_console() as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        of_account, of_installation = (Watched(browser.new_context().new_page(), console) for _ in range(2))
        of_account.enter("standard")
        of_installation.sign_in(console.link("--operator"))
        taken = [*_take(of_account, "account"), *_take(of_installation, "operator")]
        browser.close()
    print(f"{len(taken)} pictures in {FOLDER}")
    return 0


def _take(watched: Watched, viewer: str) -> Iterator[Path]:
    """One picture of each page for each screen and scheme."""
    for path in watched.every_page():
        for screen, (width, height) in SCREENS.items():
            watched.page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                watched.page.emulate_media(color_scheme=scheme)
                watched.open(path)
                file = FOLDER / f"{viewer}-{name_of(path)}-{screen}-{scheme}.png"
                watched.page.screenshot(path=file, full_page=True)
                yield file


def name_of(path: str) -> str:
    """The words of the path; `one` stands for an id."""
    parts = urlsplit(path).path.removeprefix("/console").strip("/").split("/")
    return "-".join(part if part.isalpha() else "one" for part in parts if part) or "overview"


if __name__ == "__main__":
    sys.exit(main())
