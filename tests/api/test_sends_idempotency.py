"""Idempotency-Key on sends: the same request twice sends once (docs/requests.md#idempotency)."""

from __future__ import annotations

from functools import partial

from app.db.models import Account, Message, Recipient, Send
from tests.support.cases import each
from tests.support.client import check_error, invalid
from tests.support.races import at_once
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, unique


def key() -> dict[str, str]:
    return {"Idempotency-Key": unique("key")}


def test_the_same_body_gets_the_first_answer(sends: SendsApi) -> None:
    headers, body = key(), sends.email()
    first, second = (sends.post(body, headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.get_json() == second.get_json()
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert len(sends.rows(Recipient)) == 1


def test_without_a_key_the_same_body_is_sent_again(sends: SendsApi) -> None:
    body = sends.email()
    assert sends.send(body).uuids != sends.send(body).uuids
    assert len(sends.rows(Send)) == 2


def test_another_body_with_the_same_key_is_a_conflict(sends: SendsApi) -> None:
    headers = key()
    sends.send(sends.email(), headers=headers)
    check_error(sends.post(sends.email(), headers=headers), 409, "conflict", "conflict")
    assert len(sends.rows(Send)) == 1


def test_keys_are_per_account(sends: SendsApi, other_tenant: Tenant) -> None:
    headers, theirs = key(), SendsApi(other_tenant)
    sends.send(sends.email(), headers=headers)
    response = theirs.post(theirs.email(), headers=headers)
    assert response.status_code == 202
    assert "Idempotent-Replayed" not in response.headers


@each("text", ["", " ", "a b", "x" * 256, "schlüssel"])
def test_a_malformed_key_is_refused(sends: SendsApi, text: str) -> None:
    response = sends.post(sends.email(), headers={"Idempotency-Key": text})
    check_error(response, 400, "invalid_request", "invalid_request")
    assert sends.rows(Send) == []


def test_a_refused_request_leaves_its_key_free(sends: SendsApi) -> None:
    headers = key()
    invalid(sends.post(sends.email(recipients=[]), headers=headers), "not_empty")
    invalid(sends.post(sends.email(body_text=None), headers=headers), "content_missing")
    sends.send(sends.email(), headers=headers)


def test_a_replay_does_not_check_the_account(sends: SendsApi) -> None:
    """An accepted send stays accepted, whatever has changed in the account since."""
    headers, body = key(), sends.email()
    first = sends.send(body, headers=headers)
    with sends.tenant.services.database.write() as transaction:
        transaction.get_one(Account, sends.tenant.id).owner_confirmed = False
    assert sends.send(body, headers=headers).uuids == first.uuids


def test_a_replay_does_not_validate_the_request(sends: SendsApi) -> None:
    """Without the message that determined its type, this body would be an invalid email."""
    message_id = sends.tenant.add_message(type="sms", body_text="Reply STOP", from_address=sends.number, body_html=None)
    headers = key()
    body = {
        "type": "email",
        "message_id": message_id,
        "group_name": unique("group"),
        "recipients": [{"mobile": "61411111111"}],
    }
    first = sends.send(body, headers=headers)
    with sends.tenant.services.database.write() as transaction:
        transaction.delete(transaction.get_one(Message, message_id))
    invalid(sends.post(body), "email_address_missing")
    assert sends.send(body, headers=headers).uuids == first.uuids


def test_concurrent_requests_send_once(sends: SendsApi) -> None:
    for count in range(1, 6):
        headers, body = key(), sends.email()
        post = partial(sends.post, body, headers=headers)
        responses = at_once([post] * 4)
        assert {response.status_code for response in responses} <= {202, 409}
        assert len({response.get_data() for response in responses if response.status_code == 202}) == 1
        assert len(sends.rows(Send)) == count
