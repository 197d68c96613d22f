"""The `Service-Signature` header (docs/webhooks.md#signature).

Pure: one JWT per secret, comma-separated, so that a receiver that knows any of them can verify.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

import jwt

ALGORITHM = "HS256"
LIFETIME = timedelta(minutes=5)


def request_body(payloads: Sequence[str]) -> bytes:
    """The body of a request with these events, to the byte that is signed."""
    return b'{"events":[' + ",".join(payloads).encode() + b"]}"


def check_secret(secret: str) -> None:
    """Raises `InvalidKeyError` for a secret that cannot sign: it looks like another kind of key, such as a PEM text."""
    jwt.get_algorithm_by_name(ALGORITHM).prepare_key(secret)


def signature_header(
    secrets: Sequence[tuple[str, str]], *, issuer: str, webhook_id: int, batch_id: str, body: bytes, now: datetime
) -> str:
    """The header's value for exactly this body. `secrets` are pairs of key id and secret."""
    claims = {
        "iss": issuer,
        "sub": str(webhook_id),
        "iat": now,
        "exp": now + LIFETIME,
        "jti": batch_id,
        "body_sha256": hashlib.sha256(body).hexdigest(),
    }
    return ",".join(
        jwt.encode(claims, secret, algorithm=ALGORITHM, headers={"kid": key_id}) for key_id, secret in secrets
    )
