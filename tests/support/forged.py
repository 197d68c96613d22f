"""ID tokens that prove nothing: each differs in one way from what the provider of the tests signs."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Any

import orjson
from joserfc import jwt

from app.clock import now
from tests.support.provider import CLIENT_ID, CLIENT_SECRET, rsa_key

Claims = dict[str, Any]


def with_claim(**claims: Any) -> Callable[[Claims], None]:
    """Changes claims; None takes one away."""

    def change(token: Claims) -> None:
        token |= claims
        for name in [name for name, value in claims.items() if value is None]:
            del token[name]

    return change


CLAIMS: dict[str, Callable[[Claims], None]] = {
    "another nonce": with_claim(nonce="another"),
    "no nonce": with_claim(nonce=None),
    "another issuer": with_claim(iss="https://evil.example"),
    "no issuer": with_claim(iss=None),
    "a list of issuers": lambda claims: claims.update(iss=[claims["iss"]]),
    "another audience": with_claim(aud="another-client"),
    "a list with another audience": with_claim(aud=["another-client"]),
    "two audiences": with_claim(aud=[CLIENT_ID, "another-client"]),
    "two audiences for another party": with_claim(aud=[CLIENT_ID, "another-client"], azp="another-client"),
    "for another party": with_claim(azp="another-client"),
    "no audience": with_claim(aud=None),
    "expired": with_claim(exp=1),
    "no end": with_claim(exp=None),
    "an end that is no time": with_claim(exp="tomorrow"),
    "no beginning": with_claim(iat=None),
    "not yet": with_claim(nbf=int(now().timestamp()) + 3600),
    "no subject": with_claim(sub=None),
    "an empty subject": with_claim(sub=""),
    "a number as subject": with_claim(sub=7),
    "a long subject": with_claim(sub="x" * 300),
    "a subject of two lines": with_claim(sub="line\nfeed"),
    "another access token": with_claim(at_hash="AAAA"),
}
"""What the claims are -> how they are changed. The provider signs the token itself."""


def by_hand(header: dict[str, Any], claims: Claims, secret: bytes | None) -> str:
    """A token that no library would sign so: with a secret, or with nothing."""
    parts = [base64.urlsafe_b64encode(orjson.dumps(part)).decode().rstrip("=") for part in (header, claims)]
    signature = b"" if secret is None else hmac.digest(secret, ".".join(parts).encode(), "sha256")
    return ".".join([*parts, base64.urlsafe_b64encode(signature).decode().rstrip("=")])


def _altered(claims: Claims) -> str:
    head, _, signature = jwt.encode({"alg": "RS256", "kid": "first"}, claims, rsa_key("first")).split(".")
    _, body, _ = by_hand({}, {**claims, "groups": ["admins"], "altered": True}, None).split(".")
    return f"{head}.{body}.{signature}"


SIGNATURES: dict[str, Callable[[Claims], str]] = {
    "none": lambda claims: by_hand({"alg": "none"}, claims, None),
    "none, in another case": lambda claims: by_hand({"alg": "None", "kid": "first"}, claims, None),
    "no algorithm": lambda claims: by_hand({"kid": "first"}, claims, None),
    "the public key as a secret": lambda claims: by_hand(
        {"alg": "HS256", "kid": "first"}, claims, rsa_key("first").as_pem(private=False)
    ),
    "the secret of the client": lambda claims: by_hand({"alg": "HS256"}, claims, CLIENT_SECRET.encode()),
    "another key": lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, rsa_key("another")),
    "an unknown key": lambda claims: jwt.encode({"alg": "RS256", "kid": "another"}, claims, rsa_key("another")),
    "a key in the token": lambda claims: jwt.encode(
        {"alg": "RS256", "jwk": dict(rsa_key("another").as_dict(private=False))}, claims, rsa_key("another")
    ),
    "that of other claims": _altered,
    "no token": lambda _: "",
    "a text": lambda _: "no token",
    "three letters": lambda _: "a.b.c",
    "many letters": lambda _: "x" * 60_000,
}
"""What the signature is -> the token."""
