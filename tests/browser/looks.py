"""How a page looks: what axe finds, and what is wider than the screen or too small to press, in both schemes, on a wide
screen and on a telephone."""

from __future__ import annotations

from typing import Literal

from axe_playwright_python.sync_playwright import Axe

from tests.browser.console import WatchedPage

SCREENS = ((1280, 800), (320, 640))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SERIOUS = ("serious", "critical")
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """[...document.querySelectorAll('button, input:not([type=hidden]), select, summary')]
    .filter((one) => one.checkVisibility())
    .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
    .filter(([, box]) => box.height < 24 || box.width < 24).map(([html]) => html)"""


def faults_of(watched: WatchedPage, name: str) -> list[str]:
    """What is wrong with the page that is open. The page is not loaded again, because the answer to a form is there
    only once. Motion is reduced, so that no colour is still changing from one scheme to the other."""
    page, faults = watched.page, []
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            place = f"{name} at {width} in {scheme}"
            faults += [
                f"{place}: {violation['id']} {[node['html'][:120] for node in violation['nodes']]}"
                for violation in Axe().run(page).response["violations"]
                if violation["impact"] in SERIOUS
            ]
            if wider := page.evaluate(WIDER):
                faults.append(f"{place}: wider than the screen by {wider} pixels")
            faults += [f"{place}: smaller than 24 pixels: {element}" for element in page.evaluate(SMALL)]
    page.set_viewport_size({"width": SCREENS[0][0], "height": SCREENS[0][1]})
    page.emulate_media(color_scheme="light")
    return faults
