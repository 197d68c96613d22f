"""The address of the service (docs/openapi.md#reference)."""

from __future__ import annotations

from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client, not_found

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def test_it_leads_a_browser_to_the_console(anon: Client) -> None:
    answer = anon.get("/", headers={"Accept": BROWSER})
    assert (answer.status_code, answer.headers["Location"], answer.headers["Vary"]) == (302, "/console", "Accept")


@each("accept", ["application/json", "*/*", ""])
def test_it_tells_a_program_where_the_description_is(anon: Client, accept: str) -> None:
    answer = anon.get("/", headers={"Accept": accept})
    not_found(answer)
    assert answer.get_json()["developer_message"] == "The API begins at /v1/; /docs/openapi.json describes it."


def test_it_leads_a_browser_to_the_reference_where_the_console_is_off(settings: Settings) -> None:
    with app_with(settings, console=False) as app:
        assert Client(app).get("/", headers={"Accept": BROWSER}).headers["Location"] == "/docs"


def test_under_a_host_of_an_account_there_is_nothing(anon: Client) -> None:
    not_found(anon.get("/", headers={"Accept": BROWSER, "Host": "links.acme.example"}))


def test_the_description_begins_with_a_send(anon: Client) -> None:
    description = anon.get("/docs/openapi.json").get_json()["info"]["description"]
    assert description.startswith("## A first send")
    assert "/v1/transactional-sends \\\n" in description
