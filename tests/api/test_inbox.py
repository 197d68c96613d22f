"""`GET /v1/inbox`: what test keys have sent (docs/testing.md#inbox)."""

from __future__ import annotations

from typing import Any

from app.clock import this_second, timestamp
from tests.support.captured import capture
from tests.support.cases import each
from tests.support.client import bad_query, check_error, ids, items, not_found
from tests.support.tenants import Tenant, new_email


def test_messages_are_listed_newest_first_without_their_content(tenant: Tenant) -> None:
    first = capture(tenant, "ann@example.com")
    second = capture(tenant, "61411111111", type="sms", subject=None, is_copy=True)
    messages = items(tenant.api.get("/v1/inbox"), "messages")
    assert [message["id"] for message in messages] == [second, first]
    assert {name: value for name, value in messages[1].items() if name not in ("uuid", "_links", "captured_time")} == {
        "id": first,
        "type": "email",
        "sender": "bounces@acme.example",
        "address": "ann@example.com",
        "subject": "Grüße",
        "blind_copy": False,
    }
    assert (messages[0]["subject"], messages[0]["blind_copy"]) == (None, True)
    assert messages[1]["_links"]["recipient"]["href"] == f"/v1/transactional-sends/{messages[1]['uuid']}"


def test_messages_are_filtered(tenant: Tenant) -> None:
    ann = new_email("Ann")
    first, other, text = (
        capture(tenant, ann),
        capture(tenant, new_email(), subject="Other"),
        capture(tenant, "61411111111", type="sms"),
    )

    def listed(**query: Any) -> list[int]:
        return ids(tenant.api.get("/v1/inbox", query), "messages")

    assert listed(address=ann) == listed(address=ann.upper()) == [first]
    assert listed(**{"id:in": f"{first}.."}) == [text, other]
    assert listed(subject="Other") == [other]
    assert listed(type="sms") == [text]
    assert listed(blind_copy="true") == []
    assert listed(limit=1, offset=1) == [other]
    bad_query(tenant.api.get("/v1/inbox", {"content": "x"}), "parameter_not_supported", field="content")


def test_one_message_has_its_content(tenant: Tenant) -> None:
    moment = this_second()
    message = capture(tenant, "ann@example.com", captured_time=moment)
    captured = tenant.api.get(f"/v1/inbox/{message}").get_json()
    assert (captured["content"], captured["captured_time"]) == ("Subject: Grüße\r\n\r\nHello", timestamp(moment))
    assert tenant.api.get(f"/v1/inbox/{message}", {"fields": "subject"}).get_json().keys() == {"subject", "_links"}


def test_an_inbox_is_of_its_account_and_needs_the_scope(tenant: Tenant, other_tenant: Tenant) -> None:
    message = capture(tenant, "ann@example.com")
    assert items(other_tenant.api.get("/v1/inbox"), "messages") == []
    not_found(other_tenant.api.get(f"/v1/inbox/{message}"))
    for level in ("report", "limited"):
        for path in ("/v1/inbox", f"/v1/inbox/{message}"):
            check_error(tenant.client(level).get(path), 403, "permission_denied")


@each("wrong", ["0", "x", "9" * 30])
def test_an_unknown_message_is_not_found(tenant: Tenant, wrong: str) -> None:
    not_found(tenant.api.get(f"/v1/inbox/{wrong}"))
