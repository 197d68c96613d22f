"""The signature header (docs/webhooks.md#signature), verified with PyJWT as a receiver would."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from pathlib import Path

import jwt
import pytest

from app.clock import this_second
from app.events.signing import signature_header

K1, K2 = "1" * 32, "2" * 40
BODY = '{"events":[{"event":"créé"}]}'.encode()


def header(now: datetime | None = None, body: bytes = BODY) -> str:
    return signature_header(
        [("k1", K1), ("k2", K2)],
        issuer="https://api.example.com",
        webhook_id=12,
        batch_id="b-1",
        body=body,
        now=now or this_second(),
    )


def test_the_id_of_a_batch_has_another_name_only_where_the_claim_is_meant() -> None:
    """The id is `batch_id` in commands, pages, files and logs (docs/webhooks.md#signature)."""
    folders = ("app", "blueprints", "schemas", "clients/python/src", "docs")
    pages = (path for folder in folders for path in Path(folder).rglob("*") if path.suffix in (".py", ".html", ".md"))
    assert {str(path) for path in pages if re.search(r"\bjti\b", path.read_text())} == {
        *("app/events/signing.py", "app/console/webhooks.py", "docs/webhooks.md"),
        *(f"clients/python/src/transactional_messaging/{name}.py" for name in ("webhooks", "testing/signing")),
    }


def test_there_is_one_jwt_per_secret_with_its_key_id() -> None:
    first, second = header().split(",")
    assert jwt.get_unverified_header(first) == {"alg": "HS256", "typ": "JWT", "kid": "k1"}
    assert jwt.get_unverified_header(second) == {"alg": "HS256", "typ": "JWT", "kid": "k2"}
    assert jwt.decode(first, K1, algorithms=["HS256"]) == jwt.decode(second, K2, algorithms=["HS256"])


def test_claims_name_issuer_webhook_batch_times_and_the_hash_of_the_body() -> None:
    moment = this_second()
    claims = jwt.decode(header(moment).split(",")[0], K1, algorithms=["HS256"], issuer="https://api.example.com")
    assert claims == {
        "iss": "https://api.example.com",
        "sub": "12",
        "iat": int(moment.timestamp()),
        "exp": int(moment.timestamp()) + 300,
        "jti": "b-1",
        "body_sha256": hashlib.sha256(BODY).hexdigest(),
    }


def test_a_signature_does_not_verify_with_another_secret() -> None:
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(header().split(",")[0], K2, algorithms=["HS256"])


def test_signatures_expire_after_five_minutes() -> None:
    with pytest.raises(jwt.ExpiredSignatureError):
        jwt.decode(header(this_second() - timedelta(seconds=301)).split(",")[0], K1, algorithms=["HS256"])
