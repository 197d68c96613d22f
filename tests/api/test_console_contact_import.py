"""Importing contacts in the console (docs/console-contents.md#importing-contacts)."""

from __future__ import annotations

import base64
import io
from html import unescape
from typing import Any

from sqlalchemy import select, update
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse, encode_multipart

from app.console.uploads import MAX_ROWS
from app.db.models import Contact, List
from app.distribution import COMMAND_LINE
from app.imports.rows import MAX_FIRST_ROWS
from tests.api.test_console_lists import PATH, acts
from tests.support.browser import SAME_ORIGIN, Browser, linked, signed_in, words
from tests.support.cases import each
from tests.support.foreign_files import FOREIGN_FILES
from tests.support.tenants import FULL_FIELDS, PLAIN_FIELDS, Tenant

SCRIPT = "<script>alert(1)</script>"


def upload(browser: Browser, list_id: int, content: bytes) -> TestResponse:
    file = FileStorage(io.BytesIO(content), filename="people.csv")
    # In memory: the client of the tests would leave a temporary file of a large one open.
    boundary, body = encode_multipart({"file": file})
    form = f'multipart/form-data; boundary="{boundary}"'
    path = f"{PATH}/{list_id}/import/preview"
    return browser.open("POST", path, data=body, content_type=form, headers=SAME_ORIGIN)


def send_back(
    browser: Browser, list_id: int, preview: TestResponse, columns: list[str], action: str = "", **more: str
) -> TestResponse:
    """Presses a button of the preview, with these attributes for the columns."""
    content, *previewed = (
        unescape(part.split('"')[0])
        for name in ("content", "shown")
        for part in preview.text.split(f'name="{name}" value="')[1:]
    )
    data = {"content": content, "shown": previewed, "column": columns, **more}
    return browser.open("POST", f"{PATH}/{list_id}/import{action}", data=data, headers=SAME_ORIGIN)


def contacts(tenant: Tenant, list_id: int) -> dict[str | None, dict[str, Any]]:
    """Email -> values of the contacts of the list."""
    with tenant.services.database.read() as session:
        columns: tuple[Any, ...] = (Contact.email, Contact.values)
        return {row[0]: row[1] for row in session.execute(select(*columns).where(Contact.list_id == list_id))}


FILE = "\n".join(
    [
        "E-Mail;first name;Plan;Fax;Spend",
        "ann@example.com;Ann;gold;1;1.5",
        "bob@example.com;'=1+1;;;",
        "cy@example.com;Cy;;;",
        "nobody;;;;",
        "dan@example.com;;silver;;",
        "eve@example.com;;;;much",
        "ANN@example.com;;;;",
        f"fay@example.com;{SCRIPT};;;;;",
        ";Gil;;;",
    ]
)
CHOSEN = ["email", "first_name", "plan", "", "spend"]


def test_a_preview_shows_counts_rows_and_faults_and_only_the_import_writes(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list("Own", fields=FULL_FIELDS), signed_in(tenant)
    tenant.new_contact(list_id, email="bob@example.com", last_name="Lee")
    tenant.new_contact(list_id, email="cy@example.com", first_name="Cy")
    first = upload(browser, list_id, FILE.encode("utf-8-sig"))
    assert first.status_code == 200
    assert "No column has the attribute email, which identifies the contacts of this list." in words(first)
    assert "<button" in first.text
    assert "Import 0" not in words(first)
    preview = send_back(browser, list_id, first, CHOSEN, "/preview")
    page = words(preview)
    assert "1 contact would be created, 1 changed, and 1 left unchanged." in page
    assert "Nothing has been imported yet." in page
    assert "6 faulty rows" in page
    for said in (
        "5 email must be an email address of at most 254 characters",
        "6 plan must be one of the field's options: free, gold.",
        "7 spend must be a number.",
        "8 email: line 2 already has it.",
        "9 has 7 cells, but the header has 5",
        "10 email is required",
        "2 ann@example.com Ann gold 1.5",
    ):
        assert said in page
    assert "<script>" not in preview.text
    assert contacts(tenant, list_id).keys() == {"bob@example.com", "cy@example.com"}
    assert acts(tenant) == []
    done = send_back(browser, list_id, preview, CHOSEN)
    assert (done.status_code, done.headers["Location"]) == (303, f"{PATH}/{list_id}")
    assert "The file was imported: 1 created, 1 changed." in words(browser.get(f"{PATH}/{list_id}"))
    assert contacts(tenant, list_id) == {
        "ann@example.com": {"first_name": "Ann", "plan": "gold", "spend": 1.5},
        "bob@example.com": {"first_name": "=1+1", "last_name": "Lee"},
        "cy@example.com": {"first_name": "Cy"},
    }
    assert acts(tenant) == [("list.imported", "Own", {"rows": 3})]


def test_a_downloaded_file_is_read_as_it_is_and_changes_nothing(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list(fields=FULL_FIELDS), signed_in(tenant)
    tenant.new_contact(list_id, email="ann@example.com", first_name="=1+1", last_name="a\nb", interests="tea,cake")
    preview = upload(browser, list_id, browser.get(f"{PATH}/{list_id}/contacts.csv").data)
    assert "0 contacts would be created, 0 changed, and 1 left unchanged." in words(preview)
    assert "faulty" not in words(preview)


def test_columns_that_were_not_shown_so_are_shown_before_they_are_imported(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list(), signed_in(tenant)
    preview = upload(browser, list_id, b"email,mobile\nann@example.com,61411111111\n")
    assert "1 contact would be created" in words(preview)
    for columns, said in (
        (["email", ""], "The result of this import has changed since the preview."),
        (["email", "email"], "Two columns have the attribute email. Leave one of them out."),
        (["email"], "Choose an attribute of the list for each column."),
        (["email", "colour"], "Choose an attribute of the list for each column."),
        ([], "Choose an attribute of the list for each column."),
    ):
        answer = send_back(browser, list_id, preview, columns)
        assert answer.status_code == 422
        assert said in words(answer)
    damaged = browser.post(f"{PATH}/{list_id}/import", content="§", column="email")
    assert damaged.status_code == 422
    assert "Choose the file again." in words(damaged)
    assert contacts(tenant, list_id) == {}
    tenant.new_contact(list_id, email="ann@example.com")
    assert send_back(browser, list_id, preview, ["email", "mobile"]).status_code == 303


def test_empty_cells_clear_only_where_the_box_says_so_and_that_was_shown(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list(), signed_in(tenant)
    tenant.new_contact(list_id, email="ann@example.com", first_name="Ann")
    columns = ["email", "first_name"]
    preview = upload(browser, list_id, b"email,first name\nann@example.com\n")
    assert "0 contacts would be created, 0 changed, and 1 left unchanged." in words(preview)
    assert "An empty cell leaves its field unchanged." in words(preview)
    unseen = send_back(browser, list_id, preview, columns, empty_clears="1")
    assert unseen.status_code == 422
    assert "The result of this import has changed since the preview. Check it, and then import." in words(unseen)
    cleared = send_back(browser, list_id, preview, columns, "/preview", empty_clears="1")
    assert "0 contacts would be created, 1 changed, and 0 left unchanged." in words(cleared)
    assert "An empty cell clears its field." in words(cleared)
    assert 'name="empty_clears" value="1" checked' in cleared.text
    assert send_back(browser, list_id, cleared, columns).status_code == 422
    assert contacts(tenant, list_id) == {"ann@example.com": {"first_name": "Ann"}}
    assert send_back(browser, list_id, cleared, columns, empty_clears="1").status_code == 303
    assert contacts(tenant, list_id) == {"ann@example.com": {}}


@each(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"email\n", "the file has no rows after the header"),
        (b"email\n" + b"a@example.com\n" * (MAX_ROWS + 1), "more than 5,000 rows"),
        (
            b"x" * (1024 * 1024 + 1),
            f"more than 1,048,576 bytes. Import it with `{COMMAND_LINE} contacts import FILE.csv`",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_so(tenant: Tenant, content: bytes, said: str) -> None:
    answer = upload(signed_in(tenant), tenant.add_list(), content)
    assert answer.status_code == 422
    assert said in words(answer)


def test_a_file_that_is_no_csv_is_refused(tenant: Tenant) -> None:
    (content, error), browser, list_id = FOREIGN_FILES[0], signed_in(tenant), tenant.add_list()
    answer = upload(browser, list_id, content)
    assert answer.status_code == 422
    assert f"{error}." in words(answer)
    sent_back = {"content": base64.urlsafe_b64encode(content), "column": ["email"], "shown": ["email", "1", "0"]}
    forged = browser.open("POST", f"{PATH}/{list_id}/import", data=sent_back, headers=SAME_ORIGIN)
    assert forged.status_code == 422
    assert f"{error}." in words(forged)


def test_of_many_faults_the_first_are_shown(tenant: Tenant) -> None:
    page = upload(signed_in(tenant), tenant.add_list(), b"email\na@example.com\n" + b"x\n" * (MAX_FIRST_ROWS + 5))
    assert f"{MAX_FIRST_ROWS + 5} faulty rows" in words(page)
    assert page.text.count("must be an email address") == MAX_FIRST_ROWS
    assert "Leave out the faulty rows and import 1 row" in words(page)


def test_lists_that_no_key_changes_and_lists_without_addresses_take_no_file(tenant: Tenant) -> None:
    bare, system = tenant.add_list(fields=(("Note", "Text Field"),)), tenant.add_list(fields=PLAIN_FIELDS)
    with tenant.services.database.write() as transaction:
        transaction.execute(update(List).where(List.id == system).values(system=True))
    assert "Import a CSV file" not in words(signed_in(tenant).get(f"{PATH}/{bare}"))
    assert upload(signed_in(tenant), bare, b"note\nx\n").status_code == 422
    assert upload(signed_in(tenant), system, b"email\na@example.com\n").status_code == 422
    browser = linked(tenant)
    preview = upload(browser, system, b"email\na@example.com\n")
    assert send_back(browser, system, preview, ["email"]).status_code == 303
    assert contacts(tenant, system).keys() == {"a@example.com"}
