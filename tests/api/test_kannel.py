"""Kannel's callbacks: receipts with a signed token, replies with a secret (docs/sms.md)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from app.clock import this_second
from app.inbound.kannel import reply_secret, reply_url
from app.tracking.feedback_channels import receipt_url
from tests.support.client import Client, check_error
from tests.support.rows import Rows
from tests.support.tenants import Tenant, new_mobile


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of an account with a webhook."""
    rows = Rows(tenant.services, tenant.id)
    rows.add_webhook()
    return rows


def sent(rows: Rows, mobile: str = "61411111111", **content: Any) -> int:
    (recipient_id,) = rows.add_send([mobile], type="sms", **content)
    rows.change([recipient_id], state="sent", sent_time=this_second())
    return recipient_id


def path_of(tenant: Tenant, recipient_id: int, query: str) -> str:
    return f"{urlsplit(receipt_url(tenant.services.settings, recipient_id)).path}?{query}"


def events(rows: Rows) -> list[dict[str, Any]]:
    return [json.loads(payload) for payload in rows.payloads()]


@pytest.mark.parametrize(
    ("query", "state", "steps"),
    [
        ("type=1&answer=stat%3ADELIVRD", "delivered", [("acknowledged", "receipt 1: stat:DELIVRD")]),
        ("type=2&answer=stat%3AUNDELIV", "bounced", [("bounced", "receipt 2: stat:UNDELIV")]),
        ("type=16&answer=", "bounced", [("bounced", "receipt 16")]),
        ("type=8&answer=ACK", "sent", []),
        ("type=4", "sent", []),
        ("", "sent", []),
    ],
)
def test_a_receipt_is_accepted_by_its_token(
    *, anon: Client, tenant: Tenant, rows: Rows, query: str, state: str, steps: list[tuple[str, str]]
) -> None:
    """Delivered, not delivered and refused are final; intermediate receipts change nothing."""
    recipient_id = sent(rows)
    for _ in range(2):  # the second one changes nothing
        response = anon.get(path_of(tenant, recipient_id, query))
        assert (response.status_code, response.data) == (200, b"")
    assert (rows.recipient(recipient_id).state, rows.steps(recipient_id)) == (state, steps)
    assert len(events(rows)) == len(steps)


def test_a_forged_token_changes_nothing(anon: Client, tenant: Tenant, rows: Rows) -> None:
    recipient_id = sent(rows)
    path = path_of(tenant, recipient_id, "type=2")
    token = path.rpartition("/")[2].partition("?")[0]
    changed = ("B" if token[-3] == "A" else "A").join((token[:-3], token[-2:]))
    for wrong in (changed, "nonsense"):
        check_error(anon.get(f"/inbound/kannel/dlr/{wrong}?type=2"), 404, "not_found")
    check_error(anon.get(path_of(tenant, 999_999_999, "type=2")), 404, "not_found")
    assert rows.recipient(recipient_id).state == "sent"
    assert events(rows) == []


def test_a_receipt_that_arrives_too_early_is_asked_for_again(
    anon: Client, tenant: Tenant, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.inbound.kannel.PATIENCE", 0)
    (recipient_id,) = rows.add_send(["61411111111"], type="sms")
    check_error(anon.get(path_of(tenant, recipient_id, "type=1")), 503, "service_unavailable")
    assert rows.recipient(recipient_id).state == "queued"


def reply(anon: Client, tenant: Tenant, **fields: str) -> Any:
    secret = reply_secret(tenant.services.settings.secret_key)
    return anon.get(f"/inbound/kannel/mo?{urlencode({'secret': secret, **fields})}")


def test_a_reply_is_accepted_with_the_secret(anon: Client, tenant: Tenant, rows: Rows) -> None:
    """A repeated id changes nothing; without an id each call is a reply."""
    mobile, number = new_mobile(), new_mobile()
    tenant.add_sender(number)
    recipient_id = sent(rows, mobile, from_address=number)
    call = {"from": f"+{mobile}", "to": number, "text": "Grüße 🐝 stop", "charset": "UTF-8", "id": "abc"}
    for _ in range(2):
        response = reply(anon, tenant, **call)
        assert (response.status_code, response.data) == (200, b"")
    (event,) = events(rows)
    assert (event["object"], event["event"], event["id"], event["body_text"]) == (
        "sms",
        "received",
        recipient_id,
        "Grüße 🐝 stop",
    )
    assert rows.group_of(recipient_id).unsubscribed == 1
    for more in ({"id": "def"}, {"id": ""}, {"id": ""}):
        reply(anon, tenant, **{**call, **more})
    assert len(events(rows)) == 4
    assert rows.group_of(recipient_id).unsubscribed == 1


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("Grüße".encode(), "GSM", "Grüße"),
        ("Привет".encode("utf-16-be"), "UTF-16BE", "Привет"),
        ("café".encode("cp1252"), "WINDOWS-1252", "café"),
        ("Grüße".encode(), "no-such-set", "Grüße"),
        ("Grüße".encode(), "idna", "Grüße"),
        (b"a\x00b+c d", "", "ab+c d"),
    ],
)
def test_a_reply_is_decoded_by_its_character_set(
    *, anon: Client, tenant: Tenant, rows: Rows, data: bytes, charset: str, text: str
) -> None:
    number = new_mobile()
    tenant.add_sender(number)
    query = urlencode({"secret": reply_secret(tenant.services.settings.secret_key), "from": new_mobile(), "to": number})
    anon.get(f"/inbound/kannel/mo?{query}&charset={charset}&text={quote(data)}")
    (event,) = events(rows)
    assert event["body_text"] == text


def test_control_characters_are_left_out_of_what_kannel_passes_on(anon: Client, tenant: Tenant, rows: Rows) -> None:
    """PostgreSQL stores no NUL, and an answer of 500 would make Kannel send the reply again."""
    number = new_mobile()
    tenant.add_sender(number)
    call = {"from": "61\x00411111111", "to": f"{number}\x00", "text": "a\x00b", "id": "a\x00b"}
    assert [reply(anon, tenant, **call).status_code for _ in range(2)] == [200, 200]
    assert [(event["mobile"], event["body_text"]) for event in events(rows)] == [("61411111111", "ab")] * 2


def test_a_reply_without_the_secret_changes_nothing(anon: Client, tenant: Tenant, rows: Rows) -> None:
    number = new_mobile()
    tenant.add_sender(number)
    call = {"from": new_mobile(), "to": number, "text": "stop"}
    check_error(reply(anon, tenant, **call, secret="wrong"), 403, "permission_denied")
    check_error(reply(anon, tenant, **call, secret=""), 403, "permission_denied")
    check_error(reply(anon, tenant, **{**call, "to": new_mobile()}), 404, "not_found")
    check_error(reply(anon, tenant, **{**call, "from": ""}), 400, "invalid_request")
    assert events(rows) == []


def test_the_url_for_the_configuration_of_kannel(tenant: Tenant) -> None:
    settings = tenant.services.settings
    secret = reply_secret(settings.secret_key)
    expected = f"{settings.public_url}/inbound/kannel/mo?secret={secret}&from=%p&to=%P&text=%b&charset=%C&id=%I"
    assert reply_url(settings) == expected
    assert len(secret) == 24
