"""Requests of webhooks: is this one from the service, and what does it report?

batch = verify(request.get_data(), request.headers.get("Service-Signature", ""), {"k1": "..."})
for event in batch.events:
    print(event.object, event.event, event.uuid)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from transactional_messaging.errors import SignatureError
from transactional_messaging.events import Event

HEADER = "Service-Signature"
LIFETIME = 300
"""Seconds for which a signature is good."""
LEEWAY = 30
"""Seconds by which two clocks may differ."""
MOST_SIGNATURES = 20
LONGEST_SIGNATURE = 4096
TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")

Secrets = str | Collection[str] | Mapping[str, str]
"""One secret, several, or several by their key ids."""


@dataclass(frozen=True)
class Batch:
    """A verified request. `id`, the `batch_id` of the service's log, stays the same when the batch is sent again."""

    id: str
    webhook_id: str
    issuer: str
    key_id: str
    time: datetime
    events: list[Event] = field(repr=False)


def verify(
    body: bytes, signature: str, secrets: Secrets, *, issuer: str | None = None, now: float | None = None
) -> Batch:
    """The batch in a request, if one of the secrets has signed exactly this body within the last five minutes.

    `body` are the bytes as they came in, `signature` is the header `Service-Signature`. `issuer`, the service's
    PUBLIC_URL, is checked if it is given. Raises `SignatureError`, which says what is wrong; answer 401.
    """
    moment = time.time() if now is None else now
    reasons = []
    for token in signature.split(",", MOST_SIGNATURES)[:MOST_SIGNATURES]:
        try:
            header, claims = _proven(token.strip(), secrets)
            _check(claims, body, issuer, moment)
            return _batch(header, claims, body)
        except SignatureError as error:
            reasons.append(str(error))
    raise SignatureError("; ".join(dict.fromkeys(reasons)))


def _proven(token: str, secrets: Secrets) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a token that one of the secrets has signed."""
    if not token:
        raise SignatureError("there is no signature")
    match = TOKEN.fullmatch(token) if len(token) <= LONGEST_SIGNATURE else None
    if match is None:
        raise SignatureError("the signature is malformed")
    header = _json_object(match[1])
    if header.get("alg") != "HS256" or "crit" in header:
        raise SignatureError("the signature is not made with HS256")
    signed, given = token.rpartition(".")[0].encode("ascii"), _decoded(match[3])
    candidates = _candidates(secrets, header.get("kid"))
    if not any(hmac.compare_digest(hmac.digest(secret, signed, "sha256"), given) for secret in candidates):
        raise SignatureError("it is signed with none of the secrets" if candidates else "its key id is not known")
    return header, _json_object(match[2])


def _check(claims: Mapping[str, Any], body: bytes, issuer: str | None, now: float) -> None:
    if not hmac.compare_digest(str(claims.get("body_sha256")).encode(), hashlib.sha256(body).hexdigest().encode()):
        raise SignatureError("the body is not the one that was signed")
    issued, expiry = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int | float) or not isinstance(expiry, int | float):
        raise SignatureError("the signature has no time")
    if now > min(expiry, issued + LIFETIME) + LEEWAY:
        raise SignatureError("the signature is too old")
    if now < issued - LEEWAY:
        raise SignatureError("the signature is from the future; is the clock right?")
    if issuer is not None and claims.get("iss") != issuer:
        raise SignatureError("another service has signed it")


def _batch(header: Mapping[str, Any], claims: Mapping[str, Any], body: bytes) -> Batch:
    try:
        events = [Event(one) for one in json.loads(body)["events"]]
    except (ValueError, KeyError, TypeError):
        raise SignatureError("the body is no batch of events") from None
    return Batch(
        id=str(claims.get("jti", "")),
        webhook_id=str(claims.get("sub", "")),
        issuer=str(claims.get("iss", "")),
        key_id=str(header.get("kid", "")),
        time=datetime.fromtimestamp(claims["iat"], UTC),
        events=events,
    )


def _candidates(secrets: Secrets, key_id: object) -> list[bytes]:
    if isinstance(secrets, Mapping):
        found = [secrets[key_id]] if isinstance(key_id, str) and key_id in secrets else []
    else:
        found = [secrets] if isinstance(secrets, str) else list(secrets)
    return [secret.encode() for secret in found]


def _json_object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SignatureError("the signature is malformed")
    return found


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise SignatureError("the signature is malformed") from None


class RecentBatches:
    """The ids of batches that were processed: the service repeats a batch whose answer was lost, and it is answered
    again but not processed again. For one process; several share a table of the database or a Redis instead."""

    def __init__(self, seconds: float = 86_400.0, most: int = 100_000) -> None:
        self._seconds, self._most = seconds, most
        self._times: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, batch: Batch) -> bool:
        with self._lock:
            return self._times.get(batch.id, -self._seconds) > time.monotonic() - self._seconds

    def add(self, batch: Batch) -> None:
        """Remembers a batch, once its events are processed."""
        with self._lock:
            self._times[batch.id] = time.monotonic()
            self._times.move_to_end(batch.id)
            oldest = time.monotonic() - self._seconds
            while self._times and (len(self._times) > self._most or next(iter(self._times.values())) < oldest):
                self._times.popitem(last=False)
