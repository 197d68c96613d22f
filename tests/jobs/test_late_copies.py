"""Copies of lists and messages that processes of a release from before copies had the ids of their originals have made
during an upgrade (docs/testing.md#copies)."""

from __future__ import annotations

from sqlalchemy import select

from app.accounts.testing import renumber_late_copies
from app.db.models import List, Message, Recipient, Send
from app.ids import copied_id
from tests.support.client import SENDS
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email
from tests.support.testing import refreshed


def test_the_next_refresh_gives_them_the_ids_of_the_originals_and_everything_follows(tenant: Tenant) -> None:
    test = refreshed(tenant)
    list_id, message_id = tenant.add_list("Customers"), tenant.add_message(name="Welcome")
    late_list, late_message = test.add_list("Customers", copy_of=list_id), test.add_message(copy_of=message_id)
    address = new_email()
    test.new_contact(late_list, email=address)
    body = {"type": "email", "list_id": late_list, "message_id": late_message, "group_name": "Tests"}
    sent = SendsApi(test).send({**body, "recipients": [{"email": address}]})
    assert refreshed(tenant).id == test.id
    assert test.api.get(f"/v1/lists/{list_id}").get_json()["name"] == "Customers"
    contacts = test.api.get(f"/v1/lists/{list_id}/contacts").get_json()["_embedded"]["contacts"]
    assert [contact["email"] for contact in contacts] == [address]
    recipient = test.api.get(f"{SENDS}/{sent.uuids[0]}").get_json()
    assert (recipient["list_id"], recipient["message_id"]) == (list_id, message_id)
    copies = (copied_id(list_id), copied_id(message_id))
    with test.services.database.read() as session:
        for model in (Send, Recipient):
            found = session.execute(select(model.list_id, model.message_id).where(model.account_id == test.id))
            assert set(map(tuple, found)) == {copies}
        assert [session.get(List, late_list), session.get(Message, late_message)] == [None, None]
    with test.services.database.write() as transaction:
        assert renumber_late_copies(transaction, test.id) == 0
