"""Every page in both schemes and on a telephone: axe finds nothing serious, and nothing is wider than the screen
(docs/console.md)."""

from __future__ import annotations

import pytest

from tests.browser.console import WatchedPage
from tests.browser.looks import faults_of


@pytest.mark.parametrize("signed_in_as", ["operator", "standard", "report"])
def test_every_page_is_accessible(watched: WatchedPage, signed_in_as: str) -> None:
    faults = []
    if signed_in_as == "operator":
        watched.sign_in(watched.console.link("--operator"))
    else:
        watched.enter(signed_in_as)
    for path in watched.every_page():
        watched.open(path)
        faults += faults_of(watched, path)
    assert faults == []


def test_the_pages_before_signing_in_are_accessible(watched: WatchedPage) -> None:
    watched.expected |= {404}
    faults = []
    for path in ("/console/sign-in", "/console/nowhere", watched.console.link()):
        watched.open(path)
        faults += faults_of(watched, path)
    assert faults == []


def test_the_pages_of_errors_are_accessible(watched: WatchedPage) -> None:
    """What does not exist, what one may not see, and what a form is refused for."""
    watched.expected |= {403, 404, 422}
    watched.enter("report")
    faults = []
    for path, title in (
        ("/console/messages/none", "This could not be found."),
        ("/console/suppressions", "You do not have permission to do this."),
    ):
        watched.open(path)
        assert watched.page.get_by_role("heading", level=1).inner_text() == title
        faults += faults_of(watched, path)
    page = watched.page
    page.get_by_role("link", name="Back to the overview").click()
    watched.go("Messages", "Groups")
    page.get_by_role("link", name="First steps").click()
    page.get_by_label("Compare with").fill("x")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("alert").wait_for()
    faults += faults_of(watched, "a form that is refused")
    assert faults == []


def test_the_preview_of_an_import_of_suppressions_is_accessible(watched: WatchedPage) -> None:
    watched.enter("standard")
    page = watched.page
    watched.open("/console/suppressions")
    watched.unfold("Import a CSV file")
    rows = b"address,state\nimported@customers.example,blocked\nnobody,blocked\n"
    page.get_by_label("File with a column").set_input_files(
        {"name": "rows.csv", "mimeType": "text/csv", "buffer": rows}
    )
    page.get_by_role("button", name="Preview import").click()
    page.get_by_role("region", name="Faults").wait_for()
    assert faults_of(watched, "the preview") == []
