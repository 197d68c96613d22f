"""Every page in both schemes and on a telephone: axe finds nothing serious, and nothing is wider than the screen
(docs/console.md)."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.console import Watched

SCREENS = ((1280, 800), (320, 640))
SERIOUS = ("serious", "critical")
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """[...document.querySelectorAll('button, input:not([type=hidden]), select, summary')]
    .filter((one) => one.checkVisibility())
    .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
    .filter(([, box]) => box.height < 24 || box.width < 24).map(([html]) => html)"""


@pytest.mark.parametrize("signed_in_as", ["operator", "standard", "report"])
def test_every_page_is_accessible(watched: Watched, signed_in_as: str) -> None:
    page, axe, faults = watched.page, Axe(), []
    if signed_in_as == "operator":
        watched.sign_in(watched.console.link("--operator"))
    else:
        watched.enter(signed_in_as)
    for path in watched.every_page():
        for width, height in SCREENS:
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                watched.open(path)
                shown = f"{path} at {width} in {scheme}"
                faults += [
                    f"{shown}: {one['id']} {[node['html'][:120] for node in one['nodes']]}"
                    for one in axe.run(page).response["violations"]
                    if one["impact"] in SERIOUS
                ]
                if wider := page.evaluate(WIDER):
                    faults.append(f"{shown}: wider than the screen by {wider} pixels")
                faults += [f"{shown}: smaller than 24 pixels: {one}" for one in page.evaluate(SMALL)]
    assert faults == []


def test_the_pages_before_signing_in_are_accessible(watched: Watched) -> None:
    watched.expected |= {404}
    faults = []
    for path in ("/console/sign-in", "/console/nowhere", watched.console.link()):
        for scheme in ("light", "dark"):
            watched.page.emulate_media(color_scheme=scheme)
            watched.open(path)
            found = Axe().run(watched.page).response["violations"]
            faults += [f"{path}: {one['id']}" for one in found if one["impact"] in SERIOUS]
    assert faults == []
