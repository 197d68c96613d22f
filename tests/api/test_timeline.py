"""`GET /v1/transactional-sends/{uuid}`: one recipient with its timeline (docs/endpoints.md#recipients)."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from app.clock import now
from app.db.models import RecipientStep
from app.recipients.read import PROPERTIES
from tests.support.cases import each
from tests.support.client import SENDS, Client, bad_query, not_found
from tests.support.collections import without_cursor
from tests.support.rows import Rows
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, new_mobile

FIELDS = [*PROPERTIES, "timeline"]


def get(tenant: Tenant, name: str, params: Any = None) -> dict[str, Any]:
    """The recipient, read with a key that may see contacts."""
    response = tenant.api.get(f"{SENDS}/{name}", params)
    assert response.status_code == 200, response.text
    recipient_body: dict[str, Any] = response.get_json()
    return recipient_body


def add_step(tenant: Tenant, recipient_id: int, time: str, step: str, detail: str | None) -> None:
    tenant.add(RecipientStep, recipient_id=recipient_id, time=datetime.fromisoformat(time), step=step, detail=detail)


def test_a_queued_recipient(sends: SendsApi) -> None:
    email, message = new_email(), sends.tenant.add_message()
    sent = sends.send(sends.email(message_id=message, recipients=[{"email": email}]))
    row = sent.recipient
    recipient_body = get(sends.tenant, row.uuid)
    assert list(recipient_body) == [*FIELDS, "_links"]
    assert recipient_body == {
        "uuid": row.uuid,
        "id": row.id,
        "type": "email",
        "state": "queued",
        "reason": None,
        "list_id": sends.list_id,
        "contact_id": row.contact_id,
        "message_id": message,
        "group_id": row.group_id,
        "automation_id": None,
        "step_id": None,
        "email": email,
        "mobile": None,
        "attempts": 0,
        "creation_time": recipient_body["creation_time"],
        "send_time": None,
        "first_open_time": None,
        "last_open_time": None,
        "open_type": "not_opened",
        "send_at": None,
        "tags": None,
        "metadata": None,
        "first_click_time": None,
        "further_visits": 0,
        "complaint_time": None,
        "content_purged_time": None,
        "timeline": [],
        "_links": {
            "self": {"href": f"{SENDS}/{row.uuid}"},
            "transactional_group": {"href": f"/v1/transactional-groups/{row.group_id}"},
            "list": {"href": f"/v1/lists/{sends.list_id}"},
            "contact": {"href": f"/v1/lists/{sends.list_id}/contacts/{row.contact_id}"},
            "message": {"href": f"/v1/messages/{message}"},
        },
    }
    for name in ("list", "contact", "message", "transactional_group"):
        assert sends.tenant.api.get(recipient_body["_links"][name]["href"]).status_code == 200


def test_a_text_message_without_a_list_has_fewer_links(sends: SendsApi) -> None:
    """A text message without a list has no link to a list, a contact or a message."""
    sent = sends.send(sends.sms(list_id=None, recipients=[{"mobile": new_mobile()}]))
    recipient_body = get(sends.tenant, sent.recipient.uuid)
    assert (recipient_body["type"], recipient_body["open_type"], recipient_body["mobile"]) == (
        "sms",
        "sms",
        sent.recipient.mobile,
    )
    assert set(recipient_body["_links"]) == {"self", "transactional_group"}


def test_steps_are_sorted_by_time(sends: SendsApi) -> None:
    row = sends.send(sends.email()).recipient
    add_step(sends.tenant, row.id, "2026-01-31T10:00:00.5+00:00", "deferred", "451 4.3.2 try again later")
    add_step(sends.tenant, row.id, "2026-01-31T10:00:31+00:00", "sent", None)
    assert get(sends.tenant, row.uuid)["timeline"] == [
        {"time": "2026-01-31T10:00:00Z", "step": "deferred", "detail": "451 4.3.2 try again later"},
        {"time": "2026-01-31T10:00:31Z", "step": "sent", "detail": None},
    ]
    (first, _) = get(sends.tenant, row.uuid, {"_tz": "Australia/Brisbane"})["timeline"]
    assert first["time"] == "2026-01-31T20:00:00+1000"


def test_a_long_timeline_is_paged(sends: SendsApi) -> None:
    """A timeline is paged by `limit` and `offset`, as collections are. Following the links returns every step once."""
    row = sends.send(sends.email()).recipient
    for number in range(105):
        add_step(
            sends.tenant, row.id, f"2026-01-31T10:{number // 60:02}:{number % 60:02}+00:00", "deferred", str(number)
        )
    path = f"{SENDS}/{row.uuid}"
    first = get(sends.tenant, row.uuid)
    assert [step["detail"] for step in first["timeline"]] == [str(number) for number in range(100)]
    assert without_cursor(first["_links"]["next"]["href"]) == f"{path}?offset=100"
    assert "prev" not in first["_links"]
    second = sends.tenant.api.get(first["_links"]["next"]["href"]).get_json()
    assert [step["detail"] for step in second["timeline"]] == [str(number) for number in range(100, 105)]
    assert without_cursor(second["_links"]["prev"]["href"]) == f"{path}?offset=0"
    assert "next" not in second["_links"]
    middle = get(sends.tenant, row.uuid, {"limit": "2", "offset": "3"})
    assert [step["detail"] for step in middle["timeline"]] == ["3", "4"]
    assert get(sends.tenant, row.uuid, {"limit": "0"})["timeline"] == []


def test_a_key_without_contact_view_sees_states_and_times_only(sends: SendsApi) -> None:
    """The key sees neither addresses nor contacts nor the replies of the other side."""
    row = sends.send(sends.email(recipients=[{"email": "ann.secret@example.com"}])).recipient
    words = "550 5.1.1 ann.secret is unknown"
    add_step(sends.tenant, row.id, "2026-01-31T10:00:00+00:00", "bounced", words)
    rows = Rows(sends.tenant.services, sends.tenant.id)
    rows.change([row.id], state="bounced", reason=words)
    path = f"{SENDS}/{row.uuid}"
    whole = get(sends.tenant, row.uuid)
    assert (whole["email"], whole["contact_id"], whole["reason"]) == (row.email, row.contact_id, words)
    for level in ("report", "limited"):
        response = sends.tenant.client(level).get(path)
        assert "secret" not in response.text
        assert response.get_json() == {
            **whole,
            **dict.fromkeys(("contact_id", "email", "reason")),
            "timeline": [{"time": "2026-01-31T10:00:00Z", "step": "bounced", "detail": None}],
            "_links": {name: link for name, link in whole["_links"].items() if name != "contact"},
        }
        assert sends.tenant.client(level).get(path, {"fields": "email"}).get_json()["email"] is None
    rows.change([row.id], state="failed", reason="too_large")
    assert sends.tenant.client("report").get(path, {"fields": "reason"}).get_json()["reason"] == "too_large"


def test_names_of_the_installation_are_hidden_from_every_key(sends: SendsApi) -> None:
    """Names are hidden even in steps that an earlier release wrote without redacting them."""
    row = sends.send(sends.email()).recipient
    folder = sends.tenant.services.settings.data_dir
    add_step(sends.tenant, row.id, "2026-01-31T10:00:00+00:00", "sent", f"written to {folder}/mail")
    deferred = {"step": "deferred", "detail": "no connection", "note": "relay.internal:2525"}
    sends.tenant.add(RecipientStep, recipient_id=row.id, time=now(), **deferred)
    recipient_body = get(sends.tenant, row.uuid)
    assert [step["detail"] for step in recipient_body["timeline"]] == ["written to [hidden]", "no connection"]
    assert set(recipient_body["timeline"][1]) == {"time", "step", "detail"}


@each("name", FIELDS)
def test_each_field_can_be_requested_alone(sends: SendsApi, name: str) -> None:
    row = sends.send(sends.email()).recipient
    whole = get(sends.tenant, row.uuid)
    assert get(sends.tenant, row.uuid, {"fields": name}) == {name: whole[name], "_links": whole["_links"]}


@each(
    ("key", "value", "code"),
    [
        ("fields", "values", "invalid_query_syntax"),
        ("expand", "contact", "invalid_query_syntax"),
        ("state", "sent", "parameter_not_available"),
        ("fax", "sent", "parameter_not_supported"),
        ("_tz", "Mars", "invalid_time_zone"),
        ("limit", "1001", "invalid_limit"),
        ("offset", "-1", "invalid_offset"),
    ],
)
def test_invalid_parameters_are_refused(sends: SendsApi, key: str, value: str, code: str) -> None:
    row = sends.send(sends.email()).recipient
    bad_query(sends.tenant.api.get(f"{SENDS}/{row.uuid}", {key: value}), code, field=key)


@each("name", ["0", "nobody", "%00", str(uuid.UUID(int=0))])
def test_an_unknown_uuid_is_not_found(api: Client, name: str) -> None:
    not_found(api.get(f"{SENDS}/{name}"))


def test_another_accounts_recipient_does_not_exist(sends: SendsApi, other_tenant: Tenant) -> None:
    row = sends.send(sends.email()).recipient
    not_found(other_tenant.api.get(f"{SENDS}/{row.uuid}"))


def test_a_uuid_is_compared_without_case(sends: SendsApi) -> None:
    row = sends.send(sends.email()).recipient
    for written in (row.uuid.upper(), row.uuid.title()):
        assert get(sends.tenant, written) == get(sends.tenant, row.uuid)
