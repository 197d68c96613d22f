"""`/v1/management`: what a key of the level manager sets up (docs/management.md)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update

from app.accounts.auth import SCOPES, hash_token
from app.clock import this_second, timestamp
from app.db.models import ApiKey, AuditEntry, IdempotencyRecord, List, ListField, MessageVersion, NetworkCheck, Webhook
from app.management.keys import LEVELS
from app.senders.senders import KINDS
from app.settings import Settings
from schemas import management as schemas
from tests.support.apps import app_with
from tests.support.browser import Browser, linked, words
from tests.support.cases import each
from tests.support.client import SENDS, Client, bad_query, check_error, conflict, ids, invalid, items, not_found
from tests.support.definitions import STANDARD
from tests.support.management import (
    ITEMS,
    MANAGEMENT,
    NOUNS,
    ROUTES,
    SECRET,
    bar_webhook,
    body_of,
    create,
    new_body,
    new_id,
    path_of,
)
from tests.support.races import at_once
from tests.support.tenants import Tenant, new_email, unique

MISSING = 2**62
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def manager(tenant: Tenant) -> Client:
    """A client with a key of the level manager."""
    return tenant.client("manager")


def path(collection: str, item: dict[str, Any] | int, rest: str = "") -> str:
    """The path of an item."""
    return f"{MANAGEMENT}/{collection}/{item if isinstance(item, int) else item['id']}{rest}"


def changed(manager: Client, collection: str, item: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The answer to a change, which is also what a later GET answers."""
    answer = manager.patch(path(collection, item), changes)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.get_json()
    assert manager.get(path(collection, item)).get_json() == body
    return body


def moment_of(text: str) -> datetime:
    """The time of an answer."""
    return datetime.fromisoformat(text)


def encoded(body: dict[str, Any] | None) -> bytes:
    """The bytes of a body."""
    return b"" if body is None else orjson.dumps(body)


def acts(tenant: Tenant) -> list[tuple[str | None, ...]]:
    """Action, kind of actor, actor and route of the entries of the audit log."""
    columns = AuditEntry.action, AuditEntry.actor_kind, AuditEntry.actor, AuditEntry.via
    with tenant.services.database.read() as session:
        entries = select(*columns).where(AuditEntry.account_id == tenant.id).order_by(AuditEntry.id)
        return [tuple(row) for row in session.execute(entries)]


def test_an_account_is_set_up_and_sends(tenant: Tenant, manager: Client) -> None:
    """From a list to a sent message, with the key that was made."""
    fields = [{"name": "Email", "type": "Email"}, {"name": "Plan", "type": "Dropdown", "options": ["free", "gold"]}]
    contact_list = create(tenant, "lists", name=unique("Members"), fields=fields)
    content = {"subject": "Hi %%plan**you%%", "from_name": "Acme", "from_address": f"hello@{tenant.domain}"}
    message = create(tenant, "messages", **content)
    shop = Client(tenant.app, create(tenant, "keys")["token"])
    email = new_email()
    body = {"email": email, "plan": "gold"}
    assert shop.post(f"/v1/lists/{contact_list['id']}/contacts", body).get_json()["plan"] == "gold"
    send = {"type": "email", "list_id": contact_list["id"], "message_id": message["id"], "group_name": "First"}
    accepted = shop.post(SENDS, {**send, "recipients": [{"email": email}]})
    assert accepted.status_code == 202, accepted.text
    (recipient,) = items(shop.get(SENDS), "recipients")
    assert (recipient["email"], recipient["message_id"]) == (email, message["id"])
    # What programs read is what was set up.
    assert (
        ids(shop.get("/v1/lists"), "lists") == ids(manager.get(f"{MANAGEMENT}/lists"), "lists") == [contact_list["id"]]
    )
    assert shop.get(f"/v1/messages/{message['id']}").get_json()["subject"] == content["subject"]


def test_the_choices_of_the_schemas_are_those_of_the_domain() -> None:
    assert (LEVELS, tuple(KINDS)) == (schemas.LEVELS, schemas.SENDER_KINDS)
    assert {*SCOPES} - {*LEVELS} == {"manager"}


# ---------------------------------------------------------------------------------------------- each noun


def test_a_list(tenant: Tenant, manager: Client) -> None:
    name, moment = unique("Members"), timestamp(this_second())
    fields = [{"name": "Email", "type": "Email"}, {"name": "Plan", "type": "Dropdown", "options": ["free"]}]
    made = create(tenant, "lists", name=f" {name} ", fields=fields, stop_words=["HALT"], offered=True)
    (email, plan) = made.pop("fields")
    assert {**made, "creation_time": moment, "last_modified_time": moment} == {
        "id": made["id"],
        **{"name": name, "system": False, "allow_duplicates": False, "stop_words": ["HALT"]},
        **{"offered": True, "offered_name": None, "offered_description": None},
        **{"creation_time": moment, "last_modified_time": moment},
        "_links": {
            "self": {"href": path("lists", made)},
            "contacts": {"href": f"/v1/lists/{made['id']}/contacts"},
        },
    }
    assert email == {"id": email["id"], "name": "Email", "key": "email", "type": "Email", "options": []}
    assert plan == {"id": plan["id"], "name": "Plan", "key": "plan", "type": "Dropdown", "options": ["free"]}
    more = [{"name": "Plan", "type": "Dropdown", "options": ["free", "gold"]}, {"name": "Score", "type": "Number"}]
    after = changed(manager, "lists", made, {"fields": more, "offered": False, "system": True})
    assert [field["id"] for field in after["fields"][:2]] == [email["id"], plan["id"]]
    assert [(field["name"], field["options"]) for field in after["fields"]] == [
        *(("Email", []), ("Plan", ["free", "gold"]), ("Score", []))
    ]
    assert (after["name"], after["offered"], after["system"]) == (name, False, True)
    without_options = changed(manager, "lists", made, {"fields": [{"name": "Plan", "type": "Dropdown"}]})
    assert without_options["fields"] == after["fields"]
    assert manager.delete(path("lists", made)).status_code == 204
    not_found(manager.get(path("lists", made)))


def test_a_list_with_contacts_is_deleted_if_the_query_says_so(
    tenant: Tenant, manager: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(tenant, "lists")
    for _ in range(2):
        tenant.new_contact(made["id"], email=new_email())
    refusal = conflict(manager.delete(path("lists", made)), field="confirm")
    assert "The list has 2 contacts" in refusal["developer_message"]
    bad_query(manager.delete(path("lists", made), {"confirm": "yes"}), "invalid_query_syntax", field="confirm")
    monkeypatch.setattr("app.contacts.counts.MAX_CONTACTS_AT_ONCE", 1)
    for answer in (
        manager.delete(path("lists", made), {"confirm": "contacts"}),
        manager.patch(path("lists", made), {"allow_duplicates": True}),
        manager.patch(path("lists", made), {"fields": [{"name": "Mobile", "type": "Mobile Phone"}]}),
    ):
        assert "more than 1 contacts" in conflict(answer)["developer_message"]
    assert changed(manager, "lists", made, {"name": unique("Renamed")})["allow_duplicates"] is False
    monkeypatch.undo()
    assert manager.delete(path("lists", made), {"confirm": "contacts"}).status_code == 204
    assert items(tenant.api.get("/v1/lists"), "lists") == []


def test_a_message_and_its_versions(tenant: Tenant, manager: Client) -> None:
    made = create(tenant, "messages", name=unique("Receipt"), body_html="<p>Hi</p>")
    moment = made["creation_time"]
    assert made == {
        "id": made["id"],
        **{"name": made["name"], "type": "email", "subject": "Hi %%first_name%%", "from_name": None},
        **{"from_address": None, "reply_to": None, "thumbnail_url": None, "creation_time": moment},
        **{"last_modified_time": moment, "body_html": "<p>Hi</p>", "body_text": "Hello"},
        "_links": {"self": {"href": path("messages", made)}},
    }
    (listed,) = items(manager.get(f"{MANAGEMENT}/messages"), "messages")
    assert listed.keys() == made.keys() - {"body_html", "body_text"}
    after = changed(manager, "messages", made, {"subject": "Bye", "body_html": None, "reply_to": ""})
    assert (after["subject"], after["body_html"], after["body_text"], after["reply_to"]) == ("Bye", None, "Hello", None)
    with tenant.services.database.read() as session:
        is_message = MessageVersion.account_id == tenant.id, MessageVersion.message_id == made["id"]
        columns = MessageVersion.number, MessageVersion.via, MessageVersion.changed
        versions = session.execute(select(*columns).where(*is_message).order_by(MessageVersion.number)).all()
    assert [tuple(version) for version in versions] == [
        (1, "POST /v1/management/messages", []),
        (2, "PATCH /v1/management/messages/<message_id>", ["subject", "body_html"]),
    ]
    assert changed(manager, "messages", made, {"subject": "Bye"})["last_modified_time"] == after["last_modified_time"]
    conflict(manager.patch(path("messages", made), {"type": "sms"}), field="type")
    assert manager.delete(path("messages", made)).status_code == 204
    not_found(tenant.api.get(f"/v1/messages/{made['id']}"))


def test_a_preview_shows_what_a_recipient_would_get(tenant: Tenant, manager: Client) -> None:
    made = create(tenant, "messages", from_name="Acme", from_address=f"hello@{tenant.domain}")
    preview = path("messages", made, "/preview")
    list_id = tenant.add_list()
    answer = manager.post(
        preview,
        {
            "list_id": list_id,
            "recipients": [{"email": "ann@example.com", "first_name": "Ann", "n": 1}],
            "body_text": "%%n%% %%x%%",
        },
    )
    assert answer.status_code == 200, answer.text
    body = answer.get_json()
    assert (body["outcome"], body["skip"], body["refusals"], body["invalid_markup"]) == ("send", None, [], [])
    assert (body["email"], body["subject"], body["body_text"]) == ("ann@example.com", "Hi Ann", "1 ")
    assert body["wildcards_without_value"] == [{"field": "body_text", "name": "x", "fallback": ""}]
    assert body["_links"] == {"self": {"href": preview}}
    without_sender = manager.post(preview, {"from_name": None}).get_json()
    assert without_sender["email"] == "someone@example.com"
    (refusal,) = without_sender["refusals"]
    assert refusal == {"code": "from_name_required", "detail": refusal["detail"]}
    invalid(
        manager.post(preview, {"recipients": [{"email": "x"}]}),
        "invalid_email_address",
        collection="recipients",
        index=0,
        field="email",
    )
    invalid(manager.post(preview, {"recipients": [None]}), "invalid_object", collection="recipients", index=0)
    invalid(manager.post(preview, {"recipients": [{}, {}]}), "too_long", field="recipients")
    (refusal,) = manager.post(preview, {"list_id": MISSING}).get_json()["refusals"]
    assert refusal["code"] == "invalid_id"
    assert items(tenant.api.get(SENDS), "recipients") == []


def test_a_webhook_and_its_secrets(tenant: Tenant, manager: Client) -> None:
    list_id = tenant.add_list()
    made = create(tenant, "webhooks", events=["contact.created", "recipient"], list_ids=[list_id])
    generated, (secret,) = made.pop("generated_secret"), made.pop("secrets")
    assert made.pop("events")[0] == "contact.created"
    assert made == {
        "id": made["id"],
        **{"url": made["url"], "list_ids": [list_id], "test": False, "is_checked": False, "refusal": None},
        **{"waiting_events": 0, "dropped_events": 0, "failures": 0, "failing_since": None},
        "creation_time": made["creation_time"],
        "_links": {"self": {"href": path("webhooks", made)}},
    }
    assert (generated["id"], len(generated["secret"]) >= 43) == ("k1", True)
    assert (secret["id"], secret.keys()) == ("k1", {"id", "creation_time"})
    assert "generated_secret" not in manager.get(path("webhooks", made)).get_json()
    after = changed(manager, "webhooks", made, {"events": None, "secrets": [{"id": "mine", "secret": SECRET}]})
    assert (after["events"], after["list_ids"]) == (None, [list_id])
    assert [secret["id"] for secret in after["secrets"]] == ["k1", "mine"]
    second = manager.post(path("webhooks", made, "/secrets"), {})
    assert (second.status_code, second.get_json()["generated_secret"]["id"]) == (201, "k2")
    given = manager.post(path("webhooks", made, "/secrets"), {"id": "own", "secret": SECRET}).get_json()
    assert "generated_secret" not in given
    for key_id in ("k1", "mine", "k2"):
        assert manager.delete(path("webhooks", made, f"/secrets/{key_id}")).status_code == 204
    not_found(manager.delete(path("webhooks", made, "/secrets/k1")))
    conflict(manager.delete(path("webhooks", made, "/secrets/own")), field="id")
    tested = manager.post(path("webhooks", made, "/test"), {})
    assert (tested.status_code, tested.get_json()["waiting_events"]) == (200, 1)
    assert manager.delete(path("webhooks", made)).status_code == 204
    assert items(manager.get(f"{MANAGEMENT}/webhooks"), "webhooks") == []


def test_nothing_is_sent_to_a_webhook_before_its_host_was_looked_up(settings: Settings, tenant: Tenant) -> None:
    """The request waits for no name server."""
    with app_with(settings, webhook_allow_private=False) as app:
        manager = Client(app, tenant.tokens["manager"])
        made = manager.post(f"{MANAGEMENT}/webhooks", new_body(tenant, "webhooks")).get_json()
        assert (made["is_checked"], made["refusal"]) == (True, None)
        with tenant.services.database.read() as session:
            checks = select(NetworkCheck.kind, NetworkCheck.object_id).where(NetworkCheck.account_id == tenant.id)
            assert session.execute(checks).all() == [("webhook", made["id"])]
        invalid(manager.post(f"{MANAGEMENT}/webhooks", {"url": "https://10.0.0.1/x"}), "invalid_url", field="url")
        bar_webhook(tenant, made["id"])
        refused = manager.get(path("webhooks", made)).get_json()
        assert (refused["is_checked"], refused["refusal"]) == (False, "leads to 10.0.0.1")
        again = manager.post(path("webhooks", made, "/check"), {})
        assert (again.status_code, again.get_json()["is_checked"]) == (202, True)


def test_a_domain_its_records_and_its_keys(tenant: Tenant, manager: Client) -> None:
    name = f"{unique('d')}.example"
    made = create(tenant, "domains", name=name.upper(), selector="spring", tracking_host=f"go.{name}")
    records, keys = made.pop("records"), made.pop("keys")
    assert made == {
        "id": made["id"],
        **{"name": name, "verified": False, "trusted": False, "verified_time": None, "checked_time": None},
        **{"is_checked": False, "tracking_host": f"go.{name}", "return_path_host": None},
        "creation_time": made["creation_time"],
        "_links": {"self": {"href": path("domains", made)}},
    }
    assert {(record["purpose"], record["name"], record["state"]) for record in records} >= {
        *(("spf", name, None), ("dkim", f"spring._domainkey.{name}", None), ("tracking", f"go.{name}", None))
    }
    assert [record["published"] for record in records] == [[]] * len(records)
    assert [(key["selector"], key["algorithm"], key["state"]) for key in keys] == [
        *(("spring", "rsa", "active"), ("spring-ed25519", "ed25519", "active"))
    ]
    invalid(
        manager.patch(path("domains", made), {"return_path_host": "elsewhere.example"}),
        "invalid_string",
        field="return_path_host",
    )
    assert changed(manager, "domains", made, {"tracking_host": None})["tracking_host"] is None
    rotated = manager.post(path("domains", made, "/rotate"), {"selector": "autumn"})
    states = {key["selector"]: key["state"] for key in rotated.get_json()["keys"]}
    assert (rotated.status_code, states["spring"], states["autumn"]) == (200, "active", "pending")
    conflict(manager.post(path("domains", made, "/rotate"), {}))
    asked = manager.post(path("domains", made, "/check"), {})
    assert (asked.status_code, asked.get_json()["is_checked"]) == (202, True)
    conflict(manager.post(f"{MANAGEMENT}/domains", {"name": name}), field="name")
    assert manager.delete(path("domains", made)).status_code == 204
    not_found(manager.get(path("domains", made)))


def test_a_sender_is_changed_and_withdrawn_but_not_approved(tenant: Tenant, manager: Client) -> None:
    sender_id, list_id = tenant.add_sender("61400000123"), tenant.add_list()
    changes = {"kind": "number", "list_id": list_id, "messages_per_second": 2.5, "note": "Parcels"}
    after = changed(manager, "senders", {"id": sender_id}, changes)
    assert after == {
        **{"id": sender_id, "address": "61400000123", **changes, "creation_time": after["creation_time"]},
        "_links": {"self": {"href": path("senders", sender_id)}},
    }
    check_error(manager.post(f"{MANAGEMENT}/senders", {"address": "ACME"}), 405, "method_not_allowed")
    assert manager.delete(path("senders", sender_id)).status_code == 204
    assert items(manager.get(f"{MANAGEMENT}/senders"), "senders") == []


def test_a_key_and_its_token(tenant: Tenant, manager: Client) -> None:
    list_id, name = tenant.add_list(), unique("shop")
    made = create(tenant, "keys", name=name, list_id=list_id)
    token = made.pop("token")
    assert made == {
        "id": made["id"],
        **{"name": name, "access_level": "standard", "list_id": list_id, "test": False, "begins_with": token[:8]},
        **{"creation_time": made["creation_time"], "last_used_time": None, "valid_until": None},
        **{"expiry_time": None, "revoked_time": None, "_links": {"self": {"href": path("keys", made)}}},
    }
    client = Client(tenant.app, token)
    assert client.get("/v1/lists").status_code == 200
    assert changed(manager, "keys", made, {"access_level": "report", "list_id": None})["list_id"] is None
    check_error(client.get("/v1/lists"), 403, "permission_denied")
    before = this_second()
    rotated = manager.post(path("keys", made, "/rotate"), {"overlap_hours": 24})
    successor = rotated.get_json()
    former = successor["former_key"]
    assert (rotated.status_code, successor["name"], former["id"]) == (201, name, made["id"])
    assert before <= moment_of(former["valid_until"]) - timedelta(days=1) <= this_second()
    assert [client.get("/v1").status_code, Client(tenant.app, successor["token"]).get("/v1").status_code] == [200, 200]
    assert manager.delete(path("keys", successor)).status_code == 204
    for secret in (token, successor["token"]):
        check_error(Client(tenant.app, secret).get("/v1"), 401, "api_key_invalid")
    assert manager.get(path("keys", successor)).get_json()["revoked_time"] is not None
    conflict(manager.post(path("keys", successor, "/rotate"), {}), field="name")
    assert changed(manager, "keys", create(tenant, "keys"), {"expiry_time": "2027-01-31T10:00:00+10:00"})[
        "expiry_time"
    ] == ("2027-01-31T00:00:00Z")


def test_test_keys_and_test_webhooks_are_those_of_the_test_account(tenant: Tenant, manager: Client) -> None:
    list_id = tenant.add_list()
    key = create(tenant, "keys", test=True, list_id=list_id)
    webhook = create(tenant, "webhooks", test=True, list_ids=[list_id])
    live = create(tenant, "keys"), create(tenant, "webhooks")
    assert (key["test"], key["list_id"], webhook["test"], webhook["list_ids"]) == (True, list_id, True, [list_id])
    assert ids(Client(tenant.app, key["token"]).get("/v1/lists"), "lists") == [list_id]
    for noun, item, other in (("keys", key, live[0]), ("webhooks", webhook, live[1])):
        listed = ids(manager.get(f"{MANAGEMENT}/{noun}"), noun)
        assert {item["id"], other["id"]} <= {*listed}
        assert ids(manager.get(f"{MANAGEMENT}/{noun}", {"test": "true"}), noun) == [item["id"]]
        assert manager.delete(path(noun, item)).status_code == 204


def test_an_automation_is_given_as_a_whole(tenant: Tenant, manager: Client) -> None:
    made = create(tenant, "automations")
    definition = {**STANDARD, "name": unique("Renamed"), "list": "Managed", "message": tenant.add_message()}
    after = changed(manager, "automations", made, {**definition, "after": "2 hours"})
    assert (after["id"], after["name"], after["definition"]["after"]) == (made["id"], definition["name"], "2 hours")
    assert after["version"] > made["version"]
    assert tenant.api.get(f"/v1/automations/{made['id']}").get_json()["definition"] == after["definition"]
    assert changed(manager, "automations", made, {**definition, "after": "2 hours"})["version"] == after["version"]
    assert manager.delete(path("automations", made)).status_code == 204
    not_found(manager.get(path("automations", made)))
    assert items(manager.get(f"{MANAGEMENT}/automations"), "automations") == []
    assert tenant.api.get(f"/v1/automations/{made['id']}").get_json()["state"] == "deleted"


# ---------------------------------------------------------------------------------------------- bad inputs

Wrong = tuple[str, str, dict[str, Any], str, dict[str, Any]]
WRONG: list[Wrong] = [
    ("POST", "lists", {}, "required", {"field": "name"}),
    ("POST", "lists", {"name": " "}, "not_empty", {"field": "name"}),
    ("POST", "lists", {"name": "x" * 256}, "too_long", {"field": "name"}),
    ("POST", "lists", {"name": 1}, "invalid_string", {"field": "name"}),
    ("PATCH", "lists", {"name": None}, "invalid_string", {"field": "name"}),
    ("PATCH", "lists", {"system": "yes"}, "invalid_boolean", {"field": "system"}),
    ("PATCH", "lists", {"stop_words": ["STOP", " "]}, "invalid_string", {"field": "stop_words.1"}),
    ("PATCH", "lists", {"offered_name": ""}, "not_empty", {"field": "offered_name"}),
    ("PATCH", "lists", {"fields": [{"name": "A"}]}, "required", {"collection": "fields", "index": 0, "field": "type"}),
    (
        *("PATCH", "lists", {"fields": [{"name": "Age", "type": "Number"}, {"name": "X", "type": "Bogus"}]}),
        *("invalid_string", {"collection": "fields", "index": 1, "field": "type"}),
    ),
    (
        *("PATCH", "lists", {"fields": [{"name": "Age", "type": "Number", "options": ["1"]}]}),
        *("unexpected_field", {"collection": "fields", "index": 0, "field": "options"}),
    ),
    (
        *("PATCH", "lists", {"fields": [{"name": "Plan", "type": "Dropdown", "options": ["free", "a\tb"]}]}),
        *("invalid_string", {"collection": "fields", "index": 0, "field": "options.1"}),
    ),
    ("POST", "messages", {"name": "x"}, "required", {"field": "type"}),
    ("POST", "messages", {"name": "x", "type": "fax"}, "invalid_string", {"field": "type"}),
    ("POST", "messages", {"name": "x", "type": "sms", "body_html": "<p>"}, "unexpected_field", {"field": "body_html"}),
    ("PATCH", "messages", {"reply_to": "x"}, "invalid_email_address", {"field": "reply_to"}),
    ("PATCH", "messages", {"thumbnail_url": "x"}, "invalid_url", {"field": "thumbnail_url"}),
    ("PATCH", "messages", {"subject": "x" * 1001}, "too_long", {"field": "subject"}),
    ("POST", "webhooks", {}, "required", {"field": "url"}),
    ("POST", "webhooks", {"url": "ftp://x"}, "invalid_url", {"field": "url"}),
    (
        *("POST", "webhooks", {"url": "https://x.example", "secrets": [{"id": "k1", "secret": "short"}]}),
        *("too_short", {"collection": "secrets", "index": 0, "field": "secret"}),
    ),
    ("PATCH", "webhooks", {"url": "https://x.example"}, "unexpected_field", {"field": "url"}),
    ("PATCH", "webhooks", {"events": ["nonsense"]}, "invalid_string", {"field": "events"}),
    ("PATCH", "webhooks", {"events": []}, "not_empty", {"field": "events"}),
    ("PATCH", "webhooks", {"list_ids": [MISSING]}, "invalid_id", {"field": "list_ids"}),
    ("PATCH", "webhooks", {"list_ids": ["x"]}, "invalid_integer", {"collection": "list_ids", "index": 0}),
    ("POST", "domains", {"name": "x"}, "invalid_string", {"field": "name"}),
    ("POST", "domains", {"name": "a.example", "trusted": True}, "unexpected_field", {"field": "trusted"}),
    ("POST", "domains", {"name": "a.example", "selector": "_"}, "invalid_string", {"field": "selector"}),
    (
        *("PATCH", "domains", {"keys": [{"selector": "s", "private_key": "x"}]}),
        *("invalid_string", {"collection": "keys", "index": 0, "field": "private_key"}),
    ),
    ("PATCH", "senders", {"address": "ACME"}, "unexpected_field", {"field": "address"}),
    ("PATCH", "senders", {"kind": "fax"}, "invalid_string", {"field": "kind"}),
    ("PATCH", "senders", {"messages_per_second": 0}, "invalid_range", {"field": "messages_per_second"}),
    ("PATCH", "senders", {"list_id": MISSING}, "invalid_id", {"field": "list_id"}),
    ("POST", "keys", {"name": "x"}, "required", {"field": "access_level"}),
    ("POST", "keys", {"name": "x", "access_level": "manager"}, "invalid_string", {"field": "access_level"}),
    ("POST", "keys", {"name": "x", "access_level": "report", "token": "tms_x"}, "unexpected_field", {"field": "token"}),
    ("PATCH", "keys", {"access_level": "manager"}, "invalid_string", {"field": "access_level"}),
    ("PATCH", "keys", {"list_id": MISSING}, "invalid_id", {"field": "list_id"}),
    ("PATCH", "keys", {"expiry_time": "tomorrow"}, "invalid_iso_date_time", {"field": "expiry_time"}),
    ("PATCH", "keys", {"expiry_time": "9999-12-31T23:59:59-23:59"}, "invalid_date_time", {"field": "expiry_time"}),
    ("POST", "automations", {"name": "x"}, "required", {"field": "kind"}),
    (
        *("POST", "automations", {**STANDARD, "name": "x", "list": "nowhere"}),
        *("invalid_id", {"field": "list"}),
    ),
]
"""Method, collection, body, and the error with its place."""


@each("wrong", WRONG)
def test_a_wrong_body_changes_nothing(tenant: Tenant, manager: Client, wrong: Wrong) -> None:
    method, collection, body, code, where = wrong
    target = f"{MANAGEMENT}/{collection}" if method == "POST" else path(collection, new_id(tenant, collection))
    before, entries = manager.get(target.split("?")[0]).get_json(), acts(tenant)
    error = invalid(manager.raw(method, target, encoded(body)), code, **where)
    assert {name: error[name] for name in ("field", "collection", "index") if name in error} == where
    assert (manager.get(target).get_json(), acts(tenant)) == (before, entries)


@each("collection", [collection for collection in NOUNS if collection != "senders"])
def test_what_the_account_has_is_not_created_twice(tenant: Tenant, manager: Client, collection: str) -> None:
    """Also when two requests create it at the same moment."""
    body = new_body(tenant, collection)
    answers = at_once([lambda: manager.post(f"{MANAGEMENT}/{collection}", body)] * 2)
    created, refused = sorted(answers, key=lambda answer: answer.status_code)
    assert created.status_code == 201, created.text
    conflict(refused, field="url" if collection == "webhooks" else "name")


# ---------------------------------------------------------------------------------------------- keys of the level


def test_the_root_tells_the_scope(manager: Client) -> None:
    assert manager.get("/v1").get_json()["access_token_scope"] == "manage"


def test_no_level_has_the_scopes_of_another(manager: Client, api: Client) -> None:
    refused = check_error(api.get(f"{MANAGEMENT}/lists"), 403, "permission_denied")
    assert refused["developer_message"] == (
        "This needs the scope manage, which keys of the level standard lack. Use a key of the level manager."
    )
    refused = check_error(manager.get("/v1/lists"), 403, "permission_denied")
    assert refused["developer_message"] == (
        "This needs the scope list.view, which keys of the level manager lack. Use a key of the level standard."
    )


def test_keys_of_the_own_level_are_out_of_reach(tenant: Tenant, manager: Client) -> None:
    names = {item["name"] for item in items(manager.get(f"{MANAGEMENT}/keys"), "keys")}
    assert len(names) == 3
    with tenant.services.database.read() as session:
        own_key = ApiKey.token_hash == hash_token(tenant.tokens["manager"])
        own_id, own_name = session.execute(select(ApiKey.id, ApiKey.name).where(own_key)).one()
    assert own_name not in names
    for method, rest, body in (
        *(("GET", "", None), ("PATCH", "", {"access_level": "standard"}), ("DELETE", "", None)),
        ("POST", "/rotate", {}),
    ):
        not_found(manager.raw(method, path("keys", own_id, rest), encoded(body)))
    conflict(manager.post(f"{MANAGEMENT}/keys", {"name": own_name, "access_level": "report"}), field="name")


def test_a_key_of_the_level_manager_does_not_sign_in(tenant: Tenant) -> None:
    browser = Browser(tenant.app)
    refused = browser.post("/console/sign-in", key=tenant.tokens["manager"])
    assert refused.status_code == 403
    assert "A key of the level manager cannot sign in." in words(refused)
    # A session of a key ends when the key gets the level.
    token = tenant.tokens["standard"]
    assert browser.post("/console/sign-in", key=token).status_code == 303
    assert browser.get("/console").status_code == 200
    with tenant.services.database.write() as transaction:
        key = transaction.scalars(select(ApiKey).where(ApiKey.token_hash == hash_token(token))).one()
        key.access_level = "manager"
    assert browser.get("/console").status_code == 401


def test_a_session_of_a_manager_makes_such_a_key(tenant: Tenant) -> None:
    browser = linked(tenant)
    made = browser.post("/console/keys", name="deployment", level="manager")
    assert "tms_" in made.text
    refused = browser.post("/console/keys", name="other", level="manager", test="1")
    assert "a test key cannot be of the level manager" in words(refused)
    assert acts(tenant)[-1][:2] == ("key.created", "command")


# ---------------------------------------------------------------------------------------------- what all share


NUMBERS_OF_ENTRIES = {
    ("PATCH", ITEMS["domains"]): 0,  # it has no host before either
    ("POST", f"{ITEMS['keys']}/rotate"): 2,  # the old key and the new one
}
"""Route -> entries of the audit log, where these are not one."""


def test_each_act_is_in_the_audit_log(tenant: Tenant, manager: Client) -> None:
    """Once, under the name of the key and the route of the request; an act that changes nothing is not."""
    for method, rule in ROUTES:
        if method == "GET" or rule.endswith(("/preview", "/check")):
            continue
        target, body = path_of(tenant, rule), body_of(tenant, method, rule)
        before = len(acts(tenant))
        answer = manager.raw(method, target, encoded(body))
        assert answer.status_code == ROUTES[method, rule], answer.text
        new = acts(tenant)[before:]
        # A body may make what it refers to, as an automation its list and message.
        assert [act[1:] for act in new] == [("key", key_name(tenant), f"{method} {rule}")] * len(new), rule
        assert len(new) == NUMBERS_OF_ENTRIES.get((method, rule), 1), (rule, new)


def key_name(tenant: Tenant) -> str:
    """The name of the tenant's key of the level manager."""
    with tenant.services.database.read() as session:
        own_key = ApiKey.token_hash == hash_token(tenant.tokens["manager"])
        return session.scalars(select(ApiKey.name).where(own_key)).one()


def test_a_repeated_request_creates_once(tenant: Tenant, manager: Client) -> None:
    """Where its answer has no secret, it is kept; a secret is kept nowhere."""
    for collection in ("lists", "messages", "domains", "automations"):
        key, body = unique("key"), new_body(tenant, collection)
        first, again = (
            manager.post(f"{MANAGEMENT}/{collection}", body, headers={"Idempotency-Key": key}) for _ in range(2)
        )
        assert (first.status_code, again.status_code, again.get_json()) == (201, 201, first.get_json())
        assert again.headers["Idempotent-Replayed"] == "true"
    for collection in ("keys", "webhooks"):
        key, body = unique("key"), new_body(tenant, collection)
        answers = [manager.post(f"{MANAGEMENT}/{collection}", body, headers={"Idempotency-Key": key}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 409]
        with tenant.services.database.read() as session:
            kept = IdempotencyRecord.account_id == tenant.id, IdempotencyRecord.key == key
            assert session.scalars(select(IdempotencyRecord.id).where(*kept)).all() == []


@each("collection", NOUNS)
def test_a_page_costs_the_same_whatever_is_on_it(
    tenant: Tenant, manager: Client, collection: str, count_statements: Callable[[], Any]
) -> None:
    counts = []
    for _ in range(3):
        new_id(tenant, collection)
        with count_statements() as counted:
            assert manager.get(f"{MANAGEMENT}/{collection}").status_code == 200
        counts.append(counted.count)
    assert len({*counts}) == 1


def test_an_account_has_so_many_webhooks_at_most(tenant: Tenant, manager: Client) -> None:
    """Each event is written once for each of them."""
    moment = {"creation_time": this_second(), "due_time": this_second()}
    tenant.add_all(Webhook, [{"url": f"https://x.example/{number}", **moment} for number in range(99)])
    create(tenant, "webhooks")
    refused = conflict(manager.post(f"{MANAGEMENT}/webhooks", new_body(tenant, "webhooks")))
    assert refused["developer_message"] == "The account already has 100 webhooks, which is the maximum."


def test_a_webhook_has_so_many_secrets_at_most(tenant: Tenant, manager: Client) -> None:
    """Each of them signs every request."""
    made = create(tenant, "webhooks")
    secrets = [{"id": f"s{number}", "secret": SECRET} for number in range(19)]
    assert len(changed(manager, "webhooks", made, {"secrets": secrets})["secrets"]) == 20
    for refused in (
        manager.post(path("webhooks", made, "/secrets"), {}),
        manager.patch(path("webhooks", made), {"secrets": [{"id": "one-more", "secret": SECRET}]}),
    ):
        assert "already has 20 secrets" in conflict(refused)["developer_message"]
    assert changed(manager, "webhooks", made, {"secrets": secrets})["secrets"][1]["id"] == "s0"


def test_a_list_has_so_many_fields_at_most(tenant: Tenant, manager: Client) -> None:
    made = create(tenant, "lists", fields=[])
    for start in (0, 200, 400):
        fields = [{"name": f"Field {number}", "type": "Text Field"} for number in range(start, min(start + 200, 500))]
        changed(manager, "lists", made, {"fields": fields})
    refused = manager.patch(path("lists", made), {"fields": [{"name": "One more", "type": "Text Field"}]})
    conflict(refused, collection="fields", index=0, field="name")


def test_the_options_of_a_list_have_so_much_text_at_most(tenant: Tenant, manager: Client) -> None:
    """Those of all fields together. A list that has more, from before the limit, can get less."""
    made, longest = create(tenant, "lists", fields=[]), [f"{number:0>1000}" for number in range(250)]
    fields = [
        {"name": name, "type": "Dropdown", "options": longest[at : at + 125]} for name, at in (("A", 0), ("B", 125))
    ]
    full = changed(manager, "lists", made, {"fields": fields})
    one_more = {"name": "C", "type": "Checkbox", "options": ["x"]}
    for further in (one_more, {**fields[0], "options": [*longest[:125], "x"]}):
        refused = manager.patch(path("lists", made), {"fields": [further]})
        assert "more than 250,000 characters" in invalid(refused, "too_long", field="fields")["developer_message"]
    assert manager.get(path("lists", made)).get_json() == full
    with tenant.services.database.write() as transaction:
        is_second = ListField.list_id == made["id"], ListField.name == "B"
        transaction.execute(update(ListField).where(*is_second).values(options=longest))
    invalid(manager.patch(path("lists", made), {"fields": [one_more]}), "too_long", field="fields")
    changed(manager, "lists", made, {"fields": [{"name": "D", "type": "Number"}]})
    less = changed(manager, "lists", made, {"fields": [{**fields[1], "options": longest[:249]}]})
    assert [len(field["options"]) for field in less["fields"]] == [125, 249, 0]


def test_many_fields_cost_as_many_statements_as_one(
    tenant: Tenant, manager: Client, count_statements: Callable[[], Any]
) -> None:
    counts = []
    for number in (1, 1, 100):
        made = create(tenant, "lists", fields=[])
        fields = [{"name": f"Field {index}", "type": "Text Field"} for index in range(number)]
        for change in (fields, [{**field, "type": "Number"} for field in fields]):
            # Otherwise it depends on the second of the clock whether the change writes a new time, too.
            with tenant.services.database.write() as transaction:
                transaction.execute(update(List).where(List.id == made["id"]).values(last_modified_time=LONG_AGO))
            with count_statements() as counted:
                changed(manager, "lists", made, {"fields": change})
            counts.append(counted.count)
    # The first two also read what a process then keeps.
    assert counts[2:4] == counts[4:]


def test_many_secrets_cost_as_many_statements_as_one(
    tenant: Tenant, manager: Client, count_statements: Callable[[], Any]
) -> None:
    counts = []
    for number in (1, 1, 10):
        made = create(tenant, "webhooks", secrets=[{"id": f"s{index}", "secret": "x" * 32} for index in range(number)])
        secrets = [{"id": f"s{index}", "secret": "y" * 32} for index in range(number)]
        with count_statements() as counted:
            changed(manager, "webhooks", made, {"secrets": secrets})
        counts.append(counted.count)
    # The first one also reads what a process then keeps.
    assert counts[1] == counts[2]


def test_every_collection_has_its_items(tenant: Tenant, manager: Client) -> None:
    for collection in ITEMS:
        row_id = new_id(tenant, collection)
        assert row_id in ids(manager.get(f"{MANAGEMENT}/{collection}", {"id": row_id}), collection)
