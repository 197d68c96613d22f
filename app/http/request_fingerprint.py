"""The fingerprint by which a repeated request is recognised (docs/requests.md#idempotency)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from flask import request

from app.infrastructure.digests import keyed_digest, keyed_digests
from app.secret_keys import SecretKeys


@dataclass(frozen=True, slots=True)
class RequestFingerprint:
    """The fingerprint of the current request, and the keys under which it may have been stored."""

    digest: str
    """SHA-256 of all that must be the same in a repeated request: method, path with query, and body."""
    secret_keys: SecretKeys
    is_keyed: bool = False
    """Whether a new record has it keyed: if the body has secret values, which may be short enough to be guessed from a
    hash. For other requests it is not, because processes of the release before, which answer beside those of this one
    during an upgrade, would take a keyed one for that of another request."""

    @classmethod
    def of_current(cls, secret_keys: SecretKeys) -> RequestFingerprint:
        """That of the request being handled. A trailing slash makes no difference (docs/requests.md#idempotency)."""
        path = request.path.rstrip("/")
        target = path.encode("utf-8", "surrogatepass") + b"?" + request.query_string
        parts = (request.method.encode(), target, request.get_data(cache=True))
        return cls(hashlib.sha256(b"\n".join(parts)).hexdigest(), secret_keys)

    @property
    def stored(self) -> str:
        """The fingerprint as a new record has it."""
        return keyed_digest(self.secret_keys[0], self.digest) if self.is_keyed else self.digest

    def is_of(self, stored: str) -> bool:
        """Whether the stored fingerprint is that of this request, under whichever key."""
        return stored == self.digest or stored in keyed_digests(self.secret_keys, self.digest)
