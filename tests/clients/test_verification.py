"""Verification of webhook requests by the library, with the service's own signatures (docs/webhooks.md#signature)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from transactional_messaging import SignatureError
from transactional_messaging.testing import sign_batch
from transactional_messaging.webhooks import RecentBatches, verify

from app.demo import receiver
from app.events.signing import signature_header
from app.events.webhooks import MAX_SECRETS

OLD, NEW = (
    "an old secret, long enough to sign with, also for HS384",
    "a new secret, long enough to sign with, also for HS384",
)
EVENTS = [{"object": "recipient", "event": "sent", "id": 1, "timestamp": "2026-01-31T09:00:01Z", "uuid": "u-1"}]
BODY = json.dumps({"events": EVENTS}).encode()
MOMENT = datetime.now(UTC).replace(microsecond=0)


def signed(*secrets: tuple[str, str], body: bytes = BODY, moment: datetime = MOMENT) -> str:
    issuer = "https://tms.example.com"
    return signature_header(secrets, issuer=issuer, webhook_id=7, batch_id="b-1", body=body, now=moment)


def test_a_signature_of_the_service_proves_the_batch() -> None:
    batch = verify(BODY, signed(("k1", OLD)), {"k1": OLD}, issuer="https://tms.example.com")
    assert (batch.id, batch.webhook_id, batch.key_id, batch.time) == ("b-1", "7", "k1", MOMENT)
    (event,) = batch.events
    assert (event.object, event.event, event.uuid, event.group_id, event.test) == (
        "recipient",
        "sent",
        "u-1",
        None,
        False,
    )
    assert event.timestamp == datetime(2026, 1, 31, 9, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "secrets", [OLD, NEW, [OLD], [NEW, "another"], {"k1": OLD}, {"k2": NEW}, {"k1": "?", "k2": NEW}]
)
def test_while_a_secret_is_rotated_either_proves_it(secrets: str | list[str] | dict[str, str]) -> None:
    assert verify(BODY, signed(("k1", OLD), ("k2", NEW)), secrets).id == "b-1"


def test_each_of_the_most_secrets_that_a_webhook_may_have_proves_it() -> None:
    secrets = [(f"k{number}", f"{NEW} {number}") for number in range(MAX_SECRETS)]
    header = signed(*secrets)
    assert [verify(BODY, header, {key_id: secret}).key_id for key_id, secret in secrets] == [
        key_id for key_id, _ in secrets
    ]


@pytest.mark.parametrize(
    ("body", "signature", "reason"),
    [
        (BODY, "", "no signature"),
        (BODY, "a.b", "malformed"),
        (BODY, "!!!.###.$$$", "malformed"),
        (BODY, "YQ.YQ.YQ", "malformed"),
        (BODY, "a" * 5000, "malformed"),
        (BODY, signed(("k1", NEW)), "none of the secrets"),
        (BODY, signed(("k9", OLD)), "key id is not known"),
        (BODY + b" ", signed(("k1", OLD)), "not the one that was signed"),
        (BODY, signed(("k1", OLD), moment=MOMENT - timedelta(minutes=6)), "too old"),
        (BODY, signed(("k1", OLD), moment=MOMENT + timedelta(minutes=2)), "from the future"),
        (BODY, jwt.encode({"body_sha256": "x"}, OLD, "HS256", {"kid": "k1"}), "not the one that was signed"),
        (BODY, jwt.encode({"body_sha256": "x"}, OLD, "HS384", {"kid": "k1"}), "HS256"),
        (BODY, jwt.encode({"body_sha256": "x"}, "", "none", {"kid": "k1"}), "malformed"),
        (b"[]", signed(("k1", OLD), body=b"[]"), "no batch of events"),
    ],
)
def test_anything_else_is_refused_with_its_reason(body: bytes, signature: str, reason: str) -> None:
    with pytest.raises(SignatureError, match=reason):
        verify(body, signature, {"k1": OLD}, now=MOMENT.timestamp())


def test_a_signature_is_good_until_clocks_that_differ_a_little_say_that_it_is_old() -> None:
    header, start = signed(("k1", OLD)), MOMENT.timestamp()
    for moment in (start - 30, start, start + 330):
        assert verify(BODY, header, OLD, now=moment).id == "b-1"
    for moment in (start - 31, start + 331):
        with pytest.raises(SignatureError):
            verify(BODY, header, OLD, now=moment)


def test_a_lifetime_that_a_forger_of_claims_would_like_is_cut() -> None:
    claims = jwt.decode(signed(("k1", OLD)), OLD, ["HS256"])
    long = jwt.encode({**claims, "exp": claims["exp"] + 86_400}, OLD, "HS256", {"kid": "k1"})
    with pytest.raises(SignatureError, match="too old"):
        verify(BODY, long, OLD, now=claims["exp"] + 31)


def test_another_service_with_the_same_secret_is_refused() -> None:
    with pytest.raises(SignatureError, match="another service"):
        verify(BODY, signed(("k1", OLD)), OLD, issuer="https://other.example.com")


def test_batches_that_tests_sign_are_taken_by_every_verifier() -> None:
    body, header = sign_batch(EVENTS, OLD)
    assert verify(body, header, {"k1": OLD}).events == EVENTS
    assert receiver.verify(body, header, {"k1": OLD}) is not None


def test_a_repeated_batch_is_known_and_the_memory_is_bounded() -> None:
    recent = RecentBatches(most=2)
    batches = [verify(*sign_batch(EVENTS, OLD, batch_id=f"b-{number}"), OLD) for number in range(3)]
    for batch in batches:
        assert batch not in recent
        recent.add(batch)
    assert [batch in recent for batch in batches] == [False, True, True]
    forgetful = RecentBatches(seconds=0)
    forgetful.add(batches[0])
    assert batches[0] not in forgetful
