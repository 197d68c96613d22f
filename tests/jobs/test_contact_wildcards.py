"""Every attribute of a contact is a wildcard value (docs/personalisation.md#values), from the request to the mail."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import update

from app.contacts.suppress import block
from app.db.models import Account, Contact
from app.sends.delivery.drain import drain
from tests.support.client import SENDS
from tests.support.tenants import PLAIN_FIELDS, Tenant, new_email, new_mobile, new_tenant

NAMES = (
    *("id", "contact_id", "list_id", "creation_time", "last_modified_time", "email", "mobile"),
    *("subscribed_email", "subscribed_mobile", "blocked_email", "blocked_mobile"),
    *("is_active", "double_opt_in", "double_opt_in_time"),
)
TEMPLATE = "".join(f"{name}=%%{name}**none%%\n" for name in NAMES)


def values(text: str) -> dict[str, str]:
    """The values of the wildcards in the mails."""
    return dict(line.split("=", 1) for line in text.strip().splitlines())


def mailed(tenant: Tenant, list_id: int, recipients: list[dict[str, Any]], template: str = TEMPLATE) -> list[str]:
    """The texts of the mails as delivered."""
    body = {"type": "email", "list_id": list_id, "group_name": "g", "subject": "s", "body_text": template}
    accepted = tenant.api.post(SENDS, {**body, "track_clicks": False, "recipients": recipients})
    assert accepted.status_code == 202, accepted.text
    drain(tenant.services)
    folder = Path(urlsplit(tenant.services.settings.email_transport_url).path)
    uuids = [recipient["uuid"] for recipient in accepted.get_json()["_embedded"]["recipients"]]
    return [_text((folder / f"{uuid}.eml").read_bytes()) for uuid in uuids]


def _text(mail: bytes) -> str:
    part: Any = message_from_bytes(mail, policy=policy.default)
    return str(part.get_body(("plain",)).get_content())


def set_zone(tenant: Tenant, name: str) -> None:
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(time_zone=name))


def wildcard_values(contact: dict[str, Any]) -> dict[str, str]:
    """The contact of the API in the form in which wildcards show it."""
    flat = {**contact, "contact_id": contact["id"]}
    for noun in ("subscribed", "blocked"):
        flat |= {f"{noun}_{kind}": flag for kind, flag in contact[noun].items()}
    return {name: "none" if flat[name] is None else json.dumps(flat[name]).strip('"') for name in NAMES}


@pytest.mark.parametrize("zone", ["UTC", "Australia/Brisbane", "America/New_York"])
def test_every_attribute_is_a_wildcard_value_for_recipients_by_address_and_by_id(tenant: Tenant, zone: str) -> None:
    set_zone(tenant, zone)
    list_id = tenant.add_list()
    path = f"/v1/lists/{list_id}/contacts"
    ann = tenant.new_contact(
        list_id, email=new_email("Ann"), mobile=new_mobile(), subscribed={"mobile": False}, double_opt_in=True
    )
    bob = tenant.new_contact(list_id, email=new_email("bob"))
    with tenant.services.database.write() as transaction:
        block(transaction, tenant.id, "mobile", ann["mobile"], "test")
        long_ago = datetime.fromisoformat("2026-06-30T23:30:00+00:00")
        transaction.execute(update(Contact).where(Contact.id == bob["id"]).values(creation_time=long_ago))
    query = {} if zone == "UTC" else {"_tz": zone}
    expected = [wildcard_values(tenant.api.get(f"{path}/{person['id']}", query).get_json()) for person in (ann, bob)]
    assert (expected[0]["subscribed_mobile"], expected[0]["blocked_mobile"]) == ("false", "true")
    assert expected[1]["double_opt_in_time"] == "none"
    assert (
        expected[1]["creation_time"]
        == {
            "UTC": "2026-06-30T23:30:00Z",
            "Australia/Brisbane": "2026-07-01T09:30:00+1000",
            "America/New_York": "2026-06-30T19:30:00-0400",
        }[zone]
    )
    by_address = mailed(tenant, list_id, [{"email": ann["email"].upper()}, {"email": bob["email"]}])
    by_id = mailed(tenant, list_id, [{"contact_id": ann["id"]}, {"contact_id": bob["id"]}])
    assert list(map(values, by_address)) == list(map(values, by_id)) == expected


def test_a_contact_created_by_the_send_has_an_id(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    email = new_email()
    (text,) = mailed(tenant, list_id, [{"email": email}], "https://x.example/?c=%%id%%&a=%%is_active%%")
    (contact,) = tenant.api.get(f"/v1/lists/{list_id}/contacts", {"email": email}).get_json()["_embedded"]["contacts"]
    assert text.strip() == f"https://x.example/?c={contact['id']}&a=true"


def test_a_list_field_overrides_an_attribute_of_the_same_key_even_when_empty(tenant: Tenant) -> None:
    names = ("Contact ID", "Subscribed Email", "Blocked-Mobile", "Is Active", "ID")
    list_id = tenant.add_list(fields=(*PLAIN_FIELDS, *((name, "Text Field") for name in names)))
    ann = tenant.new_contact(list_id, email=new_email(), contact_id="C-17", subscribed_email="weekly")
    bob = tenant.new_contact(list_id, email=new_email())
    template = (
        "%%contact_id**-%%|%%subscribed_email**-%%|%%blocked_mobile**-%%|%%subscribed_mobile%%|%%is_active%%|%%id%%"
    )
    texts = mailed(tenant, list_id, [{"contact_id": ann["id"]}, {"email": bob["email"]}], template)
    assert [text.strip() for text in texts] == [f"C-17|weekly|-|true|true|{ann['id']}", f"-|-|-|true|true|{bob['id']}"]


def test_conditionals_see_attributes_and_values_of_the_request_override_them(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    template = (
        "%%double_opt_in:EXACTLY:true%%in%%double_opt_in:ELSE%%out%%double_opt_in:END%% "
        "%%creation_time:GREATERTHAN:2020-01-01%%new%%creation_time:END%% %%is_active%%"
    )
    texts = mailed(tenant, list_id, [{"email": new_email()}, {"email": new_email(), "IS_ACTIVE": "mine"}], template)
    assert [text.strip() for text in texts] == ["out new true", "out new mine"]


def test_a_time_in_a_condition_is_in_the_time_zone_of_the_account(tenant: Tenant) -> None:
    set_zone(tenant, "Australia/Brisbane")
    list_id = tenant.add_list()
    template = "%%at:GREATERTHAN:2026-01-31T10:00:00%%later%%at:ELSE%%earlier%%at:END%%"
    moments = ("2026-01-31T00:00:01Z", "2026-01-31T10:00:01", "2026-01-31T09:00:00", "2026-01-31T09:00:00Z")
    texts = mailed(tenant, list_id, [{"email": new_email(), "at": moment} for moment in moments], template)
    assert [text.strip() for text in texts] == ["later", "later", "earlier", "later"]


def test_a_text_to_a_mobile_knows_its_contact_only_in_a_list(tenant: Tenant) -> None:
    number, mobile = new_mobile(), new_mobile()
    tenant.add_sender(number)
    list_id = tenant.add_list()
    contact = tenant.new_contact(list_id, email=new_email(), mobile=mobile)
    body: dict[str, Any] = {"type": "sms", "group_name": "t", "from_address": number, "unsubscribe_type": "none"}
    body |= {
        "body_text": "%%id**none%%|%%email**none%%|%%mobile%%|%%is_active**none%%",
        "recipients": [{"mobile": mobile}],
    }
    answers = [tenant.api.post(SENDS, {**body, **more}).get_json() for more in ({"list_id": list_id}, {})]
    drain(tenant.services)
    folder = Path(urlsplit(tenant.services.settings.sms_transport_url).path)
    files = [folder / f"{answer['_embedded']['recipients'][0]['uuid']}.json" for answer in answers]
    assert [json.loads(file.read_text())["text"] for file in files] == [
        f"{contact['id']}|{contact['email']}|{mobile}|true",
        f"none|none|{mobile}|none",
    ]


def test_loading_many_contacts_takes_as_many_statements_as_one(
    tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    list_id = tenant.add_list()

    def cost(count: int) -> int:
        with count_statements() as counted:
            mailed(tenant, list_id, [{"email": new_email()} for _ in range(count)])
        return int(counted.count)

    cost(1)
    assert cost(50) <= cost(2) + 2  # a batch of several selects their sizes first, and may be written in two parts


def test_a_time_zone_that_is_no_longer_known_counts_as_utc(app: Any) -> None:
    tenant = new_tenant(app, time_zone="Mars/Olympus")
    (text,) = mailed(tenant, tenant.add_list(), [{"email": new_email()}], "%%creation_time%%")
    assert text.strip().endswith("Z")
