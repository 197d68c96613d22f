"""Finding one's way in the console: the navigation and the search of everything
(docs/console.md#finding-your-way, docs/console.md#searching)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from app.clock import this_second
from app.db.models import Webhook
from app.http.console.navigation import AREAS, HOME, current_page
from app.http.console.pages import with_labels
from tests.support.browser import Browser, linked, operator, signed_in, words
from tests.support.cases import each
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, unique

SEARCH = f"{HOME}/search"


def matches(browser: Browser, text: str) -> dict[str, str]:
    """The names that the search of everything shows, and their paths."""
    answer = browser.get(SEARCH, query_string={"find": text})
    assert answer.status_code == 200, answer.text
    rows = re.findall(r'<th scope="row"[^>]*><a href="([^"]+)">([^<]+)</a>', answer.text)
    return {name: path for path, name in rows}


def test_there_are_at_most_seven_areas_and_each_page_and_key_is_there_once() -> None:
    pages = [page for area in AREAS for page in area.pages]
    assert len(AREAS) <= 7
    assert len({page.path for page in pages}) == len({page.key for page in pages}) == len(pages)


@each(
    ("path", "label"),
    [
        ("/console", "Overview"),
        ("/console/messages", "Messages"),
        ("/console/messages/0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10/content", "Messages"),
        ("/console/lists/5/contacts/7", "Lists"),
        ("/console/stored-messages/5/versions", "Stored messages"),
        ("/console/holds/preview", "Queue"),
        ("/console/messagesandmore", None),
        ("/console/search", None),
    ],
)
def test_a_page_belongs_to_the_page_of_the_navigation_above_it(path: str, label: str | None) -> None:
    page = current_page(path)
    assert (page.label if page else None) == label


def test_the_page_that_is_open_is_marked_also_on_pages_below_it(tenant: Tenant, sends: SendsApi) -> None:
    browser = signed_in(tenant)
    listed = browser.get(f"{HOME}/lists").text
    assert re.search(r'href="/console/lists" data-key="l" aria-current="page">Lists<', listed)
    assert re.search(r'class="current"><a href="/console/lists" aria-current="true">People<', listed)
    below = browser.get(f"{HOME}/lists/{sends.list_id}").text
    assert re.search(r'href="/console/lists" data-key="l" aria-current="true">Lists<', below)


def test_the_account_that_an_operator_has_chosen_is_kept(tenant: Tenant, sends: SendsApi) -> None:
    """By the navigation, by the links of tables, and after an action."""
    (uuid,) = sends.send(sends.email()).uuids
    browser, query = operator(tenant.app), f"account={tenant.id}"
    page = browser.get(f"{HOME}/messages?{query}")
    paths = re.findall(r'<a href="(/console/[^"]+)"', page.text)
    assert f"{HOME}/messages/{uuid}?{query}" in paths
    assert [path for path in paths if "/assets/" not in path and query not in path] == []
    assert f'<a class="account" href="/console?{query}">{tenant.name}</a>' in page.text
    below = browser.get(f"{HOME}/messages/{uuid}?{query}").text
    assert f'href="/console/groups?{query}"' in below
    done = browser.post(f"{HOME}/domains?{query}", name=f"{unique('kept')}.example")
    assert done.status_code == 303, done.text
    assert query in urlsplit(done.headers["Location"]).query


def test_a_part_of_a_name_finds_everything_that_has_it(tenant: Tenant, sends: SendsApi) -> None:
    part = unique("fox").replace("-", "")
    list_id = tenant.add_list(f"The {part} list")
    message_id = tenant.add_message(name=f"A {part.upper()} message")
    group = sends.send(sends.email(group_name=f"{part} group")).group
    names = matches(linked(tenant), part)
    assert names == {
        f"The {part} list": f"{HOME}/lists/{list_id}",
        f"A {part.upper()} message": f"{HOME}/stored-messages/{message_id}",
        f"{part} group": f"{HOME}/groups/{group.id}",
    }
    assert matches(linked(tenant), f"{part}_group") == {}, "no character stands for another"


def test_a_webhook_is_found_by_its_host_and_never_by_its_path(tenant: Tenant) -> None:
    moment = this_second()
    webhook_id = tenant.add(Webhook, url="https://hooks.example/secret-path", creation_time=moment, due_time=moment)
    browser = signed_in(tenant)
    assert matches(browser, "HOOKS") == {"hooks.example": f"{HOME}/webhooks/{webhook_id}"}
    assert matches(browser, "secret-pa") == {}
    assert "secret-path" not in browser.get(SEARCH, query_string={"find": "hooks"}).text


def test_a_search_shows_what_its_reader_may_see(tenant: Tenant) -> None:
    part = unique("owl").replace("-", "")
    tenant.add_list(f"{part} list")
    tenant.add_message(name=f"{part} message")
    assert set(matches(signed_in(tenant, "standard"), part)) == {f"{part} list", f"{part} message"}
    assert set(matches(signed_in(tenant, "report"), part)) == set()
    assert {"standard", "report"} & {name.split("-")[0] for name in matches(linked(tenant), "standard-")}, "keys"
    assert matches(signed_in(tenant), "standard-") == {}, "a key is no account's link"


@each("text", ["%00", "a%00b", "%ff", "%ed%a0%80", "%5C", "%25", "x" * 60_000, "", "%20"])
def test_whatever_is_searched_for_is_answered(tenant: Tenant, text: str) -> None:
    tenant.add_list()
    assert linked(tenant).get(f"{SEARCH}?find={text}").status_code == 200
    browser = operator(tenant.app)
    assert browser.get(f"{SEARCH}?find={text}").status_code == 200
    assert browser.get(f"{HOME}/lists?account_name={text}").status_code == 200


def test_a_search_finds_nothing_of_another_account(tenant: Tenant, other_tenant: Tenant) -> None:
    part = unique("elk").replace("-", "")
    tenant.add_list(f"{part} list")
    assert matches(linked(other_tenant), part) == {}


def test_an_address_finds_its_contacts_messages_and_suppressions(tenant: Tenant) -> None:
    list_id, address = tenant.add_list("Customers"), new_email("kim")
    contact = tenant.new_contact(list_id, email=address)
    browser = signed_in(tenant)
    assert matches(browser, address.upper()) == {
        f"{address.upper()} in Customers": f"{HOME}/lists/{list_id}/contacts/{contact['id']}"
    }
    page = browser.get(SEARCH, query_string={"find": address}).text
    assert f'<a href="/console/messages?email={address.replace("@", "%40")}">' in page
    assert f'<a href="/console/suppressions?email={address.replace("@", "%40")}">' in page
    assert matches(signed_in(tenant, "report"), address) == {}


def test_the_uuid_of_a_message_leads_to_the_message(tenant: Tenant, other_tenant: Tenant, sends: SendsApi) -> None:
    (uuid,) = sends.send(sends.email()).uuids
    answer = signed_in(tenant).get(SEARCH, query_string={"find": f" {uuid.upper()} "})
    assert (answer.status_code, answer.headers["Location"].lower()) == (303, f"{HOME}/messages/{uuid}")
    assert "Nothing else has" in words(signed_in(other_tenant).get(SEARCH, query_string={"find": uuid}))


def test_an_operator_finds_an_account_before_searching_in_it(tenant: Tenant, other_tenant: Tenant) -> None:
    browser = operator(tenant.app)
    page = browser.get(SEARCH, query_string={"find": tenant.name[3:].upper()}).text
    assert f'<a href="/console?account={tenant.id}">{tenant.name}</a>' in page
    assert f">{other_tenant.name}<" not in page
    assert "Find groups" in words(browser.get(f"{SEARCH}?account={tenant.id}"))


def test_each_cell_of_a_row_names_the_heading_of_its_column() -> None:
    table = (
        '<thead><tr><th scope="col">Name</th><th scope="col" class="number">Sent</th></tr></thead>'
        '<tbody><tr><th scope="row">A</th><td class="number">1</td><td>beyond</td></tr></tbody>'
    )
    assert with_labels(table) == (
        '<thead><tr><th scope="col">Name</th><th scope="col" class="number">Sent</th></tr></thead>'
        '<tbody><tr><th scope="row" data-label="Name">A</th><td data-label="Sent" class="number">1</td>'
        "<td>beyond</td></tr></tbody>"
    )
