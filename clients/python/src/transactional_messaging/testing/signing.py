"""Requests of webhooks as the service signs them, to test a receiver with."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from transactional_messaging.webhooks import LIFETIME


def sign_batch(
    events: Iterable[Mapping[str, Any]],
    secret: str,
    *,
    key_id: str = "k1",
    batch_id: str | None = None,
    issuer: str = "https://tms.example.com",
    issued: float | None = None,
) -> tuple[bytes, str]:
    """The body of a request with these events, and the value of its header `Service-Signature`."""
    body = json.dumps({"events": [dict(event) for event in events]}).encode()
    moment = int(time.time() if issued is None else issued)
    claims = {
        "iss": issuer,
        "sub": "1",
        "iat": moment,
        "exp": moment + LIFETIME,
        "jti": batch_id or str(uuid.uuid4()),
        "body_sha256": hashlib.sha256(body).hexdigest(),
    }
    signed = f"{_part({'alg': 'HS256', 'typ': 'JWT', 'kid': key_id})}.{_part(claims)}"
    return body, f"{signed}.{_encoded(hmac.digest(secret.encode(), signed.encode(), 'sha256'))}"


def _part(value: Mapping[str, object]) -> str:
    return _encoded(json.dumps(value).encode())


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
