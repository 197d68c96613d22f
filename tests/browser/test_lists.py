"""What people do with lists and contacts in the console, by the names and roles that a screen reader says
(docs/console-contents.md#lists-and-contacts)."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.console import WatchedPage
from tests.browser.looks import faults_of

FILE = b"E-Mail,First Name\nlena@example.com,Lena\nnobody,Nils\n"


def test_a_file_is_imported_after_a_look_at_its_faults(watched: WatchedPage) -> None:
    watched.enter("standard")
    watched.expected |= {422}
    page = watched.page
    watched.go("People")
    page.get_by_role("link", name="Customers", exact=True).click()
    page.get_by_text("Import a CSV file").click()
    file = {"name": "people.csv", "mimeType": "text/csv", "buffer": FILE}
    page.get_by_label("File with a column for the email").set_input_files(file)
    page.get_by_role("button", name="Preview import").click()
    expect(page.get_by_role("alert")).to_contain_text("No column has the attribute email")
    page.get_by_label("Attribute of column 1").select_option("email")
    page.get_by_role("button", name="Update the preview").click()
    expect(page.get_by_role("main")).to_contain_text("1 contact would be created")
    expect(page.get_by_role("region", name="Faults")).to_contain_text("email must be an email address")
    assert faults_of(watched, "the preview") == []
    page.get_by_role("button", name="Leave out the faulty rows and import 1 row").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Customers")
    expect(page.get_by_role("link", name="lena@example.com")).to_be_visible()


def test_a_blind_reader_finds_why_a_contact_gets_nothing_and_ends_it(watched: WatchedPage) -> None:
    watched.enter("standard")
    page = watched.page
    watched.open("/console/lists")
    page.get_by_role("link", name="Customers", exact=True).click()
    page.get_by_label("Email address or mobile number").fill("quentin@example.com")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="quentin@example.com").click()
    reasons = page.get_by_role("region", name="Can this contact get messages?")
    expect(reasons).to_contain_text("quentin@example.com has been unsubscribed from the list Customers")
    page.get_by_role("button", name="Resubscribe quentin@example.com").click()
    page.get_by_role("button", name="Resubscribe address").click()
    expect(reasons).to_contain_text("This contact gets the messages of this list.")


def test_a_contact_is_forgotten_once_its_address_was_typed(watched: WatchedPage) -> None:
    watched.sign_in(watched.console.link())
    watched.expected |= {422}
    page, address = watched.page, "bruno@example.com"
    watched.open("/console/lists")
    page.get_by_role("link", name="Customers", exact=True).click()
    page.get_by_label("Email address or mobile number").fill(address)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=address).click()
    page.get_by_role("button", name=f"Show personal data of {address}").click()
    expect(page.get_by_role("region", name="Personal data by place")).to_contain_text("contacts with their list fields")
    assert faults_of(watched, "what is held") == []
    confirmation = page.get_by_label("Enter the address to confirm")
    confirmation.fill("bruno")
    page.get_by_role("button", name="Forget this person").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was removed")
    confirmation.fill(address)
    page.get_by_role("button", name="Forget this person").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Forgotten")
    assert faults_of(watched, "what was forgotten") == []
