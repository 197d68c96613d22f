"""What people do with automations in the console, by the names and roles that a screen reader says
(docs/console-contents.md#automations)."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.console import WatchedPage
from tests.support.servers import wait_until

AUTOMATION = "Welcome gold customers"


def test_an_automation_is_paused_and_a_run_says_why_it_waits(watched: WatchedPage) -> None:
    watched.enter("standard")
    page, address = watched.page, "patient@customers.example"
    watched.go("Automations")
    page.get_by_role("link", name=AUTOMATION, exact=True).click()
    state, runs = page.locator(".title .state"), page.get_by_role("region", name="Runs", exact=True).last
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(state).to_have_text("paused")

    watched.console.enter(address)

    run = runs.get_by_role("row").filter(has_text=address)

    def is_in_state(state: str) -> bool:
        page.reload()
        return run.count() == 1 and state in run.inner_text()

    wait_until(lambda: is_in_state("held"), "the run falls due and is held")
    run.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(address)
    where = page.get_by_role("region", name="Progress")
    expect(where).to_contain_text("while the automation was paused. It is held until somebody resumes it")
    expect(where.locator("time")).to_have_count(1)

    page.get_by_role("link", name=AUTOMATION, exact=True).click()
    page.get_by_label("Steps that fell due during the pause").select_option("carry them out now")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Resume automation").click()
    expect(state).to_have_text("active")
    wait_until(lambda: is_in_state("ended"), "the run ends")
    run.get_by_role("link").click()
    page.get_by_role("link", name="View message").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(address)
