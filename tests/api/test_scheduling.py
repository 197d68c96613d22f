"""Sends for later, and cancelling them: additions to the API (docs/scheduling.md)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from app.clock import this_second, timestamp
from app.db.models import Event, Send
from app.sends import cancel
from app.sends.limits import MAX_DAYS_AHEAD
from tests.support.cases import each
from tests.support.client import SENDS, bad_query, check_error, invalid, items, not_found
from tests.support.contacts import add_webhook
from tests.support.rows import Rows
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.statements import StatementCounter
from tests.support.tenants import new_email, new_tenant

TOMORROW = timedelta(days=1)


def in_form(moment: datetime) -> str:
    return moment.isoformat()


def scheduled(sends: SendsApi, *, ahead: timedelta = TOMORROW, recipients: int = 1, **changes: Any) -> AcceptedSend:
    people = [{"email": new_email()} for _ in range(recipients)]
    return sends.send(sends.email(send_at=in_form(this_second() + ahead), recipients=people, **changes))


def get_recipient(sends: SendsApi, uuid: str) -> dict[str, Any]:
    recipient: dict[str, Any] = sends.tenant.api.get(f"{SENDS}/{uuid}").get_json()
    return recipient


def group(sends: SendsApi, accepted: AcceptedSend) -> dict[str, Any]:
    path = accepted.body["_links"]["transactional_group"]["href"]
    shown_group: dict[str, Any] = sends.tenant.api.get(path).get_json()
    return shown_group


def payloads(sends: SendsApi) -> list[dict[str, Any]]:
    events = select(Event.payload).where(Event.account_id == sends.tenant.id).order_by(Event.id)
    with sends.tenant.services.database.read() as session:
        return [orjson.loads(payload) for payload in session.scalars(events)]


def test_a_send_for_later_is_scheduled(sends: SendsApi) -> None:
    send_at = this_second() + TOMORROW
    accepted = sends.send(sends.email(send_at=send_at.astimezone(UTC).isoformat()))
    row = accepted.recipient
    assert (row.state, row.due_time, accepted.send.send_at) == ("scheduled", send_at, send_at)
    recipient = get_recipient(sends, row.uuid)
    assert (recipient["state"], recipient["send_at"], recipient["send_time"]) == ("scheduled", timestamp(send_at), None)
    assert recipient["creation_time"] == timestamp(row.creation_time)
    assert group(sends, accepted)["sent"] == 1, "it counts from its acceptance"


@each(
    ("text", "moment"),
    [
        ("2031-12-24T09:00:00+10:00", "2031-12-23T23:00:00Z"),
        ("2031-12-24T09:00:00-0330", "2031-12-24T12:30:00Z"),
        ("2031-12-24T09:00:00.999999Z", "2031-12-24T09:00:00Z"),
    ],
)
def test_a_time_has_an_offset_and_counts_to_the_second(
    sends: SendsApi, monkeypatch: pytest.MonkeyPatch, text: str, moment: str
) -> None:
    monkeypatch.setattr("schemas.sends.now", lambda: datetime(2031, 12, 20, tzinfo=UTC))
    assert get_recipient(sends, sends.send(sends.email(send_at=text)).uuids[0])["send_at"] == moment


@each("send_at", [None, "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_has_passed_means_at_once(sends: SendsApi, send_at: str | None) -> None:
    row = sends.send({**sends.email(), "send_at": send_at}).recipient
    assert (row.state, get_recipient(sends, row.uuid)["send_at"]) == ("queued", None)


def test_a_text_message_is_scheduled_likewise(sends: SendsApi) -> None:
    row = sends.send(sends.sms(send_at=in_form(this_second() + TOMORROW))).recipient
    assert row.state == "scheduled"


NO_TIME = "send_at must be a time with its offset from UTC, such as 2026-12-24T09:00:00+01:00."


@each(
    ("value", "code", "text"),
    [
        (5, "invalid_string", "send_at must be a string."),
        ("tomorrow", "invalid_iso_date_time", NO_TIME),
        ("2026-12-24", "invalid_iso_date_time", NO_TIME),
        ("2026-12-24T09:00:00", "invalid_iso_date_time", NO_TIME),
        ("2026-12-24 09:00:00Z", "invalid_iso_date_time", NO_TIME),
        ("2026-12-24T24:00:00Z", "invalid_iso_date_time", NO_TIME),
        ("2026-02-30T09:00:00Z", "invalid_date_time", "send_at: there is no such day."),
        ("9999-12-31T23:59:59-23:59", "invalid_range", f"send_at must be at most {MAX_DAYS_AHEAD} days ahead."),
    ],
)
def test_any_other_time_is_refused(sends: SendsApi, value: Any, code: str, text: str) -> None:
    error = invalid(sends.post(sends.email(send_at=value)), code, field="send_at")
    assert error["developer_message"] == text
    assert sends.rows(Send) == []


def test_ninety_days_ahead_is_the_most(sends: SendsApi) -> None:
    scheduled(sends, ahead=timedelta(days=MAX_DAYS_AHEAD, minutes=-1))
    late = in_form(this_second() + timedelta(days=MAX_DAYS_AHEAD, minutes=1))
    invalid(sends.post(sends.email(send_at=late)), "invalid_range", field="send_at")


def test_the_collection_finds_scheduled_messages_by_their_state(sends: SendsApi) -> None:
    later, at_once = scheduled(sends, recipients=2), sends.send(sends.email())
    by_state = {
        state: {item["uuid"] for item in items(sends.tenant.api.get(SENDS, {"state": state}), "recipients")}
        for state in ("scheduled", "queued")
    }
    assert by_state == {"scheduled": {*later.uuids}, "queued": {*at_once.uuids}}


def test_a_dry_run_says_when_it_would_be_sent(sends: SendsApi) -> None:
    send_at = this_second() + TOMORROW
    answers = [
        sends.post(sends.email(send_at=text), params={"dry_run": "true"}).get_json()["send_at"]
        for text in (in_form(send_at), None)
    ]
    assert answers == [timestamp(send_at), None]


def test_an_idempotency_key_counts_from_the_acceptance(sends: SendsApi) -> None:
    body = sends.email(send_at=in_form(this_second() + TOMORROW))
    first, second = (sends.post(body, headers={"Idempotency-Key": "later"}) for _ in range(2))
    assert (first.status_code, second.headers["Idempotent-Replayed"]) == (202, "true")
    assert first.get_json() == second.get_json()


# Cancelling.


def cancel_path(uuid: str) -> str:
    return f"{SENDS}/{uuid}/cancel"


def test_a_cancelled_message_has_failed_with_its_event_and_its_count(sends: SendsApi) -> None:
    add_webhook(sends.tenant)
    accepted = scheduled(sends, recipients=2)
    (uuid, other), before = accepted.uuids, payloads(sends)
    answer = sends.tenant.api.post(cancel_path(uuid), {})
    assert (answer.status_code, answer.get_json()) == (200, get_recipient(sends, uuid))
    recipient = answer.get_json()
    assert (recipient["state"], recipient["reason"], recipient["send_time"]) == ("failed", "cancelled", None)
    assert [step["step"] for step in recipient["timeline"]] == ["failed"]
    (event,) = payloads(sends)[len(before) :]
    assert (event["event"], event["uuid"], event["fail_reason"]) == ("failed", uuid, "cancelled")
    counts = group(sends, accepted)
    assert (counts["sent"], counts["failed_contacts"]) == (2, 1)
    assert get_recipient(sends, other)["state"] == "scheduled"


def test_cancelling_twice_does_nothing_more(sends: SendsApi) -> None:
    add_webhook(sends.tenant)
    accepted = scheduled(sends)
    first = sends.tenant.api.request("POST", cancel_path(accepted.uuids[0]))
    events = payloads(sends)
    second = sends.tenant.api.request("POST", cancel_path(accepted.uuids[0].upper()))
    assert (first.status_code, second.status_code, second.get_json()) == (200, 200, first.get_json())
    assert payloads(sends) == events
    assert group(sends, accepted)["failed_contacts"] == 1


@each("state", ["queued", "paused"])
def test_what_is_queued_or_paused_can_be_cancelled(sends: SendsApi, state: str) -> None:
    row = sends.send(sends.email()).recipient
    Rows(sends.tenant.services, sends.tenant.id).change([row.id], state=state)
    assert sends.tenant.api.post(cancel_path(row.uuid), {}).get_json()["reason"] == "cancelled"


@each(
    ("state", "why"),
    [
        ("sending", "an attempt to send it is in progress"),
        ("uncertain", "it may have been delivered already"),
        ("held", "it was held after a restore, and may have been sent before"),
        ("sent", "it has been sent"),
        ("delivered", "it has been delivered"),
        ("bounced", "it has bounced"),
        ("failed", "it has failed"),
    ],
)
def test_anything_else_cannot(sends: SendsApi, state: str, why: str) -> None:
    row = sends.send(sends.email()).recipient
    Rows(sends.tenant.services, sends.tenant.id).change([row.id], state=state)
    before = get_recipient(sends, row.uuid)
    response = sends.tenant.api.post(cancel_path(row.uuid), {})
    error = check_error(response, 409, "conflict", "recipient_not_cancellable")
    assert error["developer_message"] == f"The message cannot be cancelled: {why}."
    assert error["message"] == "This message can no longer be cancelled."
    assert get_recipient(sends, row.uuid) == before


def test_a_message_of_another_account_does_not_exist(sends: SendsApi) -> None:
    theirs = SendsApi(new_tenant(sends.tenant.app))
    uuid = scheduled(theirs).uuids[0]
    for path in (cancel_path(uuid), cancel_path("0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10"), cancel_path("none")):
        not_found(sends.tenant.api.post(path, {}))
    assert cancel_many(sends, {"uuids": [uuid]}) == set()
    assert get_recipient(theirs, uuid)["state"] == "scheduled"


@each("level", ["report", "limited"])
def test_cancelling_needs_the_scopes_of_sending(sends: SendsApi, level: str) -> None:
    uuid = scheduled(sends).uuids[0]
    for path in (cancel_path(uuid), f"{SENDS}/cancel"):
        check_error(sends.tenant.client(level).post(path, {}), 403, "permission_denied")


def test_cancelling_takes_no_parameter_and_no_attribute(sends: SendsApi) -> None:
    path = cancel_path(scheduled(sends).uuids[0])
    bad_query(sends.tenant.api.post(path, {}, params={"limit": 1}), "parameter_not_available", field="limit")
    bad_query(sends.tenant.api.post(path, {}, params={"why": 1}), "parameter_not_supported", field="why")
    invalid(sends.tenant.api.post(path, {"why": 1}), "unexpected_field", field="why")
    check_error(sends.tenant.api.raw("POST", path, b"[]"), 422, "validation_error", "invalid_object")
    for method in ("GET", "DELETE"):
        check_error(sends.tenant.api.request(method, path), 405, "method_not_allowed")


# Cancelling many.


def cancel_many(sends: SendsApi, body: Any, **params: Any) -> set[str]:
    answer = sends.tenant.api.post(f"{SENDS}/cancel", body, params=params)
    cancelled = {item["uuid"] for item in items(answer, "recipients")}
    assert (answer.get_json()["size"], answer.get_json()["_links"]) == (
        len(cancelled),
        {"self": {"href": f"{SENDS}/cancel"}},
    )
    return cancelled


def test_many_are_cancelled_by_their_uuids(sends: SendsApi) -> None:
    accepted, other = scheduled(sends, recipients=3), scheduled(sends)
    first, second, third = accepted.uuids
    Rows(sends.tenant.services, sends.tenant.id).change([accepted.recipients[1].id], state="delivered")
    assert cancel_many(sends, {"uuids": [first, second.upper(), third.upper(), "unknown"]}) == {first, third}
    states = [get_recipient(sends, uuid)["state"] for uuid in (*accepted.uuids, *other.uuids)]
    assert states == ["failed", "delivered", "failed", "scheduled"]
    assert cancel_many(sends, {"uuids": accepted.uuids}) == set()


def test_many_are_cancelled_by_filters(sends: SendsApi) -> None:
    accepted, other = scheduled(sends, recipients=3), scheduled(sends)
    assert cancel_many(sends, {}, group_id=group(sends, accepted)["id"], state="scheduled") == {*accepted.uuids}
    assert get_recipient(sends, other.uuids[0])["state"] == "scheduled"
    assert group(sends, accepted)["failed_contacts"] == 3


def test_uuids_and_filters_must_both_match(sends: SendsApi) -> None:
    later, at_once = scheduled(sends).uuids, sends.send(sends.email()).uuids
    assert cancel_many(sends, {"uuids": [*later, *at_once]}, state="queued") == {*at_once}


def test_what_is_beyond_the_limit_is_cancelled_by_the_same_request_again(
    sends: SendsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "MAX_CANCELLED", 2)
    scheduled(sends, recipients=3)
    first = sends.tenant.api.post(f"{SENDS}/cancel", {}, params={"state": "scheduled"}).get_json()
    assert (first["size"], first["_links"]["next"]["href"]) == (2, f"{SENDS}/cancel?state=scheduled")
    second = sends.tenant.api.post(first["_links"]["next"]["href"], {}).get_json()
    assert (second["size"], second["_links"]) == (1, {"self": {"href": f"{SENDS}/cancel"}})


@each("body", [b"", b"{}"])
def test_no_mistake_cancels_everything(sends: SendsApi, body: bytes) -> None:
    uuid = scheduled(sends).uuids[0]
    error = invalid(sends.tenant.api.raw("POST", f"{SENDS}/cancel", body), "required", field="uuids")
    text = "Name the messages: by uuids in the body, or by filters in the query, such as ?group_id=5."
    assert error["developer_message"] == text
    assert get_recipient(sends, uuid)["state"] == "scheduled"


@each(
    ("body", "code", "where"),
    [
        ({"uuids": []}, "not_empty", {"field": "uuids"}),
        ({"uuids": "all"}, "invalid_array", {"field": "uuids"}),
        ({"uuids": [5]}, "invalid_string", {"collection": "uuids", "index": 0}),
        ({"uuids": ["x"] * 1001}, "too_long", {"field": "uuids"}),
        ({"all": True}, "unexpected_field", {"field": "all"}),
    ],
)
def test_any_other_body_is_refused(sends: SendsApi, body: Any, code: str, where: dict[str, Any]) -> None:
    invalid(sends.tenant.api.post(f"{SENDS}/cancel", body), code, **where)


def test_parameters_other_than_filters_are_refused(sends: SendsApi) -> None:
    path = f"{SENDS}/cancel"
    bad_query(sends.tenant.api.post(path, {}, params={"limit": 1}), "parameter_not_available", field="limit")
    bad_query(sends.tenant.api.post(path, {}, params={"state": "lost"}), "invalid_query_syntax", field="state")


def test_cancelling_many_takes_as_many_statements_as_cancelling_two(sends: SendsApi) -> None:
    counts = []
    for number in (2, 40):
        accepted = scheduled(sends, recipients=number)
        with StatementCounter(sends.tenant.services.database.engine) as counter:
            assert len(cancel_many(sends, {"uuids": accepted.uuids})) == number
        counts.append(counter.count)
    assert counts[0] == counts[1]
