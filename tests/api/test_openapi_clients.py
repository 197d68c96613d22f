"""What generated clients need of the OpenAPI description (docs/openapi.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import pytest
from flask import Flask

from app.events.outbox import called_event, contact_event, recipient_event, reply_event
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import SENDS, Client
from tests.support.definitions import STANDARD, create
from tests.support.management import MANAGEMENT, NOUNS
from tests.support.tenants import Tenant

OPERATIONS = {
    "automations.get": "GET /v1/automations/{automation_id}",
    "automations.list": "GET /v1/automations",
    "inbox.list": "GET /v1/inbox",
    "inbox.get": "GET /v1/inbox/{captured_id}",
    "automations.list_runs": "GET /v1/automations/{automation_id}/runs",
    "automations.get_run": "GET /v1/automations/{automation_id}/runs/{run_id}",
    "automations.pause": "POST /v1/automations/{automation_id}/pause",
    "automations.resume": "POST /v1/automations/{automation_id}/resume",
    "automations.validate": "POST /v1/automations/validate",
    "contacts.create": "POST /v1/lists/{list_id}/contacts",
    "contacts.delete": "DELETE /v1/lists/{list_id}/contacts/{contact_id}",
    "contacts.delete_many": "DELETE /v1/lists/{list_id}/contacts",
    "contacts.get": "GET /v1/lists/{list_id}/contacts/{contact_id}",
    "contacts.list": "GET /v1/lists/{list_id}/contacts",
    "contacts.update": "PATCH /v1/lists/{list_id}/contacts/{contact_id}",
    "contacts.update_many": "PATCH /v1/lists/{list_id}/contacts",
    "groups.get": "GET /v1/transactional-groups/{group_id}",
    "tags.get": "GET /v1/tags/{tag}",
    "groups.list": "GET /v1/transactional-groups",
    "lists.get": "GET /v1/lists/{list_id}",
    "lists.list": "GET /v1/lists",
    "messages.get": "GET /v1/messages/{message_id}",
    "messages.get_content": "GET /v1/messages/{message_id}/content",
    "messages.list": "GET /v1/messages",
    "messages.list_sent_contacts": "GET /v1/messages/{message_id}/sent-contacts",
    "root.get": "GET /v1",
    "sends.cancel": "POST /v1/transactional-sends/{uuid}/cancel",
    "sends.cancel_many": "POST /v1/transactional-sends/cancel",
    "sends.create": "POST /v1/transactional-sends",
    "sends.get": "GET /v1/transactional-sends/{uuid}",
    "sends.list": "GET /v1/transactional-sends",
    "suppressions.add": "POST /v1/suppressions",
    "suppressions.list": "GET /v1/suppressions",
    "suppressions.remove": "DELETE /v1/suppressions",
    **{
        f"management.{collection}.{verb}": f"{method} {MANAGEMENT}/{collection}"
        for verb, method in (("list", "GET"), ("create", "POST"))
        for collection in NOUNS
        if (collection, verb) != ("senders", "create")
    },
    **{
        f"management.{collection}.{verb}": f"{method} {MANAGEMENT}/{collection}/{{{name}_id}}"
        for verb, method in (("get", "GET"), ("update", "PATCH"), ("delete", "DELETE"))
        for collection, name in NOUNS.items()
    },
    "management.domains.check": "POST /v1/management/domains/{domain_id}/check",
    "management.domains.rotate": "POST /v1/management/domains/{domain_id}/rotate",
    "management.keys.rotate": "POST /v1/management/keys/{key_id}/rotate",
    "management.messages.preview": "POST /v1/management/messages/{message_id}/preview",
    "management.webhooks.add_secret": "POST /v1/management/webhooks/{webhook_id}/secrets",
    "management.webhooks.check": "POST /v1/management/webhooks/{webhook_id}/check",
    "management.webhooks.remove_secret": "DELETE /v1/management/webhooks/{webhook_id}/secrets/{secret_id}",
    "management.webhooks.test": "POST /v1/management/webhooks/{webhook_id}/test",
}
REPLAYABLE = {
    *("automations.pause", "automations.resume", "contacts.create", "sends.create", "suppressions.add"),
    *(f"management.{collection}.create" for collection in ("automations", "domains", "lists", "messages")),
    "management.domains.rotate",
}
RESPONSE_HEADERS = {"X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
MOMENT = datetime(2026, 1, 31, 10, 0, tzinfo=UTC)
UUID = "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10"


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    """The description as the API serves it."""
    description: dict[str, Any] = Client(app).get("/docs/openapi.json").get_json()
    return description


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(method and path, description) of every operation."""
    for path, item in document["paths"].items():
        for verb in ("get", "post", "patch", "delete"):
            if verb in item:
                yield f"{verb.upper()} {path}", item[verb]


def checked(document: dict[str, Any], name: str, value: Any) -> None:
    """Validates the value against a schema of the description, formats included."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(value)


# ---------------------------------------------------------------------------------------------- names


def test_every_operation_has_an_id_as_one_would_name_a_function(document: dict[str, Any]) -> None:
    assert {operation["operationId"]: place for place, operation in operations(document)} == OPERATIONS
    for _, operation in operations(document):
        assert operation["tags"] == [operation["operationId"].partition(".")[0]]


def test_no_schema_has_the_name_of_one_of_its_properties(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        properties = {re.sub("[^a-z]", "", written.lower()) for written in schema.get("properties", {})}
        assert name.lower() not in properties, name


def test_query_parameters_can_be_names_of_variables(document: dict[str, Any]) -> None:
    for place, operation in operations(document):
        names = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter.get("in") == "query"]
        assert [name for name in names if not re.fullmatch("[a-z_]+([.](email|mobile))?", name)] == [], place


# ---------------------------------------------------------------------------------------------- filters


def test_operators_and_list_fields_go_through_one_object(document: dict[str, Any], tenant: Tenant) -> None:
    operation = document["paths"]["/v1/lists/{list_id}/contacts"]["get"]
    (filters,) = (parameter for parameter in operation["parameters"] if parameter["name"] == "filters")
    assert (filters["style"], filters["explode"]) == ("form", True)
    names = re.compile(filters["schema"]["propertyNames"]["pattern"])
    list_id = tenant.add_list("People")
    ann, ben = (tenant.new_contact(list_id, email=f"{name}@example.com", first_name=name) for name in ("ann", "ben"))
    for entries, contacts in (
        ({"first_name": "ann"}, [ann]),
        ({"first_name:ne": "ann", "id:in": f"{ann['id']},{ben['id']}"}, [ben]),
        ({"subscribed.email:ne": "false", "creation_time:in": "2020-01-01.."}, [ben, ann]),
    ):
        assert all(names.search(name) for name in entries)
        page = tenant.api.get(f"/v1/lists/{list_id}/contacts", entries).get_json()
        assert page["_embedded"]["contacts"] == contacts


def test_filters_of_other_collections_are_named(document: dict[str, Any], api: Client) -> None:
    (filters,) = (
        parameter
        for parameter in document["paths"]["/v1/messages"]["get"]["parameters"]
        if parameter["name"] == "filters"
    )
    names = re.compile(filters["schema"]["propertyNames"]["pattern"])
    assert api.get("/v1/messages", {"type:ne": "sms", "name:in": "a,b"}).status_code == 200
    assert [name for name in ("type:ne", "name:in") if not names.search(name)] == []
    assert [name for name in ("type", "plan", "name:like", "xname:in") if names.search(name)] == []


# ---------------------------------------------------------------------------------------------- bodies and responses


def test_responses_have_the_headers_that_the_api_sends(document: dict[str, Any], api: Client) -> None:
    for place, operation in operations(document):
        replayed = {"Idempotent-Replayed"} if operation["operationId"] in REPLAYABLE else set()
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                assert set(response["headers"]) == RESPONSE_HEADERS | replayed, place
    errors = set(document["components"]["responses"]["Error"]["headers"])
    assert errors == RESPONSE_HEADERS | {"Allow", "Retry-After", "WWW-Authenticate"}
    # Without a rate limit, which the settings of these tests have not, the others are absent.
    assert api.get("/v1/lists").headers["X-Request-Id"]


def test_only_operations_that_replay_take_an_idempotency_key(document: dict[str, Any]) -> None:
    key = {"$ref": "#/components/parameters/IdempotencyKey"}
    taking = {
        operation["operationId"] for _, operation in operations(document) if key in operation.get("parameters", ())
    }
    assert taking == REPLAYABLE
    assert document["components"]["parameters"]["IdempotencyKey"]["name"] == "Idempotency-Key"


RESPONSES_LACK = {
    "CancelledMessagesLinks": {"next"},
    "ContactList": {"_embedded"},
    "Error": {"_embedded", "collection", "field", "fields", "index"},
    "Message": {"_embedded"},
    "MessageContent": {"_embedded"},
    "PageLinks": {"next", "prev"},
    "RecipientLinks": {"automation", "contact", "list", "message", "transactional_group"},
    "RecipientTimelineLinks": {"automation", "contact", "list", "message", "next", "prev", "transactional_group"},
    "RunLinks": {"contact"},
    "SentContactLinks": {"contact", "list"},
    "SuppressionLinks": {"list", "recipient"},
    "TimelineStep": {"transport"},
    "WebhookWithSecret": {"generated_secret"},
}
"""Properties that only some responses have."""
REQUESTS = {
    *("Attachment", "ContactUpdate", "ContactWrite", "ContactsUpdate", "ContactsWrite", "Recipient", "Resumption"),
    *("AutomationDefinition", "Cancellation", "Send", "Subscribed", "SuppressionWrite", "SuppressionsWrite"),
    *(f"{noun}{verb}" for noun in ("List", "Message", "Webhook", "Domain", "Key") for verb in ("Create", "Update")),
    *("SenderUpdate", "ListFieldWrite", "SecretWrite", "NewSecret", "DomainKeyWrite", "DomainRotation", "KeyRotation"),
    *("MessagePreview", "PreviewRecipient"),
}


def test_responses_have_all_properties_and_are_open_to_further_ones(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        if name in REQUESTS or name.endswith("Event") or "properties" not in schema:
            continue
        optional = set(schema["properties"]) - set(schema.get("required", ()))
        assert optional == RESPONSES_LACK.get(name, set()), name
        assert schema.get("additionalProperties", True) is not False, name


def test_times_and_uuids_have_their_formats(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        for name, described in schema.get("properties", {}).items():
            if name.endswith("_time") or name in ("time", "timestamp"):
                assert described["format"] == "date-time"
            elif name == "uuid":
                assert described["format"] == "uuid"


def test_null_is_among_the_choices_where_it_is_accepted(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for attribute, name, choices in (
        ("unsubscribe_type", "SendUnsubscribeType", ["none", "word", "link"]),
        ("priority", "SendPriority", ["high", "normal"]),
    ):
        described = schemas["Send"]["properties"][attribute]
        assert described.keys() == {"anyOf", "description"}
        assert described["anyOf"] == [{"$ref": f"#/components/schemas/{name}"}, {"type": "null"}]
        assert schemas[name] == {"type": "string", "enum": choices}
    assert schemas["Send"]["properties"]["type"]["enum"] == ["email", "sms"]


def test_limits_of_attachments_are_those_of_the_installation(settings: Settings) -> None:
    limits = {"max_attachments": 3, "max_attachment_bytes": 1000, "public_url": "https://tms.acme.example"}
    with app_with(settings, **limits) as app:
        document = Client(app).get("/docs/openapi.json").get_json()
    schemas = document["components"]["schemas"]
    assert schemas["Send"]["properties"]["attachments"]["maxItems"] == 3
    assert schemas["Recipient"]["properties"]["attachments"]["maxItems"] == 3
    assert schemas["Attachment"]["properties"]["content"]["maxLength"] == 1336
    assert schemas["Attachment"]["properties"]["name"]["maxLength"] == 255
    assert [server["url"] for server in document["servers"]] == ["https://tms.acme.example"]
    assert document["info"]["contact"]["url"] == "https://tms.acme.example/docs"
    assert document["info"]["license"] == {"name": "MIT", "identifier": "MIT"}


# ---------------------------------------------------------------------------------------------- webhooks


def recipient_facts(**facts: Any) -> dict[str, Any]:
    """The arguments of a recipient event, with every property that is not always there."""
    common = {"recipient_id": 1, "uuid": UUID, "group_id": 2, "group_name": "g", "message_id": 3, "list_id": 4}
    return {**common, "contact_id": 5, "message_type": "email", "email": "ann@example.com", "mobile": None, **facts}


EVENTS = [
    contact_event("created", contact_id=1, list_id=2, moment=MOMENT),
    recipient_event("sent", moment=MOMENT, **recipient_facts()),
    recipient_event("sent", moment=MOMENT, **recipient_facts(automation_id=6, step_id=7, group_id=7)),
    recipient_event(
        "bounced",
        moment=MOMENT,
        bounce_reason="no mailbox",
        bounce_string="550 5.1.1",
        is_temporary_bounce=False,
        **recipient_facts(),
    ),
    recipient_event("failed", moment=MOMENT, fail_reason="blocked", **recipient_facts(contact_id=None)),
    recipient_event(
        "clicked",
        moment=MOMENT,
        device_type="mobile",
        device_name="phone",
        country_code="AU",
        link_url="https://acme.example",
        link_type="html_email",
        **recipient_facts(),
    ),
    called_event(automation_id=1, step_id=2, contact_id=3, list_id=4, moment=MOMENT),
    reply_event(None, None, mobile="61411111111", body_text="yes", moment=MOMENT),
    reply_event(
        recipient_event("sent", moment=MOMENT, **recipient_facts(message_type="sms", mobile="61411111111", email=None)),
        None,
        mobile="61411111111",
        body_text="STOP",
        moment=MOMENT,
    ),
]


@each("event", EVENTS)
def test_every_event_is_described_completely(document: dict[str, Any], event: dict[str, Any]) -> None:
    checked(document, "EventBatch", {"events": [event]})
    closed = deepcopy(document)
    for schema in closed["components"]["schemas"].values():
        schema["additionalProperties"] = False
    checked(closed, "EventBatch", {"events": [event]})


def test_an_event_with_further_properties_is_still_one(document: dict[str, Any]) -> None:
    checked(document, "EventBatch", {"events": [{**EVENTS[0], "event": "merged", "colour": "blue"}]})


def test_the_request_of_a_webhook_is_described(document: dict[str, Any]) -> None:
    received = document["webhooks"]["events"]["post"]
    assert received["security"] == []
    assert [parameter["name"] for parameter in received["parameters"]] == ["Service-Signature"]
    assert received["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/EventBatch"
    }


# ---------------------------------------------------------------------------------------------- examples


def examples(document: dict[str, Any], place: str) -> dict[str, Any]:
    """Name -> body of each example of the operation."""
    ((_, operation),) = ((name, operation) for name, operation in operations(document) if name == place)
    described = operation["requestBody"]["content"]["application/json"]["examples"]
    return {name: deepcopy(example["value"]) for name, example in described.items()}


def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    for place, operation in operations(document):
        if "requestBody" in operation:
            assert examples(document, place), place


def test_the_examples_of_sends_are_accepted(document: dict[str, Any], tenant: Tenant) -> None:
    list_id = tenant.add_list("Customers")
    tenant.add_sender("61400000001")
    for body in examples(document, "POST /v1/transactional-sends").values():
        assert ("list_id" in body) is (body["type"] == "email")
        list_fields = {"list_id": list_id, "from_address": f"hello@{tenant.domain}"} if "list_id" in body else {}
        answer = tenant.api.post(SENDS, {**body, **list_fields})
        assert answer.status_code == 202, answer.text


def test_the_examples_of_cancelling_are_accepted(document: dict[str, Any], tenant: Tenant) -> None:
    for body in examples(document, "POST /v1/transactional-sends/cancel").values():
        answer = tenant.api.post(f"{SENDS}/cancel", body, params={"state": "scheduled"})
        assert (answer.status_code, answer.get_json()["size"]) == (200, 0), answer.text


def test_the_examples_of_contacts_are_accepted(document: dict[str, Any], tenant: Tenant) -> None:
    path = f"/v1/lists/{tenant.add_list('Customers')}/contacts"
    new = examples(document, "POST /v1/lists/{list_id}/contacts")
    assert [tenant.api.post(path, body).status_code for body in new.values()] == [201, 204]
    ids = [contact["id"] for contact in tenant.api.get(path).get_json()["_embedded"]["contacts"]]
    (changed,) = examples(document, "PATCH /v1/lists/{list_id}/contacts/{contact_id}").values()
    assert tenant.api.patch(f"{path}/{ids[0]}", changed).status_code == 200
    (many,) = examples(document, "PATCH /v1/lists/{list_id}/contacts").values()
    for element, contact_id in zip(many["contacts"], ids, strict=False):
        element["id"] = contact_id
    assert tenant.api.patch(path, many).status_code == 204


def test_the_examples_of_automations_are_accepted(document: dict[str, Any], tenant: Tenant) -> None:
    tenant.add_list("Customers")
    tenant.add_message(name="Welcome")
    (definition,) = examples(document, "POST /v1/automations/validate").values()
    answer = tenant.api.post("/v1/automations/validate", definition)
    assert answer.status_code == 200, answer.text
    (held,) = examples(document, "POST /v1/automations/{automation_id}/resume").values()
    automation = create(tenant, STANDARD)
    assert tenant.api.post(f"/v1/automations/{automation}/resume", held).status_code == 200
