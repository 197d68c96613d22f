"""What is the same on every page, file and form of the console: who sees it, and how it refuses
(docs/console-security.md). The pages are those of the routes: a new one is tested by itself. Which scopes each one
needs is written in tests/api/test_routes.py.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import delete

from app.accounts.auth import MANAGE, SCOPES, STANDARD
from app.accounts.sessions import OPERATOR
from app.db.models import SendPause
from tests.support.browser import HOME, SAME_ORIGIN, Browser, words
from tests.support.cases import each
from tests.support.console_pages import INSTALLATION_PARAMETERS, LEVELS, Estate, Page, names_in, private_pages
from tests.support.tenants import new_tenant

SIGN_OUT = f"{HOME}/sign-out"
MAY = {
    **{level: SCOPES[level] for level in LEVELS},
    "link": (*STANDARD, MANAGE),
    OPERATOR: (*STANDARD, MANAGE, OPERATOR),
}
"""Whoever is signed in -> their scopes."""
INSTALLATION_PAGES = frozenset(
    f"{HOME}{rule}" for rule in ("/accounts", "/accounts.csv", "/audit", "/audit.csv", "/roles")
)
"""Pages without an account."""
PAGES_OF_ALL_ACCOUNTS = INSTALLATION_PAGES | {
    f"{HOME}{rule}" for rule in ("", "/day.csv", "/queues", "/queues/pauses", "/search", "/sign-out")
}
"""Pages without an account, and those that show one account or all of them."""
WITHOUT_FILTERS = frozenset(
    f"{HOME}{rule}"
    for rule in (
        *("", "/day.csv", "/accounts", "/accounts.csv", "/domains", "/domains.csv", "/senders.csv", "/keys"),
        *("/keys.csv", "/people", "/queues", "/roles", "/search", "/webhooks", "/webhooks.csv"),
    )
)
FILTERED_BELOW = (
    *("/automations/<automation_id>", "/automations/<automation_id>/runs.csv"),
    *("/lists/<list_id>", "/lists/<list_id>/contacts.csv", "/webhooks/<webhook_id>"),
)
"""Searches of what lies below something else."""
MESSAGE_COLUMNS = (
    "uuid creation_time type email mobile state reason group_id message_id list_id contact_id attempts send_time "
    "first_open_time first_click_time tags metadata"
)
FILES = {
    "/accounts.csv": (
        "accounts.csv",
        "id name owner_email owner_confirmed allowed_networks default_from_name default_from_address brand_name "
        "brand_colour time_zone rate_limit track_opens track_clicks machine_events email_priority sms_priority "
        "retain_content retain_recipients retain_captured retain_logs retain_audit creation_time last_modified_time",
    ),
    "/audit.csv": (
        "audit.csv",
        "id time account_id action object object_id object_name address_digest actor_kind actor key_id source via "
        "request_id",
    ),
    "/automations.csv": (
        "automations.csv",
        "id name kind list_id trigger state version waiting held paused_time creation_time last_modified_time",
    ),
    "/automations/<automation_id>/runs.csv": (
        "runs.csv",
        "id contact_id version state reason step trigger_time due_time end_time",
    ),
    "/bulk-actions.csv": (
        "bulk-actions.csv",
        "id creation_time action query asked_by state messages done due_time end_time",
    ),
    "/day.csv": ("day.csv", "hour accepted delivered bounced failed opened clicked"),
    "/domains.csv": ("domains.csv", "id name verified trusted verified_time checked_time links return_path"),
    "/domains/<domain_id>/records.csv": ("records.csv", "purpose name type value state found"),
    "/senders.csv": ("senders.csv", "id address kind list_id list messages_per_second note creation_time"),
    "/inbox/folders.csv": ("folders.csv", "uuid creation_time type email mobile state in_folder"),
    "/groups.csv": (
        "groups.csv",
        "id name type creation_time last_sent_time sent failed_contacts bounced delivered opened clicked unsubscribed",
    ),
    "/groups/<group_id>/day.csv": ("day.csv", "hour accepted delivered bounced failed opened clicked"),
    "/holds.csv": ("held-messages.csv", "uuid creation_time due_time was type email mobile group_id"),
    "/suppressions.csv": ("suppressions.csv", "state kind address list_id list reason creation_time reply uuid"),
    "/inbox.csv": ("inbox.csv", "id captured_time type address sender subject blind_copy uuid"),
    "/keys.csv": (
        "keys.csv",
        "is_test state end_time list_name id name access_level token_hint creation_time last_used_time revoked_time",
    ),
    "/lists.csv": ("lists.csv", "id name contacts creation_time last_modified_time"),
    "/lists/<list_id>/contacts.csv": (
        "contacts.csv",
        "id email mobile first_name last_name plan interests spend score born visit reply_to subscribed.email "
        "subscribed.mobile is_active double_opt_in blocked.email blocked.mobile double_opt_in_time creation_time "
        "last_modified_time",
    ),
    "/messages.csv": ("messages.csv", MESSAGE_COLUMNS),
    "/messages/all.csv": ("messages.csv", MESSAGE_COLUMNS),
    "/stored-messages.csv": (
        "stored-messages.csv",
        "id name type subject from_name from_address reply_to thumbnail_url creation_time last_modified_time",
    ),
    "/webhooks.csv": (
        "webhooks.csv",
        "id host state failures failing_since waiting_seconds dropped_events",
    ),
    "/webhooks/<webhook_id>/deliveries.csv": (
        "deliveries.csv",
        "id time batch_id events status outcome milliseconds detail",
    ),
}
"""Path of each file -> the name under which browsers store it, and its columns."""


@pytest.fixture(scope="module")
def estate(app: Flask) -> Iterator[Estate]:
    """The account whose pages are looked at."""
    made = Estate(new_tenant(app))
    yield made
    _end_pauses(made)


@pytest.fixture(scope="module")
def neighbour(app: Flask) -> Iterator[Estate]:
    """Another account."""
    made = Estate(new_tenant(app))
    yield made
    _end_pauses(made)


def _end_pauses(of: Estate) -> None:
    with of.tenant.services.database.write() as transaction:
        transaction.execute(delete(SendPause).where(SendPause.account_id == of.tenant.id))


@pytest.fixture
def pages(app: Flask) -> list[Page]:
    return private_pages(app)


@pytest.fixture
def owned(pages: list[Page]) -> list[Page]:
    """Pages with a path parameter that belongs to an account."""
    return [page for page in pages if page.names and not set(page.names) <= INSTALLATION_PARAMETERS]


@pytest.fixture
def unchanged(estate: Estate, neighbour: Estate) -> Iterator[None]:
    """Checks that nothing that is stored of the accounts has changed after a test, whatever it asked for."""
    assert estate.sessions
    assert neighbour.sessions
    before = estate.rows(), neighbour.rows()
    yield
    assert (estate.rows(), neighbour.rows()) == before


@pytest.mark.usefixtures("unchanged")
def test_who_is_not_signed_in_is_sent_to_sign_in(app: Flask, estate: Estate, pages: list[Page]) -> None:
    browser = Browser(app)
    for page in pages:
        path = page.path(estate.ids)
        answer = browser.open(page.method, path, headers=SAME_ORIGIN)
        if page.method == "GET":
            assert (answer.status_code, f'name="wanted" value="{path}"' in answer.text) == (401, True), page
            part = browser.get(path, headers={"HX-Request": "true"})
            assert (part.status_code, part.text, part.headers["HX-Refresh"]) == (401, "", "true"), page
        else:
            assert (answer.status_code, answer.headers["Location"]) == (303, f"{HOME}/sign-in"), page


@each("who", MAY)
@pytest.mark.usefixtures("unchanged")
def test_who_has_none_of_its_scopes_is_refused(estate: Estate, pages: list[Page], who: str) -> None:
    browser = estate.sessions[who]
    for page in pages:
        if not page.scopes & set(MAY[who]):
            answer = browser.open(page.method, page.path(estate.ids), headers=SAME_ORIGIN)
            assert answer.status_code == 403, (who, page)
            text = words(answer)
            assert "You do not have permission to do this." in text, (who, page)
            assert re.search(f"This page needs the scope .*{'|'.join(page.scopes)}", text), (who, page)


@each("who", MAY)
def test_who_has_one_of_them_is_not(estate: Estate, pages: list[Page], who: str) -> None:
    browser, absent_ids = estate.sessions[who], dict.fromkeys(estate.ids, "x")
    for page in pages:
        if page.scopes & set(MAY[who]) and page.rule != SIGN_OUT:
            path = page.path(estate.ids if page.method == "GET" else absent_ids)
            assert browser.open(page.method, path, headers=SAME_ORIGIN).status_code not in (401, 403), (who, page)


def test_no_page_shows_what_only_the_program_knows(estate: Estate, pages: list[Page]) -> None:
    """A field of a form may have the name of a method."""
    for page in pages:
        if page.method == "GET" and page.rule != SIGN_OUT:
            answer = estate.sessions["link"].get(page.path(estate.ids))
            html = answer.data.decode(errors="replace")
            assert re.findall(r"&lt;(?:bound method|function|[\w.]+ object)[^&]*", html) == [], page


@each("who", MAY)
def test_the_menu_has_no_page_that_one_may_not_see(estate: Estate, pages: list[Page], who: str) -> None:
    menu = set(re.findall(r'href="([^"?]+)', estate.sessions[who].get(HOME).text))
    hidden = {page.rule for page in pages if page.method == "GET" and not page.scopes & set(MAY[who])}
    assert menu & hidden == set()


@pytest.mark.usefixtures("unchanged")
def test_what_belongs_to_another_account_does_not_exist(estate: Estate, neighbour: Estate, owned: list[Page]) -> None:
    """A page does not exist with all ids in its path from another account, nor with only the last one below the
    account's own."""
    browser, query = neighbour.sessions["link"], f"?account={estate.tenant.id}"
    for page in owned:
        last = page.names[-1]
        below = {**neighbour.ids, last: estate.ids[last]}
        for ids in (estate.ids, *([below] if last not in ("state", "version_number") else [])):
            for path in (page.path(ids), page.path(ids) + query):
                answer = browser.open(page.method, path, headers=SAME_ORIGIN)
                assert answer.status_code == 404, (page, path)
                assert "This could not be found." in words(answer), (page, path)


def test_no_page_says_anything_of_another_account(estate: Estate, neighbour: Estate, pages: list[Page]) -> None:
    """The query may name any account. The pages of the account itself show a lot."""
    query, own_names = f"?account={estate.tenant.id}", 0
    foreign = estate.names() - neighbour.names()
    for page in pages:
        if page.method == "GET" and not page.names:
            answer = neighbour.sessions["link"].get(page.rule + query, follow_redirects=True)
            assert names_in(answer.text) & foreign == set(), page
            own_names += len(names_in(estate.sessions["link"].get(page.rule).text) & foreign)
    assert own_names > 20


def test_to_its_own_account_it_does(app: Flask, owned: list[Page]) -> None:
    """Which proves that the other account was refused for what exists. What deletes is asked for last, and of that
    first what lies below something else."""
    own_estate = Estate(new_tenant(app))
    for page in sorted(owned, key=lambda page: (page.rule.endswith("/delete"), -len(page.names))):
        answer = own_estate.sessions[OPERATOR].open(page.method, page.path(own_estate.ids), headers=SAME_ORIGIN)
        assert answer.status_code in ((200,) if page.method == "GET" else (200, 303, 409, 422)), page
    _end_pauses(own_estate)


@each("wrong", ["x", "0", "-1", "9" * 18, "9" * 40, str(2**63), str(uuid4()), "..%2F1", "%00", "0b7c6a35-3c7f%00"])
@pytest.mark.usefixtures("unchanged")
def test_what_cannot_be_or_is_not_there_is_not_found(estate: Estate, pages: list[Page], wrong: str) -> None:
    browser = estate.sessions[OPERATOR]
    for page in pages:
        for name in set(page.names) - {"transport_name"}:
            path = page.path({**estate.ids, name: wrong})
            assert browser.open(page.method, path, headers=SAME_ORIGIN).status_code == 404, (page, path)


@pytest.mark.usefixtures("unchanged")
def test_an_operator_of_several_accounts_chooses_one(estate: Estate, pages: list[Page]) -> None:
    """On pages; what is no page says that there is no such account, or shows the choice too."""
    browser, query = estate.sessions[OPERATOR], f"?account={estate.tenant.id}"
    for page in pages:
        if page.names or page.rule in PAGES_OF_ALL_ACCOUNTS:
            continue
        answer = browser.open(page.method, page.rule, headers=SAME_ORIGIN)
        choice = answer.mimetype == "text/html" and "Choose an account" in words(answer)
        if page.method == "GET" and not page.is_file:
            assert (answer.status_code, choice) == (200, True), page
            chosen = browser.get(page.rule + query)
            assert chosen.status_code == 200, page
            assert "Choose an account" not in words(chosen), page
        else:
            assert (answer.status_code, choice) in ((404, False), (200, True)), page


@each("wrong", ["0", "x", "9" * 30])
def test_an_account_that_is_not_there_is_not_found(estate: Estate, pages: list[Page], wrong: str) -> None:
    """The file of the last hours is not checked: it is as empty as that of any account without messages."""
    for page in pages:
        if page.method == "GET" and not page.names and page.rule not in {*INSTALLATION_PAGES, f"{HOME}/day.csv"}:
            answer = estate.sessions[OPERATOR].get(f"{page.rule}?account={wrong}")
            assert answer.status_code == 404, page


def test_every_table_is_a_file_with_its_head(estate: Estate, pages: list[Page]) -> None:
    browser, query = estate.sessions[OPERATOR], f"?account={estate.tenant.id}"
    heads = {}
    for files in pages:
        if files.is_file:
            answer = browser.get(files.path(estate.ids) + query)
            assert answer.status_code == 200, files
            assert answer.headers["Content-Type"] == "text/csv; charset=utf-8", files
            assert answer.headers["Cache-Control"] == "no-store", files
            assert answer.headers["X-Content-Type-Options"] == "nosniff", files
            (name,) = re.findall(r'^attachment; filename="([a-z-]+\.csv)"$', answer.headers["Content-Disposition"])
            heads[files.rule.removeprefix(HOME)] = name, " ".join(next(csv.reader(io.StringIO(answer.text))))
    assert heads == FILES


def test_a_search_with_an_unknown_filter_is_refused(estate: Estate, pages: list[Page]) -> None:
    """On pages with their form; all others have no filters."""
    browser, query = estate.sessions[OPERATOR], f"?account={estate.tenant.id}&colour=red"
    refused = set()
    for page in pages:
        if page.method == "GET":
            answer = browser.get(page.path(estate.ids) + query)
            assert answer.status_code in (200, 400), page
            if answer.status_code == 400:
                assert re.search("colour(: this page does not have this| is not a query) parameter", words(answer)), (
                    page
                )
                refused.add(page.rule)
    listed = {page.rule for page in pages if page.method == "GET" and not page.names}
    assert refused == (listed - WITHOUT_FILTERS) | {f"{HOME}{rule}" for rule in FILTERED_BELOW}


@each(
    "headers", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://x.example"}]
)
@pytest.mark.usefixtures("unchanged")
def test_a_form_of_another_origin_is_refused(estate: Estate, pages: list[Page], headers: dict[str, str]) -> None:
    for page in pages:
        if page.method == "POST":
            answer = estate.sessions[OPERATOR].open("POST", page.path(estate.ids), headers=headers)
            assert answer.status_code == 403, page
            assert "This request did not come from a page of the console." in words(answer), page
