"""Recipients named by contact_id (docs/sending.md#recipients), from the request to the mail."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from app.sends.delivery.drain import drain
from tests.support.client import SENDS
from tests.support.tenants import Tenant, new_email


def test_the_message_goes_to_the_address_that_the_contact_has_when_it_is_sent(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    contact = tenant.new_contact(list_id, email=new_email("old"))
    body = {
        "type": "email",
        "list_id": list_id,
        "group_name": "g",
        "subject": "s",
        "body_text": "b",
        "recipients": [{"contact_id": contact["id"]}],
    }
    accepted = tenant.api.post(SENDS, body)
    uuid = accepted.get_json()["_embedded"]["recipients"][0]["uuid"]
    present = new_email("present")
    changed = tenant.api.patch(f"/v1/lists/{list_id}/contacts/{contact['id']}", {"email": present})
    assert (accepted.status_code, changed.status_code) == (202, 200)
    drain(tenant.services)
    folder = Path(urlsplit(tenant.services.settings.email_transport_url).path)
    assert f"To: {present}" in (folder / f"{uuid}.eml").read_text().splitlines()
