"""SendGrid's event webhook: its events have the same effects as reports of mail servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from app import create_app
from app.db.models import BlockedAddress
from app.http.context import EXTENSION
from app.services import Services
from app.settings import Settings
from tests.support.client import Client
from tests.support.rows import Rows
from tests.support.tenants import Tenant, new_email, new_tenant

SECRET = "a-secret-of-sendgrid"
PATH = f"/inbound/sendgrid/{SECRET}"


@pytest.fixture(scope="module")
def relay_client(settings: Settings) -> Iterator[Client]:
    """An application with the secret configured."""
    app = create_app(replace(settings, sendgrid_webhook_secret=SECRET))
    yield Client(app, None)
    services: Services = app.extensions[EXTENSION]
    services.database.close()
    services.redis.close()


@pytest.fixture
def rows(relay_client: Client) -> Rows:
    """Rows of a new account."""
    tenant: Tenant = new_tenant(relay_client.app)
    return Rows(tenant.services, tenant.id)


@pytest.fixture
def sent(rows: Rows) -> Any:
    """A delivered mail."""
    list_id, address = rows.add_list(), new_email()
    contact_id = rows.add_contact(list_id, address)
    (recipient_id,) = rows.add_send(
        [{"email": address, "contact_id": contact_id}], list_id=list_id, bcc_address="copy@acme.example"
    )
    rows.change([recipient_id], state="delivered", attempts=1)
    rows.add_webhook()
    return rows.recipient(recipient_id)


def event(sent: Any, name: str, **values: Any) -> dict[str, Any]:
    """An event as SendGrid writes it."""
    bounce = {"email": sent.email, "timestamp": 1769853600, "smtp-id": f"<{sent.uuid}@acme.example>", "event": name}
    return {**bounce, "sg_event_id": f"{name} {sent.uuid}", "sg_message_id": "x.filter", **values}


def blocked(rows: Rows) -> list[str]:
    with rows.services.database.read() as session:
        return list(session.scalars(select(BlockedAddress.reason).where(BlockedAddress.account_id == rows.account_id)))


def events_of(rows: Rows) -> list[dict[str, Any]]:
    return [json.loads(payload) for payload in rows.payloads()]


def test_a_bounce_event_bounces_and_blocks(relay_client: Client, rows: Rows, sent: Any) -> None:
    bounce = event(sent, "bounce", type="bounce", reason="550 5.1.1 no such user", status="5.1.1")
    for _ in range(2):
        assert relay_client.post(PATH, [bounce, bounce]).status_code == 204
    assert (rows.recipient(sent.id).state, rows.group_of(sent.id).bounced, blocked(rows)) == (
        "bounced",
        1,
        ["permanent bounce"],
    )
    bounced, update = events_of(rows)
    assert (update["object"], update["event"]) == ("contact", "updated")
    assert (bounced["event"], bounced["uuid"], bounced["bounce_string"], bounced["is_temporary_bounce"]) == (
        "bounced",
        sent.uuid,
        "550 5.1.1 no such user",
        False,
    )


def test_a_dropped_event_is_a_temporary_bounce(relay_client: Client, rows: Rows, sent: Any) -> None:
    relay_client.post(PATH, [event(sent, "dropped", reason="Bounced Address")])
    assert (rows.recipient(sent.id).reason, blocked(rows)) == ("Bounced Address (4.7.0)", [])
    assert events_of(rows)[0]["is_temporary_bounce"] is True


def test_a_bounce_of_the_type_blocked_is_temporary(relay_client: Client, rows: Rows, sent: Any) -> None:
    """The type `blocked` means that the server refused the sender, whatever the status says about the address."""
    relay_client.post(PATH, [event(sent, "bounce", type="blocked", reason="550 5.7.1 bad reputation", status="5.7.1")])
    assert (rows.recipient(sent.id).state, blocked(rows)) == ("bounced", [])
    assert events_of(rows)[0]["is_temporary_bounce"] is True


@pytest.mark.parametrize(
    ("name", "reply_text", "step"),
    [
        ("deferred", "450 4.2.1 busy", ("reported delayed", "450 4.2.1 busy")),
        ("delivered", "250 ok", ("reported arrived", "250 ok")),
    ],
)
def test_other_events_add_a_step_only(
    relay_client: Client, sent: Any, *, name: str, reply_text: str, step: tuple[str, str]
) -> None:
    rows = Rows(relay_client.app.extensions[EXTENSION], sent.account_id)
    for _ in range(2):
        assert relay_client.post(PATH, [event(sent, name, response=reply_text)]).status_code == 204
    assert (rows.steps(sent.id), rows.recipient(sent.id).state, events_of(rows)) == ([step], "delivered", [])


def test_a_complaint_and_an_opt_out_unsubscribe(relay_client: Client, rows: Rows, sent: Any) -> None:
    relay_client.post(PATH, [event(sent, "unsubscribe"), event(sent, "spamreport")])
    assert (blocked(rows), rows.group_of(sent.id).unsubscribed) == (["complaint"], 1)
    assert [(stored_event["object"], stored_event["event"]) for stored_event in events_of(rows)] == [
        ("contact", "updated")
    ] * 2


def test_a_complaint_that_blocks_and_unsubscribes_updates_the_contact_once(
    relay_client: Client, rows: Rows, sent: Any
) -> None:
    relay_client.post(PATH, [event(sent, "spamreport")])
    assert [(stored_event["object"], stored_event["event"]) for stored_event in events_of(rows)] == [
        ("contact", "updated")
    ]


def test_events_about_unknown_recipients_are_ignored(relay_client: Client, rows: Rows, sent: Any) -> None:
    others = [
        event(sent, "bounce", email="copy@acme.example"),
        event(sent, "bounce", **{"smtp-id": "<00000000-0000-4000-8000-000000000000@acme.example>"}),
        event(sent, "bounce", **{"smtp-id": None}),
        event(sent, "open"),
        {},
        "text",
    ]
    assert relay_client.post(PATH, others).status_code == 204
    assert (rows.steps(sent.id), rows.recipient(sent.id).state) == ([], "delivered")


def test_an_event_about_a_mail_in_flight_is_asked_for_again(relay_client: Client, rows: Rows, sent: Any) -> None:
    rows.change([sent.id], state="sending")
    assert relay_client.post(PATH, [event(sent, "bounce", status="5.0.0")]).status_code == 503
    rows.change([sent.id], state="delivered")
    assert relay_client.post(PATH, [event(sent, "bounce", status="5.0.0")]).status_code == 204
    assert rows.recipient(sent.id).state == "bounced"


def test_the_secret_is_required(relay_client: Client, anon: Client) -> None:
    assert relay_client.post("/inbound/sendgrid/another-secret-than-that", []).status_code == 404
    assert anon.post(PATH, []).status_code == 404  # without the setting
    assert relay_client.post(PATH, []).status_code == 204
    assert relay_client.post(PATH, {}).status_code == 400
