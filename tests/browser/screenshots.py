"""`make screenshots`: pictures of every page in both schemes and on a telephone, in `var/screenshots`; with
`ARGS=--readme` the four of the README, in `docs/pictures`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from tests.browser.console import GONE, WatchedPage, launch_options, running_console

FOLDER = Path("var/screenshots")
PICTURES = Path("docs/pictures")
NAME_BY_PICTURE = {
    "overview": "overview",
    "message": "messages-one",
    "stored-message": "stored-messages-one",
    "group": "groups-one",
}
"""Picture of the README -> the name of its page."""
SCREENS = {"wide": (1280, 800), "telephone": (390, 844)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make screenshots")
    parser.add_argument("--readme", action="store_true", help="only the pictures of the README")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running_console() as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        account_page, installation_page = (WatchedPage(browser.new_context().new_page(), console) for _ in range(2))
        account_page.enter("standard")
        if given.readme:
            print(*_for_readme(account_page), sep="\n")
            browser.close()
            return 0
        installation_page.sign_in(console.link("--operator"))
        taken = [*_take(account_page, "account"), *_take(installation_page, "operator")]
        browser.close()
    print(f"{len(taken)} pictures in {FOLDER}")
    return 0


def _for_readme(watched: WatchedPage) -> Iterator[Path]:
    """The four pictures: what a screen of usual size shows of the pages."""
    watched.open(f"/console/messages?email={GONE}")
    message = str(watched.page.locator("main tbody th a").first.get_attribute("href"))
    watched.open("/console")
    paths = {name_of(path): path for path in watched.every_page()} | {"messages-one": message}
    watched.page.set_viewport_size({"width": SCREENS["wide"][0], "height": SCREENS["wide"][1]})
    for picture, name in NAME_BY_PICTURE.items():
        watched.open(paths[name])
        if picture == "stored-message":
            _preview(watched)
        file = PICTURES / f"{picture}.png"
        watched.page.screenshot(path=file)
        yield file


def _preview(watched: WatchedPage) -> None:
    """Shows a stored email as a contact of the demo gets it."""
    page = watched.page
    watched.open("/console/stored-messages/1")
    page.get_by_label("List, by name or id").fill("Customers")
    page.get_by_label("Email address").fill("ann@example.com")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("This preview uses the values of the contact").wait_for()
    page.get_by_role("button", name="Show the HTML").click()
    page.frame_locator("iframe.mail").locator("body *").first.wait_for()
    page.locator("#preview").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#preview').scrollIntoView()")


def _take(watched: WatchedPage, viewer: str) -> Iterator[Path]:
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
    return "-".join(part if part.replace("-", "").isalpha() else "one" for part in parts if part) or "overview"


if __name__ == "__main__":
    sys.exit(main())
