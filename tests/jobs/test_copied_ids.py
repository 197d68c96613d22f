"""A test key names lists and messages by the ids of the originals, everywhere (docs/testing.md#copies)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.db.models import Contact, Event, List, Recipient
from app.sends.delivery.drain import drain
from tests.support.client import SENDS, Client, invalid, not_found
from tests.support.contacts import add_webhook
from tests.support.sends import SendsApi, rows_of
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_email, unique
from tests.support.testing import refreshed


@pytest.fixture
def sends(tenant: Tenant) -> SendsApi:
    """The live account."""
    return SendsApi(tenant)


@pytest.fixture
def message_id(sends: SendsApi) -> int:
    return sends.tenant.add_message(name="Welcome", body_text="Of list %%list_id%%")


@pytest.fixture
def test(sends: SendsApi, message_id: int) -> Tenant:
    assert sends.list_id
    return refreshed(sends.tenant)


test.__test__ = False  # type: ignore[attr-defined]


def items(api: Client, path: str, **params: Any) -> list[dict[str, Any]]:
    answer = api.get(path, params)
    assert answer.status_code == 200, answer.text
    (elements,) = answer.get_json()["_embedded"].values()
    return list(elements)


def send_with_message(sends: SendsApi, test: Tenant, message_id: int) -> str:
    """Sends the saved message to a new contact; returns the uuid of the recipient."""
    body = sends.email(subject=None, body_text=None, message_id=message_id)
    (uuid,) = SendsApi(test).send(body).uuids
    drain(test.services)
    return uuid


def test_lists_and_messages_are_shown_and_found_under_the_ids_of_the_originals(
    sends: SendsApi, test: Tenant, message_id: int
) -> None:
    live = sends.tenant
    for path, id_ in (("/v1/lists", sends.list_id), ("/v1/messages", message_id)):
        assert test.api.get(path).get_json() == live.api.get(path).get_json()
        assert test.api.get(f"{path}/{id_}").get_json() == live.api.get(f"{path}/{id_}").get_json()
        assert [len(items(test.api, path, id=searched_id)) for searched_id in (id_, id_ + 1, -id_)] == [1, 0, 0]
    content = f"/v1/messages/{message_id}/content?expand=message"
    assert test.api.get(content).get_json() == live.api.get(content).get_json()


def test_contacts_are_written_and_read_under_the_id_of_the_original_list(sends: SendsApi, test: Tenant) -> None:
    path = f"/v1/lists/{sends.list_id}/contacts"
    live = sends.tenant.new_contact(sends.list_id, email=new_email())
    made = test.api.post(path, {"email": new_email()}).get_json()
    assert made["list_id"] == sends.list_id
    assert made["_links"] == {
        "self": {"href": f"{path}/{made['id']}"},
        "list": {"href": f"/v1/lists/{sends.list_id}"},
    }
    assert test.api.get(f"{path}/{made['id']}").get_json() == made
    assert test.api.patch(f"{path}/{made['id']}", {"first_name": "Ann"}).get_json()["first_name"] == "Ann"
    assert [item["id"] for item in items(test.api, path)] == [made["id"]]
    assert [item["id"] for item in items(sends.tenant.api, path)] == [live["id"]]
    not_found(test.api.get(f"{path}/{live['id']}"))
    not_found(sends.tenant.api.get(f"{path}/{made['id']}"))
    assert test.api.delete(f"{path}/{made['id']}").status_code == 204
    assert len(rows_of(sends.tenant, Contact)) == 1
    expanded = test.api.get(f"/v1/lists/{sends.list_id}?expand=contacts").get_json()
    assert expanded["_embedded"]["contacts"]["_links"]["self"]["href"].startswith(path)


def test_a_send_names_the_originals_and_so_do_its_recipients_and_events(
    sends: SendsApi, test: Tenant, message_id: int
) -> None:
    add_webhook(test)
    uuid = send_with_message(sends, test, message_id)
    recipient = test.api.get(f"{SENDS}/{uuid}").get_json()
    assert (recipient["list_id"], recipient["message_id"]) == (sends.list_id, message_id)
    links = recipient["_links"]
    assert links["message"]["href"] == f"/v1/messages/{message_id}"
    for name in ("list", "contact", "message"):
        assert test.api.get(links[name]["href"]).status_code == 200
    events = [json.loads(row.payload) for row in rows_of(test, Event)]
    assert [(event["event"], event["list_id"], event.get("message_id")) for event in events] == [
        ("created", sends.list_id, None),
        ("sent", sends.list_id, message_id),
    ]
    (captured,) = items(test.api, "/v1/inbox")
    content = test.api.get(f"/v1/inbox/{captured['id']}").get_json()["content"]
    assert f"Of list {sends.list_id}" in content


def test_recipients_are_found_by_the_ids_of_the_originals(sends: SendsApi, test: Tenant, message_id: int) -> None:
    uuid = send_with_message(sends, test, message_id)
    sent_contacts = f"/v1/messages/{message_id}/sent-contacts"
    (sent,) = items(test.api, sent_contacts, list_id=sends.list_id)
    assert (sent["list_id"], sent["_links"]["list"]["href"]) == (sends.list_id, f"/v1/lists/{sends.list_id}")
    assert items(test.api, sent_contacts, list_id=sends.list_id + 1) == []
    assert items(sends.tenant.api, sent_contacts) == []
    for name, id_ in (("list_id", sends.list_id), ("message_id", message_id)):
        filters = {name: id_, f"{name}:in": f"{id_},1000000", f"{name}:ne": id_ + 1}
        missed = {name: id_ + 1, f"{name}:ne": id_, f"{name}:in": f"-{id_},0"}
        for filter_, value in filters.items():
            assert [recipient["uuid"] for recipient in items(test.api, SENDS, **{filter_: value})] == [uuid], filter_
        for filter_, value in missed.items():
            assert items(test.api, SENDS, **{filter_: value}) == [], filter_


def test_a_dry_run_names_the_originals(sends: SendsApi, test: Tenant, message_id: int) -> None:
    body = sends.email(subject=None, body_text=None, message_id=message_id)
    answer = test.api.post(f"{SENDS}?dry_run=true", body).get_json()
    assert (answer["list_id"], answer["message_id"]) == (sends.list_id, message_id)
    (recipient,) = answer["_embedded"]["recipients"]
    assert recipient["body_text"] == f"Of list {sends.list_id}"


def test_errors_name_the_originals(sends: SendsApi, test: Tenant) -> None:
    only_mobile = sends.tenant.add_list(fields=(("Mobile", "Mobile Phone"),))
    refreshed(sends.tenant)
    error = invalid(
        test.api.post(SENDS, sends.email(list_id=only_mobile)), "list_address_field_missing", field="list_id"
    )
    assert f"the list {only_mobile} has no field" in json.dumps(error)


def test_no_other_ids_lead_to_lists_and_messages(sends: SendsApi, test: Tenant, other_tenant: Tenant) -> None:
    """No list is found by an id of another account, nor by an id under which a copy is stored. The live key finds none
    by an id of the test account's own lists."""
    (copy,) = rows_of(test, List)
    foreign, own_list_id = other_tenant.add_list(), test.add_list(unique("own"))
    for id_ in (foreign, own_list_id + 1000, copy.id, -copy.id - 1000, 2**63 - 1):
        invalid(test.api.post(SENDS, sends.email(list_id=id_)), "invalid_id", field="list_id")
        not_found(test.api.get(f"/v1/lists/{id_}"))
        not_found(test.api.get(f"/v1/lists/{id_}/contacts"))
    for id_ in (foreign, own_list_id, copy.id):
        invalid(sends.tenant.api.post(SENDS, sends.email(list_id=id_)), "invalid_id", field="list_id")
        not_found(sends.tenant.api.get(f"/v1/lists/{id_}"))
    assert test.api.get(f"/v1/lists/{own_list_id}/contacts").status_code == 200
    SendsApi(test).send(sends.email(list_id=own_list_id))
    assert {row.list_id for row in rows_of(test, Recipient)} == {own_list_id}


def test_messages_of_others_cannot_be_sent_with_a_test_key(sends: SendsApi, test: Tenant, other_tenant: Tenant) -> None:
    foreign = other_tenant.add_message()
    for id_ in (foreign, -foreign, -sends.list_id, 0, True):
        answer = test.api.post(SENDS, sends.email(subject=None, body_text=None, message_id=id_))
        assert answer.status_code == 422, answer.text
        assert "message_id" in answer.text


def selects(counted: StatementCounter) -> int:
    return sum(statement.startswith("SELECT") for statement in counted.statements)


def test_a_test_key_costs_as_many_statements_as_a_live_key(sends: SendsApi, test: Tenant, message_id: int) -> None:
    counts = {}
    for name, api in (("live", sends.tenant.api), ("test", test.api)):
        for what, path in (("list", f"/v1/lists/{sends.list_id}"), ("contacts", f"/v1/lists/{sends.list_id}/contacts")):
            with StatementCounter(test.services.database.engine) as counted:
                assert api.get(path).status_code == 200
            counts[name, what] = selects(counted)
        with StatementCounter(test.services.database.engine) as counted:
            assert api.post(f"{SENDS}?dry_run=true", sends.email(message_id=message_id)).status_code == 200
        counts[name, "send"] = selects(counted)
    for what in ("list", "contacts", "send"):
        assert counts["test", what] == counts["live", what], what


def test_pages_of_lists_go_on_where_they_ended(sends: SendsApi, test: Tenant) -> None:
    for _ in range(4):
        sends.tenant.add_list()
    refreshed(sends.tenant)
    list_ids = {list_["id"] for list_ in items(sends.tenant.api, "/v1/lists")}
    path, seen = "/v1/lists?limit=2", []
    while path:
        page = test.api.get(path).get_json()
        seen += [list_["id"] for list_ in page["_embedded"]["lists"]]
        path = page["_links"].get("next", {}).get("href")
    assert len(seen) == 5
    assert set(seen) == list_ids
